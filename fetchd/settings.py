"""Where configuration and state are found, and the configuration loaded from disk (SPEC 1.10).

configuration   --config, else FETCHD_CONFIG, else ./config/fetchd.toml if it is there, else built in
state           --state-dir, else FETCHD_STATE, else $XDG_STATE_HOME/fetchd, else ~/.local/state/fetchd

A file that was named, or that is there, is used or is an error; it is never passed over.
"""

import re
import ssl
import stat
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy_addons.policy.config import BUILT_IN_SOURCE, Config, ConfigError, parse_config
from proxy_addons.policy.config_schema import TIB

from .agent_store import StoredAgents, read_agents
from .core.read_failures import CEILING_VARIABLE

if TYPE_CHECKING:
    from certs.own import OwnFiles

CONFIG_VARIABLE = "FETCHD_CONFIG"
STATE_VARIABLE = "FETCHD_STATE"
DEFAULT_CONFIG = Path("config/fetchd.toml")

NO_AGENTS: Final = StoredAgents()

MAX_CONFIG_BYTES = 4 << 20
"""Ten thousand host patterns take about 300 KiB."""

STEADY_READS: Final = 20
"""Reads of a file that keeps changing before it is given up."""
STEADY_SECONDS: Final = 0.1
"""Between two reads: an editor, or a copy, writes a file of this size in far less."""

_AT_END = re.compile(r"\(at end of document\)")


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, what errors and listings call its source, and its file; None: built in.

    stored: the agents of the state directory, which are among those of `config`. empty: the file has no key at all.
    read_ceiling: what the environment puts in place of page_read.max_bytes.
    """

    config: Config
    source: str
    path: Path | None
    stored: StoredAgents = NO_AGENTS
    empty: bool = False
    read_ceiling: int | None = None


def find_config(option: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to load, existing or not where it was named; None for the built-in configuration."""
    if option is not None:
        return option
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named)
    try:
        # lstat: a dangling link is a file that cannot be read, which is an error, and not a missing one.
        DEFAULT_CONFIG.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(str(DEFAULT_CONFIG), "", f"cannot be read: {error.strerror}") from None
    return DEFAULT_CONFIG


def find_state_dir(option: Path | None, environ: Mapping[str, str]) -> Path:
    """The absolute path of the state directory, which need not exist. Raises ConfigError without a home."""
    if option is not None:
        return option.absolute()
    if named := environ.get(STATE_VARIABLE):
        return Path(named).absolute()
    # XDG base directories 0.8: a relative path in XDG_STATE_HOME is invalid and is to be ignored.
    if (base := environ.get("XDG_STATE_HOME", "")).startswith("/"):
        return Path(base) / "fetchd"
    if (home := environ.get("HOME", "")).startswith("/"):
        return Path(home) / ".local/state/fetchd"
    raise ConfigError(
        "environment", "HOME", f"is not set; name a directory with --state-dir or {STATE_VARIABLE}"
    )


def load_config(
    path: Path | None, environ: Mapping[str, str], stored: StoredAgents = NO_AGENTS
) -> LoadedConfig:
    """Find the file (`path`: what --config says), read and check it. Raises ConfigError, nothing else.

    stored: agents beside those of the file.
    """
    return _load(find_config(path, environ), stored, _read_bounded, _read_ceiling(environ))


def load_again(before: LoadedConfig, state_dir: Path) -> LoadedConfig:
    """The same file as before, for a reload, and the agents of the state directory as they are now.

    One that is being written is waited for: two reads must agree. One that was emptied is taken for a mistake.
    Blocks. Raises ConfigError.
    """

    def read(path: Path, source: str) -> bytes:
        data = read_steady(path, source)
        if not before.empty and not _parse_toml(data, source):
            raise ConfigError(
                source, "", "has no key at all any more; to run without: fetchd stop, fetchd up"
            )
        return data

    return _load(before.path, read_agents(state_dir), read, before.read_ceiling)


