"""Every key of a configuration file: where it stands, how it is written, its default, what it does.

Code walks these rows to read a file and to write one back; tests hold docs/configuration.md and
config/fetchd.toml to them. A profile's rows are the limits of SPEC 1, its defaults those of the built-in one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from .config_addresses import EXCEPTIONS, LISTEN, LISTENERS, NAMESERVERS, RANGES
from .config_forms import (
    FLAG,
    HOSTS,
    METHODS,
    PATHS,
    PORTS,
    PROFILE,
    Form,
    Json,
    render_toml,
    seconds,
    some_of,
    whole,
)
from .limits import DEFAULT_PROFILE, MAX_CHARS, MAX_REDIRECTS, USER_AGENT, Profile

PROFILE_TABLE = "profiles.NAME"
"""Stands for the table of any one profile."""

BUILT_IN = "default"
"""The profile that is always there; a file may tighten it."""

RESERVED = "page_read"
"""The profile of page reads; no file may define it yet."""

TIB = 1 << 40


class Tighten(Enum):
    """What [profiles.default] may do to a limit; the value completes "write …, the built-in value"."""

    FEWER = "only entries of"
    """A subset of the built-in set."""
    LESS = "at most"
    """No more than the built-in number."""
    NEVER = "nothing but"
    """Any other value would loosen it."""
    FREE = ""
    """Every value is as tight as the built-in one, or tighter."""

    def loosens(self, value: Any, built_in: Any) -> bool:
        """Whether `value` allows anything that `built_in` does not."""
        match self:
            case Tighten.FEWER:
                return not value <= built_in
            case Tighten.LESS:
                return bool(value > built_in)
            case Tighten.NEVER:
                return bool(value != built_in)
            case Tighten.FREE:
                return False


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `default` None: not set, and `doc` says what then happens. `example` is TOML."""

    table: str
    name: str
    form: Form[Any]
    default: Json
    example: str
    doc: str
    tighten: Tighten = Tighten.FREE

    @property
    def request(self) -> str:
        """What to write, as an imperative with an example."""
        return f"write {self.form.text}, such as {self.name} = {self.example}"


SETTINGS: tuple[Key, ...] = (
    Key(
        "gateway",
        "listeners",
        LISTENERS,
        [{"address": "127.0.0.1:3128"}],
        '[{ address = "127.0.0.1:3128", profile = "default" }]',
        "Where agents reach the gateway; what comes in at an address is judged under its profile, by default"
        " default_profile.",
    ),
    Key(
        "gateway",
        "workers",
        whole(1, 64),
        None,
        "2",
        "Worker processes that share the listeners; not set: one for each core.",
    ),
    Key(
        "gateway",
        "default_profile",
        PROFILE,
        BUILT_IN,
        '"default"',
        "The profile of a listener that names none.",
    ),
    Key(
        "dns",
        "nameservers",
        NAMESERVERS,
        [],
        '["127.0.0.1:5353", "[::1]:53", "9.9.9.9"]',
        "Whom the gateway asks, in this order; empty: the nameservers of the system.",
    ),
    Key(
        "tls",
        "extra_ca",
        PATHS,
        [],
        '["corporate-ca.pem"]',
        "Roots that origins may have beside the public ones.",
    ),
    Key("daemon", "listen", LISTEN, "127.0.0.1:3129", '"127.0.0.1:3129"', "Where the tools are served."),
    Key(
        "daemon",
        "profile",
        PROFILE,
        BUILT_IN,
        '"default"',
        "The profile under which the daemon's own fetches are judged.",
    ),
    Key(
        "operator",
        "listen",
        LISTEN,
        "127.0.0.1:3130",
        '"127.0.0.1:3130"',
        "Where the operator's page, metrics and health checks are served.",
    ),
)


def _limit(name: str, form: Form[Any], example: str, tighten: Tighten, doc: str) -> Key:
    """A row whose default is what the built-in profile has."""
    default = form.dump(profile_value(DEFAULT_PROFILE, name))
    return Key(PROFILE_TABLE, name, form, default, example, doc, tighten)


def profile_value(profile: Profile, name: str) -> Any:
    """The value of a limit by the name of its key; host rules are two keys."""
    match name:
        case "allow_hosts":
            return profile.hosts.allow
        case "deny_hosts":
            return profile.hosts.deny
        case _:
            return getattr(profile, name)


