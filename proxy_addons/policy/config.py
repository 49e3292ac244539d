"""A configuration file's content to frozen values; gateway and daemon read the same file through here.

mapping ── config_schema (rows) ──► values ── checks between keys ──► Config ── document ──► a worker

`document` is the whole configuration in JSON's terms, defaults written out; `parse_config` reads it back to
an equal `Config`, which is how a parent hands it to its workers.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .agents import Agent
from .config_addresses import Endpoint, Listener
from .config_ask import AskTables, make_ask_tables
from .config_checks import check_all
from .config_document import render_profile
from .config_forms import PROFILE_NAME, FormError, nearest, read_agent_name, render_toml
from .config_schema import (
    AGENT_TABLE,
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
from .config_search import SearchConfig, make_search_config
from .config_values import (
    AuditConfig,
    Config,
    ConfigError,
    DaemonConfig,
    DnsConfig,
    GatewayConfig,
    MetricsConfig,
    OperatorConfig,
    TlsConfig,
)
from .hosts import HostRules
from .limits import DEFAULT_PROFILE, Profile

__all__ = (
    "BUILT_IN_SOURCE",
    "AuditConfig",
    "Config",
    "ConfigError",
    "DaemonConfig",
    "MetricsConfig",
    "OperatorConfig",
    "parse_config",
    "render_profile",
)

MAX_PROFILES = 256
"""Each holds a prepared address table; far above what anyone tells apart."""
MAX_AGENTS = 10_000

BUILT_IN_SOURCE = "built-in configuration"


def parse_config(
    mapping: Mapping[str, object],
    *,
    source: str,
    base: str = "",
    added: Mapping[str, object] = MappingProxyType({}),
    added_source: str = "",
) -> Config:
    """Read a configuration as `tomllib` or `json` gives it; raises ConfigError.

    source: what errors call the file. base: the directory that paths are relative to; "" leaves them alone.
    added: agents that the file does not hold, as its own tables of them; `added_source`: what errors call those.
    """
    _check_tables(mapping, source)
    values = {
        table: _read_table(table, keys, _find_table(mapping, table), source)
        for table, keys in TABLES.items()
        if table not in (PROFILE_TABLE, AGENT_TABLE)
    }
    gateway = values["gateway"]
    agents = _read_agents(mapping.get("agents", {}), gateway["default_profile"], source)
    for name, agent in _read_agents(added, gateway["default_profile"], added_source).items():
        if name in agents:
            raise ConfigError(
                source,
                f"agents.{name}",
                f"is in {added_source} too; remove this table, or: fetchd agent revoke {name}",
            )
        agents[name] = agent
    config = Config(
        GatewayConfig(
            tuple(_complete(one, gateway["default_profile"], agents) for one in gateway["listeners"]),
            gateway["workers"],
            gateway["default_profile"],
        ),
        DnsConfig(values["dns"]["nameservers"]),
        _read_tls(values["tls"], source, base),
        _read_daemon(values["daemon"]),
        _read_operator(values["operator"]),
        AuditConfig(**values["audit"]),
        MetricsConfig(**values["metrics"]),
        values["page_read"]["max_bytes"],
        values["store"]["max_bytes"],
        _read_search(values, source, base),
        _read_asking(values, source, base, has_web="web" in mapping),
        MappingProxyType(agents),
        MappingProxyType(_read_profiles(mapping.get("profiles", {}), source)),
    )
    check_all(config, source)
    return config


# --------------------------------------------------------------------------------------------------- reading


def _check_tables(mapping: Mapping[str, object], source: str) -> None:
    tables = [
        *dict.fromkeys(key.table.partition(".")[0] for key in SETTINGS),
        "agents",
        "profiles",
    ]
    for name in mapping:
        if name in tables:
            _check_inner(name, mapping[name], source)
            continue
        home = next((key.table for key in SETTINGS if key.name == name), None)
        if home is not None:
            raise ConfigError(source, name, f"a key of [{home}]; write it under that heading")
        raise ConfigError(source, name, f"no such table; {nearest(name, tables)}")


def _check_inner(outer: str, table: object, source: str) -> None:
    """A table that has no keys of its own, only tables: what else it holds nobody would read."""
    inner = [name.partition(".")[2] for name in TABLES if name.startswith(f"{outer}.")]
    if outer in TABLES or outer in ("agents", "profiles"):
        return
    if not isinstance(table, Mapping):
        raise ConfigError(source, outer, f"write a table with the heading [{outer}.{inner[0]}]")
    for name in table:
        if name not in inner:
            raise ConfigError(source, f"{outer}.{name}", f"no such table; {nearest(name, inner)}")


def _find_table(mapping: Mapping[str, object], table: str) -> object:
    """What the file has of a table, which may stand inside another; {} where it has nothing."""
    outer, _, inner = table.partition(".")
    found = mapping.get(outer, {})
    if not inner:
        return found
    return found.get(inner, {}) if isinstance(found, Mapping) else {}


def _read_table(shown: str, keys: Mapping[str, Key], table: object, source: str) -> dict[str, Any]:
    """The values of a table by key, defaults filled in. shown: the table's name in errors."""
    if not isinstance(table, Mapping):
        raise ConfigError(source, shown, f"write a table with the heading [{shown}]")
    inner = [name.removeprefix(f"{shown}.") for name in TABLES if name.startswith(f"{shown}.")]
    for name in table:
        if name not in keys and name not in inner:
            raise ConfigError(source, f"{shown}.{name}", _explain_unknown(name, keys, inner))
    return {key.name: _read_value(shown, key, table, source) for key in keys.values()}


