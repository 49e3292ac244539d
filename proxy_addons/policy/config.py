"""A configuration file's content to frozen values; gateway and daemon read the same file through here.

mapping ── config_schema (rows) ──► values ── checks between keys ──► Config ── document ──► a worker

`document` is the whole configuration in JSON's terms, defaults written out; `parse_config` reads it back to
an equal `Config`, which is how a parent hands it to its workers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .config_addresses import Endpoint, Listener
from .config_forms import PROFILE_NAME, FormError, Json, nearest, render_toml
from .config_schema import (
    BUILT_IN,
    LIMITS,
    PROFILE_TABLE,
    RESERVED,
    SETTINGS,
    TABLES,
    UNCHANGEABLE,
    Key,
    profile_value,
)
from .hosts import HostRules
from .limits import DEFAULT_PROFILE, Profile

MAX_PROFILES = 256
"""Each holds a prepared address table; far above what anyone tells apart."""

BUILT_IN_SOURCE = "built-in configuration"


class ConfigError(ValueError):
    """The configuration cannot be used. `str()` is one line: the source, the key, what to write."""

    def __init__(self, source: str, key: str, message: str) -> None:
        self.source = source
        self.key = key
        self.message = message
        super().__init__(": ".join(_printable(part) for part in (source, key, message) if part))


def _printable(text: str) -> str:
    """Nothing in a message may move a terminal's cursor or fake a second line."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:1000])
    return shown if len(text) <= 1000 else f"{shown}…"


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """[gateway]. workers: None means one for each core, which the caller counts."""

    listeners: tuple[Listener, ...]
    workers: int | None
    default_profile: str


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """[dns]. No nameservers: those of the system."""

    nameservers: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """[tls]. extra_ca: paths of PEM files, absolute when read from a file."""

    extra_ca: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a file can say, each value under the path it has there."""

    gateway: GatewayConfig
    dns: DnsConfig
    tls: TlsConfig
    daemon: Listener
    operator: Endpoint
    profiles: Mapping[str, Profile]
    """By name; always with `default`."""

    @property
    def document(self) -> dict[str, Json]:
        """All of it as JSON can say it: a fresh copy, which `parse_config` reads back to an equal Config."""
        return _render_document(self)


def parse_config(mapping: Mapping[str, object], *, source: str, base: str = "") -> Config:
    """Read a configuration as `tomllib` or `json` gives it; raises ConfigError.

    source: what errors call the file. base: the directory that paths are relative to; "" leaves them alone.
    """
    _check_tables(mapping, source)
    values = {
        table: _read_table(table, keys, mapping.get(table, {}), source)
        for table, keys in TABLES.items()
        if table != PROFILE_TABLE
    }
    gateway, daemon = values["gateway"], values["daemon"]
    listeners = tuple(
        Listener(one.host, one.port, one.profile or gateway["default_profile"])
        for one in gateway["listeners"]
    )
    paths = tuple(
        path if path.startswith("/") or not base else f"{base}/{path}" for path in values["tls"]["extra_ca"]
    )
    config = Config(
        GatewayConfig(listeners, gateway["workers"], gateway["default_profile"]),
        DnsConfig(values["dns"]["nameservers"]),
        TlsConfig(paths),
        Listener(daemon["listen"].host, daemon["listen"].port, daemon["profile"]),
        values["operator"]["listen"],
        MappingProxyType(_read_profiles(mapping.get("profiles", {}), source)),
    )
    _check_profiles_exist(config, source)
    _check_addresses_differ(config, source)
    return config


def render_profile(profile: Profile) -> dict[str, Json]:
    """Every limit of a profile as a document has it."""
    return {key.name: key.form.dump(profile_value(profile, key.name)) for key in LIMITS}


# --------------------------------------------------------------------------------------------------- reading


def _check_tables(mapping: Mapping[str, object], source: str) -> None:
    tables = [*dict.fromkeys(key.table for key in SETTINGS), "profiles"]
    for name in mapping:
        if name in tables:
            continue
        home = next((key.table for key in SETTINGS if key.name == name), None)
        if home is not None:
            raise ConfigError(source, name, f"a key of [{home}]; write it under that heading")
        raise ConfigError(source, name, f"no such table; {nearest(name, tables)}")


def _read_table(shown: str, keys: Mapping[str, Key], table: object, source: str) -> dict[str, Any]:
    """The values of a table by key, defaults filled in. shown: the table's name in errors."""
    if not isinstance(table, Mapping):
        raise ConfigError(source, shown, f"write a table with the heading [{shown}]")
    for name in table:
        if name not in keys:
            raise ConfigError(source, f"{shown}.{name}", _explain_unknown(name, keys))
    return {key.name: _read_value(shown, key, table, source) for key in keys.values()}


