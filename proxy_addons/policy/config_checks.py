"""What must hold between the keys of a configuration. Each check raises ConfigError."""

from collections.abc import Iterator

from .config_addresses import Endpoint, is_loopback
from .config_schema import TABLES
from .config_search import is_loopback as names_loopback
from .config_values import Config, ConfigError
from .targets import parse_target
from .vendors.dialects import Vendor


def check_all(config: Config, source: str) -> None:
    """Every check, in the order of their errors' usefulness. source: what errors call the file."""
    _check_profiles_exist(config, source)
    _check_agents(config, source)
    _check_addresses_differ(config, source)
    _check_exposure(config, source)
    _check_search(config, source)
    _check_asking(config, source)


def _check_search(config: Config, source: str) -> None:
    """Who is to be asked can be."""
    search = config.search
    asked = [
        ("provider", search.provider),
        *((f"fallbacks[{i}]", one) for i, one in enumerate(search.fallbacks)),
    ]
    seen = set[str]()
    for key, name in asked:
        if name in seen:
            raise ConfigError(source, f"search.{key}", f"{name} is asked before; remove it here")
        seen.add(name)
        provider = search.providers.get(name)
        missing = provider.missing if provider is not None else None
        if missing is not None:
            raise ConfigError(
                source,
                f"search.{name}.{missing}",
                f"is missing, and search.{key} names {name}; write {TABLES[f'search.{name}'][missing].request[6:]}",
            )
        vendor = config.asking.vendors.get(Vendor(name.value)) if name.value in list(Vendor) else None
        if vendor is not None and vendor.model is None:
            raise ConfigError(
                source,
                f"vendors.{name}.model",
                f"is missing, and search.{key} names {name}; write {TABLES[f'vendors.{name}']['model'].request[6:]}",
            )
        if provider is not None and _is_own_listener(provider.endpoint, config.daemon.endpoint.port):
            raise ConfigError(
                source,
                f"search.{name}.endpoint",
                "is where this installation's own tools are served, which would ask itself; name another one's",
            )


def _is_own_listener(endpoint: str | None, port: int) -> bool:
    target = parse_target(endpoint) if endpoint is not None else None
    return target is not None and names_loopback(target) and target.port == port


def _check_asking(config: Config, source: str) -> None:
    """No vendor is asked twice: who failed would fail again."""
    ask = config.asking.ask
    for index, name in enumerate(ask.fallbacks):
        if name in (ask.provider, *ask.fallbacks[:index]):
            raise ConfigError(source, f"ask.fallbacks[{index}]", f"{name} is asked before; remove it here")


def _check_agents(config: Config, source: str) -> None:
    """Whose a request is must have one answer."""
    tokens: dict[str, str] = {}
    ranges: dict[object, str] = {}
    for name, agent in config.agents.items():
        if agent.token_sha256 is not None:
            other = tokens.setdefault(agent.token_sha256, name)
            if other != name:
                raise ConfigError(
                    source,
                    f"agents.{name}.token_sha256",
                    f"is the token of {other} already; give each agent its own: fetchd agent rotate {name}",
                )
        for index, network in enumerate(agent.sources):
            if ranges.setdefault(network, name) != name:
                raise ConfigError(
                    source,
                    f"agents.{name}.sources[{index}]",
                    f"{network} is a source of {ranges[network]} already; write a range of this agent's own",
                )
    for index, listener in enumerate(config.gateway.listeners):
        if listener.agent and listener.agent not in config.agents:
            raise ConfigError(
                source,
                f"gateway.listeners[{index}].agent",
                f"there is no agent {listener.agent}; add [agents.{listener.agent}]",
            )


def _check_exposure(config: Config, source: str) -> None:
    """Who may be reached from other machines serves known agents only."""
    named = any(agent.token_sha256 is not None or agent.sources for agent in config.agents.values())
    listeners = [
        (f"gateway.listeners[{index}]", "address", one) for index, one in enumerate(config.gateway.listeners)
    ]
    for shown, address, listener in (*listeners, ("daemon", "listen", config.daemon.listener)):
        if listener.is_loopback:
            continue
        if listener.anonymous:
            raise ConfigError(
                source,
                f"{shown}.anonymous",
                f"{listener.endpoint} is not loopback, so anyone who reaches it could use it; remove this key",
            )
        if not (listener.agent or named):
            raise ConfigError(
                source,
                f"{shown}.{address}",
                f"{listener.endpoint} is not loopback, and no agent has a token yet, so nobody could be told; first:"
                f' fetchd agent add NAME, or write a loopback address, such as "127.0.0.1:{listener.port}"',
            )
    operator = config.operator
    if not (operator.tls or is_loopback(operator.endpoint.host)):
        raise ConfigError(
            source,
            "operator.listen",
            f"{operator.endpoint} is not loopback, and whoever signs in there would send the token in clear text;"
            f' write tls = true beside it, or a loopback address, such as "127.0.0.1:{operator.endpoint.port}"',
        )


def _check_profiles_exist(config: Config, source: str) -> None:
    named = [
        ("gateway.default_profile", config.gateway.default_profile),
        *((f"gateway.listeners[{i}].profile", one.profile) for i, one in enumerate(config.gateway.listeners)),
        ("daemon.profile", config.daemon.profile),
        *((f"agents.{name}.profile", agent.profile) for name, agent in config.agents.items()),
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
    yield "operator.listen", config.operator.endpoint


def find_fixed(old: Config, new: Config) -> str | None:
    """The first key that differs and that no running gateway can change; None when a reload can take all of it."""
    pairs = {
        "gateway.workers": (old.gateway.workers, new.gateway.workers),
        "gateway.listeners": tuple(
            [(one.endpoint, one.tls) for one in config.gateway.listeners] for config in (old, new)
        ),
        "dns.nameservers": (old.dns, new.dns),
        "tls": (old.tls, new.tls),
        "daemon.listen": (old.daemon.endpoint, new.daemon.endpoint),
        "daemon.tls": (old.daemon.listener.tls, new.daemon.listener.tls),
        "daemon.names": (old.daemon.names, new.daemon.names),
        "operator.listen": (old.operator.endpoint, new.operator.endpoint),
        "operator.tls": (old.operator.tls, new.operator.tls),
        "operator.names": (old.operator.names, new.operator.names),
        "audit.stdout": (old.audit.stdout, new.audit.stdout),
        "metrics": (old.metrics, new.metrics),
        "store.max_bytes": (old.store_max_bytes, new.store_max_bytes),
        **{
            f"vendors.{name}": (one.reach, new.asking.vendors[name].reach)
            for name, one in old.asking.vendors.items()
        },
        **{
            f"search.{name}": (one.reach, new.search.providers[name].reach)
            for name, one in old.search.providers.items()
        },
    }
    return next((key for key, (before, after) in pairs.items() if before != after), None)