def _read_value(shown: str, key: Key, table: Mapping[str, object], source: str) -> Any:
    if key.name not in table and key.default is None:
        return None
    try:
        return key.form.read(table.get(key.name, key.default))
    except FormError as error:
        raise ConfigError(source, f"{shown}.{key.name}{error.where}", error.what or key.request) from None


def _explain_unknown(name: str, keys: Mapping[str, Key], inner: Sequence[str]) -> str:
    if name in UNCHANGEABLE and "schemes" in keys:
        return f"cannot be changed: {UNCHANGEABLE[name]}; remove this key"
    return f"no such key; {nearest(name, [*keys, *inner])}"


def _complete(listener: Listener, default_profile: str, agents: Mapping[str, Agent]) -> Listener:
    """A listener with the profile that the file leaves to others."""
    agent = agents.get(listener.agent)
    profile = agent.profile if agent is not None else listener.profile or default_profile
    return listener._replace(profile=profile)


def _read_tls(values: Mapping[str, Any], source: str, base: str) -> TlsConfig:
    for first, second in (("listener_certificate", "listener_key"), ("ca_certificate", "ca_key")):
        if (values[first] is None) != (values[second] is None):
            missing = second if values[second] is None else first
            raise ConfigError(source, f"tls.{missing}", f"is missing; {first} and {second} go together")

    return TlsConfig(
        tuple(found for path in values["extra_ca"] if (found := _resolve(path, base)) is not None),
        _resolve(values["listener_certificate"], base),
        _resolve(values["listener_key"], base),
        _resolve(values["ca_certificate"], base),
        _resolve(values["ca_key"], base),
    )


def _resolve(path: str | None, base: str) -> str | None:
    return path if path is None or path.startswith("/") or not base else f"{base}/{path}"


def _read_search(values: Mapping[str, Mapping[str, Any]], source: str, base: str) -> SearchConfig:
    return make_search_config(_with_keys("search", values, source, base))


def _read_asking(
    values: Mapping[str, Mapping[str, Any]], source: str, base: str, *, has_web: bool
) -> AskTables:
    tables = {name: values[name] for name in ("web", "ask")} | _with_keys("vendors", values, source, base)
    return make_ask_tables(tables, has_web=has_web)


def _with_keys(
    outer: str, values: Mapping[str, Mapping[str, Any]], source: str, base: str
) -> dict[str, dict[str, Any]]:
    """The tables named `outer` or below it, where each key of a provider has one place at the most."""
    tables = {name: dict(keys) for name, keys in values.items() if name.partition(".")[0] == outer}
    for name, keys in tables.items():
        if keys.get("key_env") is not None and keys["key_file"] is not None:
            raise ConfigError(source, f"{name}.key_file", "key_env is there too; write one of the two")
        if "key_file" in keys:
            keys["key_file"] = _resolve(keys["key_file"], base)
    return tables


def _read_daemon(values: Mapping[str, Any]) -> DaemonConfig:
    end: Endpoint = values["listen"]
    listener = Listener(
        end.host, end.port, values["profile"], anonymous=values["anonymous"], tls=values["tls"]
    )
    return DaemonConfig(listener, values["names"])


def _read_operator(values: Mapping[str, Any]) -> OperatorConfig:
    return OperatorConfig(
        values["listen"],
        values["tls"],
        values["names"],
        values["token_sha256"],
        values["metrics_token_sha256"],
    )


# ---------------------------------------------------------------------------------------------------- agents


def _read_agents(tables: object, default_profile: str, source: str) -> dict[str, Agent]:
    if not isinstance(tables, Mapping):
        raise ConfigError(source, "agents", "write each agent as a table with the heading [agents.NAME]")
    if len(tables) > MAX_AGENTS:
        raise ConfigError(source, "agents", f"write at most {MAX_AGENTS} agents")
    return {name: _read_agent(name, table, default_profile, source) for name, table in tables.items()}


def _read_agent(name: str, table: object, default_profile: str, source: str) -> Agent:
    shown = f"agents.{name}"
    try:
        read_agent_name(name)
    except FormError:
        raise ConfigError(
            source,
            shown,
            "name an agent by a small letter, then small letters, digits, _ and -, 32 at most; local and unknown"
            " are taken",
        ) from None
    values = _read_table(shown, TABLES[AGENT_TABLE], table, source)
    return Agent(name, values["profile"] or default_profile, values["token_sha256"], values["sources"])


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
        raise ConfigError(
            source,
            shown,
            "this name is reserved: page reads are judged under the agent's own profile; choose another",
        )
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
