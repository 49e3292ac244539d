"""What a worker is told when it starts: one JSON line on standard input, from its supervisor."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.config_document import render_document


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is told. `listeners` are (address, port, profile) with the ports really in use."""

    config: Config
    state_dir: Path
    series: tuple[str, ...]
    """Names of audit chains; the worker owns the first that no other process holds."""
    ledger: Path
    budgets: Path
    """Hops under way and the last minute; the bytes of a day lie in the state directory."""
    roots: Path | None
    secret: str
    listeners: tuple[tuple[str, int, str], ...]
    own: tuple[tuple[str, int], ...]
    """Every address the installation listens on, the daemon's too: never dialled (SPEC 1.2)."""
    authority: str
    """Key and certificates that the worker signs with, PEM; secret. All workers of a gateway have the same."""

    def __repr__(self) -> str:
        return f"WorkerSpec(series={self.series!r}, listeners={self.listeners!r})"

    def render(self) -> str:
        """One JSON line."""
        return json.dumps(
            {
                "config": render_document(self.config),
                "state_dir": str(self.state_dir),
                "series": self.series,
                "ledger": str(self.ledger),
                "budgets": str(self.budgets),
                "roots": str(self.roots) if self.roots is not None else None,
                "secret": self.secret,
                "listeners": self.listeners,
                "own": self.own,
                "authority": self.authority,
            }
        )


def parse_worker_spec(text: str) -> WorkerSpec:
    """What `WorkerSpec.render` wrote."""
    told = json.loads(text)
    return WorkerSpec(
        config=parse_config(told["config"], source="the supervisor"),
        state_dir=Path(told["state_dir"]),
        series=tuple(told["series"]),
        ledger=Path(told["ledger"]),
        budgets=Path(told["budgets"]),
        roots=Path(told["roots"]) if told["roots"] is not None else None,
        secret=told["secret"],
        listeners=tuple((host, port, profile) for host, port, profile in told["listeners"]),
        own=tuple((host, port) for host, port in told["own"]),
        authority=told["authority"],
    )


def count_workers(config: Config) -> int:
    """How many workers share the listeners: as configured, else one for each core."""
    return config.gateway.workers or os.cpu_count() or 1
