"""What a configuration is once read: frozen values, each under the path it has in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .agents import Agent
from .config_addresses import Endpoint, Listener
from .config_ask import AskTables
from .config_search import SearchConfig
from .limits import Profile


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
    """[tls]. Paths of PEM files, absolute when read from a file. listener_*, ca_*: both or neither."""

    extra_ca: tuple[str, ...]
    listener_certificate: str | None = None
    listener_key: str | None = None
    ca_certificate: str | None = None
    ca_key: str | None = None


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """[daemon]. names: what clients call the tools listener by, beside its address."""

    listener: Listener
    names: tuple[str, ...]

    @property
    def endpoint(self) -> Endpoint:
        """Address and port."""
        return self.listener.endpoint

    @property
    def profile(self) -> str:
        """Of callers without a name."""
        return self.listener.profile


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """[operator]. names: what browsers call the listener by, beside its address. token_sha256: of a token that signs
    in, beside the one of the state directory."""

    endpoint: Endpoint
    tls: bool = False
    names: tuple[str, ...] = ()
    token_sha256: str | None = field(default=None, repr=False)
    metrics_token_sha256: str | None = field(default=None, repr=False)
    """Of a token that reads /metrics and nothing else."""


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """[audit]. stdout: lines are printed too. keep_days, keep_bytes: what is kept; None: all."""

    stdout: bool
    keep_days: int | None
    keep_bytes: int | None


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """[metrics]. otlp_endpoint: of an OpenTelemetry collector; None: nothing is sent."""

    otlp_endpoint: str | None = None
    otlp_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a file can say, each value under the path it has there."""

    gateway: GatewayConfig
    dns: DnsConfig
    tls: TlsConfig
    daemon: DaemonConfig
    operator: OperatorConfig
    audit: AuditConfig
    metrics: MetricsConfig
    read_max_bytes: int
    """[page_read] max_bytes: decompressed bytes of a page that is read whole."""
    store_max_bytes: int
    """[store] max_bytes: of all bodies kept."""
    search: SearchConfig
    asking: AskTables
    """[web], [ask] and [vendors.NAME]."""
    agents: Mapping[str, Agent]
    profiles: Mapping[str, Profile]
    """By name; always with `default`."""

    def admits_anonymous(self, listener: Listener) -> bool:
        """Whether requests that name nobody are served: as the listener says, else on loopback, and only while
        there are no agents: one that was given a profile must not lose it by leaving out its token.
        """
        if listener.anonymous is not None:
            return listener.anonymous
        return listener.is_loopback and not self.agents