LIMITS: tuple[Key, ...] = (
    _limit(
        "schemes",
        some_of("https", "http", least=1),
        '["https", "http"]',
        Tighten.FEWER,
        "URL schemes; a redirect from https to http is refused whatever stands here.",
    ),
    _limit("ports", PORTS, "[80, 443]", Tighten.FEWER, "Ports, written in the URL or the scheme's own."),
    _limit("methods", METHODS, '["GET", "HEAD", "POST"]', Tighten.FEWER, "Request methods."),
    _limit(
        "request_body",
        FLAG,
        "true",
        Tighten.NEVER,
        "Whether a request may carry a body; true needs request_cap.",
    ),
    _limit(
        "request_cap",
        whole(0, TIB, "bytes"),
        "1_048_576",
        Tighten.NEVER,
        "Size limit of a request body.",
    ),
    _limit(
        "upgrades",
        some_of("websocket", least=0),
        '["websocket"]',
        Tighten.NEVER,
        "Protocols a connection may switch to; those the gateway cannot inspect cannot be allowed.",
    ),
    _limit(
        "allow_hosts",
        HOSTS,
        '["docs.rs", "*.example.com"]',
        Tighten.FREE,
        "Hosts that may be asked; an empty list allows none.",
    ),
    _limit(
        "deny_hosts", HOSTS, '["*.ads.example"]', Tighten.FREE, "Hosts that may not; wins over allow_hosts."
    ),
    _limit(
        "credential_hosts",
        HOSTS,
        '["api.example.com"]',
        Tighten.NEVER,
        "Hosts that may receive cookies and authorization; for all others they are removed.",
    ),
    _limit(
        "byte_cap",
        whole(1, TIB, "bytes"),
        "8_388_608",
        Tighten.LESS,
        "Size limit of an answer, decompressed; exactly this much is accepted.",
    ),
    _limit("lookup_timeout", seconds(0.1, 3600), "5.0", Tighten.LESS, "Time limit of a DNS look-up."),
    _limit("connect_timeout", seconds(0.1, 3600), "5.0", Tighten.LESS, "Time limit of connecting, each hop."),
    _limit(
        "total_timeout",
        seconds(0.1, 3600),
        "20.0",
        Tighten.LESS,
        "Time limit of the whole: a hop in the gateway, redirects and body included in the daemon.",
    ),
    _limit(
        "blocked_extra",
        RANGES,
        '["168.63.129.16/32", { cidr = "5f00::/16", label = "segment routing" }]',
        Tighten.FREE,
        "Address ranges blocked beside the 30 that always are.",
    ),
    _limit(
        "exceptions",
        EXCEPTIONS,
        '[{ host = "wiki.internal.example", address = "10.0.0.7", port = 443 }]',
        Tighten.NEVER,
        "Blocked addresses (or ranges) that a host may have all the same, at one port or at all.",
    ),
)

TABLES: Mapping[str, Mapping[str, Key]] = MappingProxyType(
    {
        table: MappingProxyType({key.name: key for key in (*SETTINGS, *LIMITS) if key.table == table})
        for table in dict.fromkeys(key.table for key in (*SETTINGS, *LIMITS))
    }
)
"""The rows by table and name, in the order of documentation."""

_REDIRECTS = f"{MAX_REDIRECTS} redirects are followed in every profile"
_DOWNGRADE = "a redirect from https to http is refused in every profile"
_LITERALS = "IP addresses as hosts are refused in every profile; to reach one, name it in exceptions"
_CHARS = f"at most {MAX_CHARS} characters are returned in every profile"

UNCHANGEABLE: Mapping[str, str] = MappingProxyType(
    {
        "redirects": _REDIRECTS,
        "max_redirects": _REDIRECTS,
        "redirect_cap": _REDIRECTS,
        "downgrade": _DOWNGRADE,
        "allow_downgrade": _DOWNGRADE,
        "https_to_http": _DOWNGRADE,
        "ip_literals": _LITERALS,
        "allow_ip_literals": _LITERALS,
        "characters": _CHARS,
        "max_chars": _CHARS,
        "max_characters": _CHARS,
        "user_agent": f"the daemon's User-Agent is {USER_AGENT}",
    }
)
"""Names one would try for what no file can change, and what holds instead."""


def render_default(key: Key) -> str:
    """The default as TOML, or `not set`."""
    return "not set" if key.default is None else render_toml(key.default)
