"""Every key of a configuration file: where it stands, how it is written, its default, what it does.

Code walks these rows to read a file and to write one back; tests hold docs/configuration.md and
config/fetchd.toml to them. A profile's rows are the limits of SPEC 1, its defaults those of the built-in one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from .config_addresses import EXCEPTIONS, LISTEN, LISTENERS, NAMESERVERS, RANGES, SOURCES
from .config_ask import (
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_SECONDS,
    DEFAULT_STEPS,
    DEFAULT_TOKENS,
    DOMAINS,
    ENDPOINTS,
    KEY_VARIABLES,
    MAX_USES,
    MODEL,
    VENDOR,
    VENDORS,
    default_dialect,
    dialect_form,
)
from .config_forms import (
    DIGEST,
    FLAG,
    HOSTS,
    METHODS,
    PATH,
    PATHS,
    PORTS,
    PROFILE,
    SERVER_NAMES,
    Form,
    Json,
    one_of,
    render_toml,
    seconds,
    some_of,
    whole,
)
from .config_search import (
    DEFAULT_CONCURRENCY,
    ENDPOINT,
    ENV_NAME,
    KEY_FILE,
    PROVIDER,
    PROVIDERS,
    REMOTE_PROVIDERS,
    ProviderNeeds,
    SearchProviderName,
)
from .limits import (
    ASK,
    DEFAULT_PROFILE,
    MAX_CHARS,
    MAX_REDIRECTS,
    MAX_SECONDS,
    TOOLS,
    USER_AGENT,
    Mode,
    Profile,
    WebTools,
)
from .reading import DEFAULT_READ_BYTES, PAGE_READ
from .vendors.dialects import Vendor
from .vendors.endpoints import DEFAULT_HOSTS

PROFILE_TABLE = "profiles.NAME"
"""Stands for the table of any one profile."""

AGENT_TABLE = "agents.NAME"
"""Stands for the table of any one agent."""

BUILT_IN = "default"
"""The profile that is always there; a file may tighten it."""

RESERVED = PAGE_READ
"""The profile of page reads: it is derived from the calling agent's own, and no file defines it."""

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


def _provider_rows(name: SearchProviderName, needs: ProviderNeeds) -> tuple[Key, ...]:
    """The table of one remote search provider."""
    table = f"search.{name}"
    key = "Its key is needed." if needs.key else "Most need none."
    return (
        Key(
            table,
            "endpoint",
            ENDPOINT,
            needs.endpoint,
            f'"{needs.endpoint or "https://search.example.com"}"',
            "Where it is.",
        ),
        Key(
            table,
            "key_env",
            ENV_NAME,
            None,
            f'"{name.upper()}_API_KEY"',
            f"The environment variable that holds its key, read at the start. {key}",
        ),
        Key(
            table,
            "key_file",
            KEY_FILE,
            None,
            f'"{name}.key"',
            "A file that holds its key, for this user alone to read; in place of key_env.",
        ),
        Key(
            table,
            "concurrency",
            whole(1, 64),
            DEFAULT_CONCURRENCY,
            "4",
            "Searches it is asked at the same time; others wait for their turn.",
        ),
        Key(
            table,
            "requests_per_minute",
            whole(1, 100_000),
            None,
            "60",
            "Searches it is asked in a minute at the most, evenly spaced; not set: no limit.",
        ),
    )


