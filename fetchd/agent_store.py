"""Agents made by `fetchd agent`: `agents.json` in the state directory, beside those of the configuration file.

    {"bot": {"profile": "research", "token_sha256": "9f86…", "sources": [], "created": "2026-01-01T00:00:00+00:00"}}

The keys are those of [agents.NAME] and `created`. Tokens are not in it, only digests of them. Written whole or not at
all, one command at a time; readers need no lock.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from certs.files import write_file
from proxy_addons.policy.config import ConfigError

AGENTS_FILE: Final = "agents.json"
LOCK_FILE: Final = "agents.lock"
CREATED: Final = "created"
"""The one key that is not of a configuration: when the agent was added."""

MAX_BYTES: Final = 8 << 20
"""Ten thousand agents take about 2 MiB."""
LOCK_SECONDS: Final = 60.0
"""Another command may be waiting for a reload."""
_TRY_SECONDS: Final = 0.05

type Table = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StoredAgents:
    """What the file says. source: its path, for errors; "" without a state directory."""

    source: str = ""
    tables: Mapping[str, Table] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def configured(self) -> dict[str, Table]:
        """As tables of a configuration."""
        return {
            name: {key: value for key, value in table.items() if key != CREATED}
            for name, table in self.tables.items()
        }

    def having(self, name: str, table: Table) -> "StoredAgents":
        """With this agent, new or in place of the one of its name."""
        return StoredAgents(self.source, {**self.tables, name: table})

    def without(self, name: str) -> "StoredAgents":
        """Without that agent."""
        return StoredAgents(
            self.source, {other: table for other, table in self.tables.items() if other != name}
        )


def read_agents(state_dir: Path) -> StoredAgents:
    """The agents kept in a state directory, none without a file. Raises ConfigError."""
    path = state_dir / AGENTS_FILE
    source = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(source, "", "is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return StoredAgents(source)
    except OSError as error:
        raise ConfigError(source, "", f"cannot be read: {error.strerror}") from None
    try:
        tables = json.loads(data, object_pairs_hook=_take_once) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        tables = None
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(
            source, "", "is damaged; restore it, or remove it and add the agents again: fetchd agent add"
        )
    return StoredAgents(source, tables)


def _take_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object none of whose names stands twice, as in TOML: which of them counts would be a guess."""
    taken = dict(pairs)
    if len(taken) != len(pairs):
        raise ValueError("a name stands twice")
    return taken


def write_agents(state_dir: Path, stored: StoredAgents) -> None:
    """Put the file in place in one step. The caller holds the lock. Raises OSError."""
    text = json.dumps({name: dict(table) for name, table in stored.tables.items()}, indent=2) + "\n"
    write_file(state_dir / AGENTS_FILE, text.encode("ascii"), 0o600)


@contextmanager
def hold_agents(state_dir: Path) -> Iterator[None]:
    """Keep other commands from changing the file. Raises OSError, TimeoutError among them."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("another command is changing the agents; try again") from None
                time.sleep(_TRY_SECONDS)
        yield
    finally:
        os.close(descriptor)
