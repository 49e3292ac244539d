"""What runs on a state directory: `run.json`, written by `fetchd up`, read by every command that needs a gateway.

The file names listeners and the process; the daemon's secret towards the gateway lies beside the other keys, readable
by its owner only (SPEC 7).
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

RUN_FILE: Final = "run.json"
SECRET_FILE: Final = "daemon-secret"  # noqa: S105 (a file name)
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class RunState:
    """One running installation. listeners: (address, port, profile) of the gateway."""

    pid: int
    started: str
    config: str
    listeners: tuple[tuple[str, int, str], ...]
    tools: tuple[str, int]
    operator: tuple[str, int]
    workers: int
    ca_path: str
    ca_expires: str

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError when the document is not one of ours."""
        return cls(
            pid=int(document["pid"]),
            started=str(document["started"]),
            config=str(document["config"]),
            listeners=tuple((str(h), int(p), str(n)) for h, p, n in document["listeners"]),
            tools=(str(document["tools"][0]), int(document["tools"][1])),
            operator=(str(document["operator"][0]), int(document["operator"][1])),
            workers=int(document["workers"]),
            ca_path=str(document["ca_path"]),
            ca_expires=str(document["ca_expires"]),
        )

    @property
    def is_alive(self) -> bool:
        """Whether the process that wrote the file still runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def write_run_state(state_dir: Path, state: RunState) -> None:
    """Replace `run.json` in one step; raises OSError."""
    path = state_dir / RUN_FILE
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(asdict(state), indent=2) + "\n", "utf-8")
    scratch.replace(path)


def read_run_state(state_dir: Path) -> RunState | None:
    """What runs there; None when nothing does. A file left by a killed process counts as nothing."""
    try:
        state = RunState.parse(json.loads((state_dir / RUN_FILE).read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return state if state.is_alive else None


def remove_run_state(state_dir: Path) -> None:
    """Take our own `run.json` away."""
    (state_dir / RUN_FILE).unlink(missing_ok=True)


def load_or_create_secret(state_dir: Path) -> str:
    """The daemon's secret towards the gateway, hex; made on first use, readable by its owner only (0600)."""
    keys = state_dir / "keys"
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = keys / SECRET_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_secret(state_dir)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        secret = secrets.token_hex(_SECRET_BYTES)
        file.write(secret)
    return secret


def read_secret(state_dir: Path) -> str:
    """Raises OSError, or ValueError when the file holds no secret of ours."""
    text = (state_dir / "keys" / SECRET_FILE).read_text("ascii").strip()
    if len(text) != _SECRET_BYTES * 2 or any(c not in "0123456789abcdef" for c in text):
        raise ValueError(f"{state_dir / 'keys' / SECRET_FILE} holds no secret; remove it and start again")
    return text