def _read_value(shown: str, key: Key, table: Mapping[str, object], source: str) -> Any:
    if key.name not in table and key.default is None:
        return None
    try:
        return key.form.read(table.get(key.name, key.default))
    except FormError as error:
        raise ConfigError(source, f"{shown}.{key.name}{error.where}", error.what or key.request) from None


def _explain_unknown(name: str, keys: Mapping[str, Key]) -> str:
    if name in UNCHANGEABLE and "schemes" in keys:
        return f"cannot be changed: {UNCHANGEABLE[name]}; remove this key"
    return f"no such key; {nearest(name, keys)}"


# -------------------------------------------------------------------------------------------------- profiles


def _read_profiles(tables: object, source: str) -> dict[str, Profile]:
    if not isinstance(tables, Mapping):
        raise ConfigError(
            source, "profiles", "write each profile as a table with the heading [profiles.NAME]"
        )
    if len(tables) > MAX_PROFILES:
        raise ConfigError(source, "profiles", f"write at most {MAX_PROFILES} profiles")
    return {BUILT_IN: DEFAULT_PROFILE} | {
        name: _read_profile(name, table, source) for name, table in tables.items()
    }


def _read_profile(name: str, table: object, source: str) -> Profile:
    shown = f"profiles.{name}"
    if name == RESERVED:
        raise ConfigError(source, shown, "this name is reserved and cannot be defined yet; choose another")
    if PROFILE_NAME.fullmatch(name) is None:
        raise ConfigError(
            source,
            shown,
            "name a profile by a small letter, then small letters, digits, _ and -, 32 at most",
        )
    values = _read_table(shown, TABLES[PROFILE_TABLE], table, source)
    if name == BUILT_IN:
        _check_tightened(values, source)
    if values["request_body"] != (values["request_cap"] > 0):
        raise ConfigError(
            source,
            f"{shown}.request_cap",
            "request_body and request_cap go together; write both, such as request_body = true and"
            " request_cap = 1_048_576, or neither",
        )
    rules = HostRules(values.pop("allow_hosts"), values.pop("deny_hosts"))
    return Profile(name, hosts=rules, **values)


def _check_tightened(values: Mapping[str, Any], source: str) -> None:
    for key in LIMITS:
        built_in = profile_value(DEFAULT_PROFILE, key.name)
        if key.tighten.loosens(values[key.name], built_in):
            raise ConfigError(
                source,
                f"profiles.{BUILT_IN}.{key.name}",
                f"{BUILT_IN} may only be tightened; write {key.tighten.value} {render_toml(key.default)}, the"
                " built-in value, or use a profile of another name",
            )


# ---------------------------------------------------------------------------------------------- between keys


def _check_profiles_exist(config: Config, source: str) -> None:
    named = [
        ("gateway.default_profile", config.gateway.default_profile),
        *((f"gateway.listeners[{i}].profile", one.profile) for i, one in enumerate(config.gateway.listeners)),
        ("daemon.profile", config.daemon.profile),
    ]
    for key, name in named:
        if name not in config.profiles:
            defined = ", ".join(list(config.profiles)[:20])
            raise ConfigError(
                source, key, f"there is no profile {name}; add [profiles.{name}] or write one of {defined}"
            )


def _check_addresses_differ(config: Config, source: str) -> None:
    """Of two sockets at one address the second fails to bind, or takes connections of the first."""
    taken: dict[Endpoint, str] = {}
    for key, endpoint in _listening(config):
        if endpoint.port and endpoint in taken:
            raise ConfigError(source, key, f"{endpoint} is {taken[endpoint]} already; write another port")
        taken[endpoint] = key


def _listening(config: Config) -> Iterator[tuple[str, Endpoint]]:
    for index, listener in enumerate(config.gateway.listeners):
        yield f"gateway.listeners[{index}].address", listener.endpoint
    yield "daemon.listen", config.daemon.endpoint
    yield "operator.listen", config.operator


# --------------------------------------------------------------------------------------------------- writing


def _render_document(config: Config) -> dict[str, Json]:
    values = {
        ("gateway", "listeners"): config.gateway.listeners,
        ("gateway", "workers"): config.gateway.workers,
        ("gateway", "default_profile"): config.gateway.default_profile,
        ("dns", "nameservers"): config.dns.nameservers,
        ("tls", "extra_ca"): config.tls.extra_ca,
        ("daemon", "listen"): config.daemon.endpoint,
        ("daemon", "profile"): config.daemon.profile,
        ("operator", "listen"): config.operator,
    }
    document: dict[str, dict[str, Json]] = {key.table: {} for key in SETTINGS}
    for key in SETTINGS:
        value = values[key.table, key.name]
        if value is not None:
            document[key.table][key.name] = key.form.dump(value)
    return {**document, "profiles": {name: render_profile(one) for name, one in config.profiles.items()}}
