"""The limits of a profile: SPEC section 1, first table. A profile is a named policy; `DEFAULT_PROFILE` is built in.

Sizes are bytes, times are seconds. What no profile may change stands here as constants.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from hashlib import sha256

from .addresses import AddressException, AddressTable, BlockedRange
from .hosts import HostPattern, HostRules

MAX_REDIRECTS = 5
"""Redirects followed in every profile; the sixth is refused (SPEC 1.4)."""

MAX_SECONDS = 3600
"""The longest time limit that a profile can have."""

MAX_CHARS = 40_000
"""Characters of text one web_fetch returns at the most, in every profile."""

USER_AGENT = "harness-webfetch/0.0"
"""The daemon's User-Agent (SPEC 1)."""

MIB = 1 << 20

# What a listener allows a client before it must have said something (SPEC 1.7).
CLIENT_HEAD_SECONDS = 10.0
HANDSHAKE_SECONDS = 10.0
SILENT_TUNNEL_SECONDS = 10.0
IDLE_SECONDS = 60.0
FLUSH_SECONDS = 5.0
"""For a client to take the rest of an answer once its connection was closed."""
MAX_HEAD_BYTES = 64 << 10
"""Request and response heads, both ways: what common servers grant (8 to 64 KiB), at the generous end."""


TOOLS = ("web_fetch", "page_read", "web_search")
"""The tools of the daemon that every profile has unless it says otherwise."""

ASK = "ask"
"""Completions on the operator's key: a profile has it only where it says so."""


class Mode(StrEnum):
    """What the `host` and `method` rules do: refuse, or let pass and be audited as what they would have refused."""

    ENFORCE = "enforce"
    MONITOR = "monitor"


class WebTools(StrEnum):
    """What becomes of web tools that a vendor runs for a model, in the agent's own calls to it."""

    PASS = "pass"  # noqa: S105 (no password)
    REFUSE = "refuse"
    ENFORCE = "enforce"


WEB_TOOL_USES = 5
"""Searches, and fetches, that one call to a model may make where web tools are enforced: they are billed one by one,
and no vendor has a limit of its own.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """Every limit of one profile (SPEC 1).

    schemes, ports, methods: what a request may use. request_body: whether a request may carry one, at most
    request_cap bytes. upgrades: protocol names that may follow a 101. hosts: allow and deny patterns.
    credential_hosts: hosts that may receive credentials. byte_cap: decompressed bytes of an answer, exactly the
    cap accepted. lookup/connect/total_timeout: seconds a hop. blocked_extra: ranges beside the 30 built in.
    exceptions: named holes in the blocked table. mode: see Mode. tools: those its agents may call.
    concurrent_hops, requests_per_minute, bytes_per_day: budgets of each agent under this profile, None for no limit.
    web_tools: see WebTools; web_tools_max_uses: the cap on each where they are enforced.
    """

    name: str
    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] = frozenset({80, 443})
    methods: frozenset[str] = frozenset({"GET", "HEAD"})
    request_body: bool = False
    request_cap: int = 0
    upgrades: frozenset[str] = frozenset()
    hosts: HostRules = field(default_factory=HostRules)
    credential_hosts: tuple[HostPattern, ...] = ()
    byte_cap: int = 8 * MIB
    lookup_timeout: float = 5.0
    connect_timeout: float = 5.0
    total_timeout: float = 20.0
    blocked_extra: tuple[BlockedRange, ...] = ()
    exceptions: tuple[AddressException, ...] = ()
    mode: Mode = Mode.ENFORCE
    tools: frozenset[str] = frozenset(TOOLS)
    concurrent_hops: int | None = None
    requests_per_minute: int | None = None
    bytes_per_day: int | None = None
    web_tools: WebTools = WebTools.ENFORCE
    web_tools_max_uses: int = WEB_TOOL_USES
    allowlist: tuple[HostPattern, ...] | None = None
    """The hosts that the caller of a page read narrows it to (SPEC 5); None: to none. No file sets it."""
    addresses: AddressTable = field(init=False, repr=False, compare=False)
    version: str = field(init=False, compare=False)
    """Digest of every limit: two profiles with the same limits have the same version."""

    @property
    def has_budget(self) -> bool:
        """Whether anything of an agent's hops under this profile is counted over time."""
        return (
            self.concurrent_hops is not None
            or self.requests_per_minute is not None
            or self.bytes_per_day is not None
        )

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", AddressTable(self.blocked_extra))
        object.__setattr__(self, "version", sha256(_canonical(self).encode()).hexdigest()[:12])


def _canonical(value: object) -> str:
    """Any limit as text: equal limits give equal text, different limits different text.

    Walks the dataclass fields, so that a new limit cannot be forgotten. Collections are sets here: neither
    order nor repetition of names, patterns and ranges changes what a profile allows.
    """
    if isinstance(value, (frozenset, tuple)):
        return f"{{{', '.join(sorted({_canonical(member) for member in value}))}}}"
    if isinstance(value, BlockedRange):
        return repr(value.cidr)  # the label is for readers
    if is_dataclass(value):
        parts = [f"{f.name}={_canonical(getattr(value, f.name))}" for f in fields(value) if f.init]
        return f"({', '.join(parts)})"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))  # 5 and 5.0 are one limit
    return repr(value)


DEFAULT_PROFILE = Profile("default")
"""The built-in `default` profile; a config file may only tighten it."""