def _vendor_rows(name: Vendor) -> tuple[Key, ...]:
    """The table of one vendor of completions."""
    table = f"vendors.{name}"
    variable = KEY_VARIABLES[name]
    return (
        Key(table, "endpoint", ENDPOINT, ENDPOINTS[name], f'"{ENDPOINTS[name]}"', "Where it is."),
        Key(
            table,
            "hosts",
            HOSTS,
            [str(pattern) for pattern in DEFAULT_HOSTS[name]],
            f'["{DEFAULT_HOSTS[name][0]}"]',
            "Hosts at which agents' own calls to it are held to their profile's web_tools.",
        ),
        Key(
            table,
            "dialect",
            dialect_form(name),
            default_dialect(name),
            f'"{default_dialect(name)}"',
            "How it is asked for the web; what ends in -2025 is how it was asked then.",
        ),
        Key(
            table,
            "model",
            MODEL,
            None,
            '"model-name"',
            "The model of a run that names none; not set: each has to.",
        ),
        Key(
            table,
            "key_env",
            ENV_NAME,
            None,
            f'"{variable}"',
            f"The environment variable that holds its key, read at the start; not set, and no key_file: {variable}.",
        ),
        Key(
            table,
            "key_file",
            KEY_FILE,
            None,
            f'"{name}.key"',
            "A file that holds its key, for this user alone to read; in place of key_env.",
        ),
    )


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
    Key(
        "tls",
        "ca_certificate",
        PATH,
        None,
        '"corp-ca.pem"',
        "An authority of your own to sign with, then its issuers up to the root that clients trust; not set: one made"
        " for this installation.",
    ),
    Key(
        "tls",
        "ca_key",
        PATH,
        None,
        '"corp-ca.key"',
        "The private key of ca_certificate, without passphrase, for this user alone to read.",
    ),
    Key(
        "tls",
        "listener_certificate",
        PATH,
        None,
        '"gateway.pem"',
        "Certificate, with its chain, that listeners show to clients that speak TLS to them; not set: one of our CA.",
    ),
    Key(
        "tls",
        "listener_key",
        PATH,
        None,
        '"gateway.key"',
        "The private key of listener_certificate.",
    ),
    Key("daemon", "listen", LISTEN, "127.0.0.1:3129", '"127.0.0.1:3129"', "Where the tools are served."),
    Key(
        "daemon",
        "profile",
        PROFILE,
        BUILT_IN,
        '"default"',
        "The profile of tool calls by whoever has no name.",
    ),
    Key(
        "daemon",
        "anonymous",
        FLAG,
        None,
        "true",
        "Whether callers without a name are served; not set: on loopback, and only while there are no agents.",
    ),
    Key("daemon", "tls", FLAG, False, "true", "Whether the tools are served over TLS alone."),
    Key(
        "daemon",
        "names",
        SERVER_NAMES,
        [],
        '["fetchd.internal"]',
        "Names that clients call the tools by, beside the address and localhost.",
    ),
    Key(
        "operator",
        "listen",
        LISTEN,
        "127.0.0.1:3130",
        '"127.0.0.1:3130"',
        "Where the operator's page, metrics and health checks are served; beyond loopback over TLS only.",
    ),
    Key("operator", "tls", FLAG, False, "true", "Whether the operator's listener speaks TLS alone."),
    Key(
        "operator",
        "names",
        SERVER_NAMES,
        [],
        '["audit.fetchd.internal"]',
        "Names that browsers and probes call the operator's listener by, beside the address and localhost.",
    ),
    Key(
        "operator",
        "token_sha256",
        DIGEST,
        None,
        '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        "Digest of a token that signs in, beside the one of fetchd operator token; not set: there is none here.",
    ),
    Key(
        "operator",
        "metrics_token_sha256",
        DIGEST,
        None,
        '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        "Digest of a token that reads /metrics and nothing else; not set: open to this machine alone, on loopback.",
    ),
    Key(
        "audit",
        "stdout",
        FLAG,
        False,
        "true",
        "Whether fetchd up prints the lines of the audit log on its standard output, and nothing else there.",
    ),
    Key(
        "audit",
        "keep_days",
        whole(1, 36_500, "days"),
        None,
        "90",
        "Log files whose last line is older go; not set: none by age.",
    ),
    Key(
        "audit",
        "keep_bytes",
        whole(64 << 20, 1 << 50, "bytes"),
        None,
        "10_737_418_240",
        "Size of all log files together beyond which the oldest go; not set: none by size.",
    ),
    Key(
        "metrics",
        "otlp_endpoint",
        ENDPOINT,
        None,
        '"http://127.0.0.1:4318"',
        "An OpenTelemetry collector that is sent the numbers of /metrics over OTLP/HTTP; not set: nothing is sent.",
    ),
    Key("metrics", "otlp_seconds", whole(1, 3600), 60, "60", "Seconds between two messages to it."),
    Key(
        "page_read",
        "max_bytes",
        whole(1, TIB, "bytes"),
        DEFAULT_READ_BYTES,
        "67_108_864",
        "Size limit of a page that page_read reads whole, decompressed; RUNX_WEB_READ_MAX_BYTES beats it.",
    ),
    Key(
        "store",
        "max_bytes",
        whole(1 << 20, 1 << 50, "bytes"),
        10 << 30,
        "10_737_418_240",
        "Size limit of all bodies that page reads keep; the least recently used go first, receipted ones never.",
    ),
    Key("search", "provider", PROVIDER, "local", '"brave"', "Who answers web_search."),
    Key(
        "search",
        "fallbacks",
        PROVIDERS,
        [],
        '["local"]',
        "Who is asked, one after the other, when the one before failed.",
    ),
    Key(
        "search",
        "index",
        FLAG,
        True,
        "true",
        "Whether pages that web_fetch and page_read have read go into the local index.",
    ),
    Key(
        "search",
        "share",
        FLAG,
        False,
        "true",
        "Whether an agent finds in the local index what other agents have read.",
    ),
    Key(
        "search",
        "log_queries",
        FLAG,
        False,
        "true",
        "Whether the audit log has queries as they are; else a keyed digest of each.",
    ),
    *(row for name, needs in REMOTE_PROVIDERS.items() for row in _provider_rows(name, needs)),
    Key("web", "search", FLAG, False, "true", "Whether the vendor may search for the model."),
    Key("web", "fetch", FLAG, False, "true", "Whether the vendor may open pages for the model."),
    Key(
        "web",
        "max_uses",
        whole(1, MAX_USES),
        None,
        "3",
        "Searches and fetches of one completion at the most, as the vendor understands it; not set: no cap.",
    ),
    Key(
        "web",
        "allowed_domains",
        DOMAINS,
        [],
        '["docs.rs", "crates.io"]',
        "Hosts the vendor may reach, each with its subdomains; empty: all.",
    ),
    Key(
        "web",
        "blocked_domains",
        DOMAINS,
        [],
        '["ads.example.com"]',
        "Hosts the vendor may not reach, each with its subdomains.",
    ),
    Key("ask", "provider", VENDOR, Vendor.ANTHROPIC.value, '"anthropic"', "Which vendor is asked."),
    Key(
        "ask",
        "fallbacks",
        VENDORS,
        [],
        '["openrouter"]',
        "Who is asked, one after the other, when the one before cannot be reached or is overloaded.",
    ),
    Key("ask", "max_steps", whole(1, 100), DEFAULT_STEPS, "8", "Completions of one run at the most."),
    Key(
        "ask",
        "max_tokens",
        whole(1, 1_000_000_000),
        DEFAULT_TOKENS,
        "500_000",
        "Tokens of one run, sent and received; the answer that passes it is the last.",
    ),
    Key(
        "ask",
        "answer_tokens",
        whole(16, 1_000_000),
        DEFAULT_ANSWER_TOKENS,
        "4_096",
        "Tokens of one answer at the most.",
    ),
    Key("ask", "timeout", seconds(1, 86_400), DEFAULT_SECONDS, "300.0", "Time limit of a run."),
    *(row for name in Vendor for row in _vendor_rows(name)),
)