def _read_ceiling(environ: Mapping[str, str]) -> int | None:
    """Bytes that RUNX_WEB_READ_MAX_BYTES says (SPEC 5); None where it is not set. Raises ConfigError."""
    text = environ.get(CEILING_VARIABLE, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 13 and 1 <= int(text) <= TIB):
        raise ConfigError(
            "environment",
            CEILING_VARIABLE,
            f"write a whole number of bytes from 1 to {TIB}, such as 67108864",
        )
    return int(text)


def _load(
    path: Path | None, stored: StoredAgents, read: Callable[[Path, str], bytes], ceiling: int | None
) -> LoadedConfig:
    if path is None:
        mapping, source, base = {}, BUILT_IN_SOURCE, ""
    else:
        source, base = str(path), str(path.absolute().parent)
        mapping = _parse_toml(read(path, source), source)
    config = parse_config(
        mapping, source=source, base=base, added=stored.configured, added_source=stored.source
    )
    for index, authority in enumerate(config.tls.extra_ca):
        _check_authority(authority, f"tls.extra_ca[{index}]", source)
    if config.metrics.otlp_endpoint is not None and not _has_otlp():
        raise ConfigError(
            source,
            "metrics.otlp_endpoint",
            'needs packages that are not installed: pip install "fetchd[otlp]"',
        )
    if ceiling is not None:
        config = replace(config, read_max_bytes=ceiling)
    return LoadedConfig(config, source, path, stored, path is not None and not mapping, ceiling)


def read_steady(path: Path, source: str) -> bytes:
    """The content of a file that nobody is writing; raises ConfigError."""
    before = _read_bounded(path, source)
    for _ in range(STEADY_READS):
        time.sleep(STEADY_SECONDS)
        now = _read_bounded(path, source)
        if now == before:
            return now
        before = now
    raise ConfigError(source, "", "keeps changing; wait until it is written, and try again")


def _read_bounded(path: Path, source: str) -> bytes:
    try:
        # Anything but a regular file may never end, or never begin.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(source, "", "is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, ConfigError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(source, "", f"cannot be read: {reason}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(source, "", f"is larger than {MAX_CONFIG_BYTES} bytes")
    return data


def _parse_toml(data: bytes, source: str) -> dict[str, object]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(source, "", f"is not UTF-8 (at line {line}); save it as UTF-8") from None
    if text.startswith("\ufeff"):
        raise ConfigError(
            source, "", "begins with a byte order mark (at line 1); save it as UTF-8 without one"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(source, "", "is nested too deeply; no key needs more than three levels") from None
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        reason = _AT_END.sub(f"(at line {text.count(chr(10)) + 1}, the last)", str(error))
        raise ConfigError(source, "", f"is not TOML: {reason}") from None


def own_authority(config: Config) -> "OwnFiles | None":
    """The operator's own authority, where the configuration names one."""
    certificate, key = config.tls.ca_certificate, config.tls.ca_key
    if certificate is None or key is None:
        return None
    from certs.own import OwnFiles  # here: most commands need no certificates, which are slow to import

    return OwnFiles(Path(certificate), Path(key))


def check_own_authority(loaded: LoadedConfig) -> tuple[str, ...]:
    """Whether the operator's own authority can be used, and what will not work with it; raises ConfigError.

    Apart from `load_config`, since commands that judge and print have to work for users who may not read the key.
    """
    own = own_authority(loaded.config)
    if own is None:
        return ()
    from certs.errors import OwnAuthorityError
    from certs.own import load_own_authority

    try:
        return load_own_authority(own, datetime.now(UTC))[0].notes
    except OwnAuthorityError as error:
        raise ConfigError(loaded.source, f"tls.ca_{error.which}", str(error)) from None


def _has_otlp() -> bool:
    try:
        return all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.common")))
    except ModuleNotFoundError:  # of a package above
        return False


def _check_authority(authority: str, key: str, source: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=authority)
    except ssl.SSLError:
        raise ConfigError(source, key, f"{authority} holds no PEM certificate that can be read") from None
    except OSError as error:
        raise ConfigError(source, key, f"{authority} cannot be read: {error.strerror}") from None
