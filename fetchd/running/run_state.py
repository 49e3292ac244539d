"""What runs on a state directory, for every command that needs it.

| file | what |
|---|---|
| `up.lock` | locked by `fetchd up` for its whole life; holds the id of its process |
| `run.json` | what listens where; there from `ready` until the stop begins |
| `keys/daemon-secret` | the daemon's secret towards the gateway (SPEC 7), 0600 |
| `keys/control-secret` | the secret of commands that change what runs (`fetchd reload`), 0600 |

The lock decides whether anything runs: the kernel gives it back however the process dies, and no other process can be
taken for it when ids are used again.
"""

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

LOCK_FILE: Final = "up.lock"
RUN_FILE: Final = "run.json"
SECRET_FILE: Final = "daemon-secret"  # noqa: S105 (a file name)
CONTROL_FILE: Final = "control-secret"
_SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(r"[0-9a-f]{64}")

_TRIES: Final = 20
_TRY_SECONDS: Final = 0.025


@dataclass(frozen=True, slots=True)
class RunState:
    """One running installation. listeners: (address, port, profile) of the gateway.

    tls: which of the listeners speak nothing but TLS; owners: whose they are, "" for nobody's. profiles: name and
    version. agents: name and profile. config_path: the file that a reload reads, absolute; None: there is none.
    listener_certificate: the operator's own, that listeners of ours show; None: one of our CA.
    """

    pid: int
    started: str
    config: str
    listeners: tuple[tuple[str, int, str], ...]
    tools: tuple[str, int]
    operator: tuple[str, int]
    workers: int
    ca_path: str
    ca_expires: str
    config_path: str | None = None
    tls: tuple[bool, ...] = ()
    owners: tuple[str, ...] = ()
    tools_tls: bool = False
    profiles: Mapping[str, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)
    reloaded: str | None = None
    operator_tls: bool = False
    listener_certificate: str | None = None

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
            config_path=_text_or_none(document["config_path"]),
            tls=tuple(bool(one) for one in document["tls"]),
            owners=tuple(str(one) for one in document["owners"]),
            tools_tls=bool(document["tools_tls"]),
            profiles={str(name): str(version) for name, version in document["profiles"].items()},
            agents={str(name): str(profile) for name, profile in document["agents"].items()},
            reloaded=_text_or_none(document["reloaded"]),
            operator_tls=bool(document["operator_tls"]),
            listener_certificate=_text_or_none(document["listener_certificate"]),
        )

    @property
    def document(self) -> dict[str, Any]:
        """As JSON can say it."""
        return asdict(self)


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


class StateInUseError(Exception):
    """Another `fetchd up` owns the state directory; `pid` is its process."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid}" if pid is not None else "a process that is just starting")
        self.pid = pid


class SecretError(Exception):
    """The daemon's secret cannot be used; the text names the file and what to do."""


@contextmanager
def own_state_dir(state_dir: Path) -> Iterator[None]:
    """Be the only `fetchd up` on `state_dir`, which is made if need be. Raises StateInUseError, OSError."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (state_dir / LOCK_FILE).open("a+", encoding="ascii") as lock:
        if not _try_lock(lock.fileno()):
            raise StateInUseError(_read_pid(lock.fileno()))
        # Left behind by a killed process: nothing in it is true any more.
        (state_dir / RUN_FILE).unlink(missing_ok=True)
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"{os.getpid()}\n".encode("ascii"))
        try:
            yield
        finally:
            (state_dir / RUN_FILE).unlink(missing_ok=True)
            os.ftruncate(lock.fileno(), 0)


def find_owner(state_dir: Path) -> int | None:
    """The process of the `fetchd up` that owns `state_dir`, starting and stopping included; None without one."""
    try:
        with (state_dir / LOCK_FILE).open("rb") as lock:
            for _ in range(_TRIES):
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    if (pid := _read_pid(lock.fileno())) is not None:
                        return pid
                    time.sleep(_TRY_SECONDS)  # it has the lock and is about to write its id, or to end
                else:
                    return None
    except OSError:
        return None
    return None


def _try_lock(descriptor: int) -> bool:
    """Whether we have the lock now. A command that looks whether it is held holds it for a moment itself."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_TRY_SECONDS)
        else:
            return True
    return False


def _read_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.endswith(b"\n") and text.strip().isdigit() else None


def write_run_state(state_dir: Path, state: RunState) -> None:
    """Replace `run.json` in one step; raises OSError."""
    path = state_dir / RUN_FILE
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(state.document, indent=2) + "\n", "utf-8")
    scratch.replace(path)


def read_run_state(state_dir: Path) -> RunState | None:
    """What runs there and is ready; None when nothing is."""
    if find_owner(state_dir) is None:
        return None
    try:
        return RunState.parse(json.loads((state_dir / RUN_FILE).read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def remove_run_state(state_dir: Path) -> None:
    """Take our own `run.json` away."""
    (state_dir / RUN_FILE).unlink(missing_ok=True)


def load_or_create_secret(state_dir: Path, name: str = SECRET_FILE) -> str:
    """A secret of the installation, hex; made on first use. Raises SecretError, OSError.

    Several processes may start at once: it is written aside and then linked into place, which one of them wins.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = state_dir / "keys"
    keys.mkdir(mode=0o700, exist_ok=True)
    path = keys / name
    if not path.exists():
        scratch = path.with_name(f"{name}.{secrets.token_hex(8)}")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_SECRET_BYTES))
            with suppress(FileExistsError):
                path.hardlink_to(scratch)
        finally:
            scratch.unlink()
    return read_secret(state_dir, name)


def read_secret(state_dir: Path, name: str = SECRET_FILE) -> str:
    """The secret made by `load_or_create_secret`. Raises SecretError, OSError."""
    path = state_dir / "keys" / name
    with path.open("rb") as file:
        text = file.read(_SECRET_BYTES * 4).decode("latin-1").strip()
    if _SECRET.fullmatch(text) is None:
        raise SecretError(f"{path} holds no secret; remove it and start again")
    return text