def _limit(name: str, form: Form[Any], example: str, tighten: Tighten, doc: str) -> Key:
    """A row whose default is what the built-in profile has."""
    value = profile_value(DEFAULT_PROFILE, name)
    default = None if value is None else form.dump(value)
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
    _limit("lookup_timeout", seconds(0.1, MAX_SECONDS), "5.0", Tighten.LESS, "Time limit of a DNS look-up."),
    _limit(
        "connect_timeout",
        seconds(0.1, MAX_SECONDS),
        "5.0",
        Tighten.LESS,
        "Time limit of connecting, each hop.",
    ),
    _limit(
        "total_timeout",
        seconds(0.1, MAX_SECONDS),
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
    _limit(
        "mode",
        one_of(Mode),
        '"monitor"',
        Tighten.NEVER,
        "In monitor, what the host and method rules would refuse is let through and audited as would_refuse; all"
        " else holds.",
    ),
    _limit(
        "tools",
        some_of(*TOOLS, ASK, least=0),
        '["web_fetch"]',
        Tighten.FEWER,
        "The daemon's tools that agents may call.",
    ),
    _limit(
        "concurrent_hops",
        whole(1, 100_000),
        "16",
        Tighten.FREE,
        "Requests of one agent under way at the same time; not set: no limit.",
    ),
    _limit(
        "requests_per_minute",
        whole(1, 10_000_000),
        "600",
        Tighten.FREE,
        "Requests of one agent in any 60 seconds; not set: no limit.",
    ),
    _limit(
        "bytes_per_day",
        whole(1, TIB, "bytes"),
        "1_073_741_824",
        Tighten.FREE,
        "Bytes of bodies, both ways as they are on the wire, of one agent in a day (UTC); not set: no limit.",
    ),
    _limit(
        "web_tools",
        one_of(WebTools),
        '"refuse"',
        Tighten.NEVER,
        "What becomes of web search and fetch that a vendor of models runs, in agents' calls to its hosts:"
        " passed, refused, or narrowed to the host rules and capped.",
    ),
    _limit(
        "web_tools_max_uses",
        whole(1, 1000),
        "3",
        Tighten.LESS,
        "Where web_tools enforces: the most searches, and fetches, of one call.",
    ),
)

AGENT_KEYS: tuple[Key, ...] = (
    Key(
        AGENT_TABLE,
        "profile",
        PROFILE,
        None,
        '"research"',
        "The profile that judges the agent's requests and tool calls; not set: default_profile.",
    ),
    Key(
        AGENT_TABLE,
        "token_sha256",
        DIGEST,
        None,
        '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        "Digest of the agent's token; not set: it has none here.",
    ),
    Key(
        AGENT_TABLE,
        "sources",
        SOURCES,
        [],
        '["172.20.0.5", "172.21.0.0/24"]',
        "Addresses from which requests without a token are the agent's.",
    ),
)

_ALL = (*SETTINGS, *AGENT_KEYS, *LIMITS)
TABLES: Mapping[str, Mapping[str, Key]] = MappingProxyType(
    {
        table: MappingProxyType({key.name: key for key in _ALL if key.table == table})
        for table in dict.fromkeys(key.table for key in _ALL)
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
