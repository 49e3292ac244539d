"""What the gateway knows of one client connection (`Session`), one request on it (`Hop`), one upstream (`Origin`).

Mutable on purpose: they are the memory of a connection's state machines and live no longer than it does. Everything
judged about them is a frozen `Verdict`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mitmproxy import http
from mitmproxy.connection import Client, Server
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layer import Layer

from proxy_addons.audit.hop_record import Addresses
from proxy_addons.dial import DialReport, Judged
from proxy_addons.engine.places import Place
from proxy_addons.engine.request_line import RequestLine
from proxy_addons.policy.agents import Credential, Entrance, Identity
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.metering import BodyMeter
from proxy_addons.policy.rulebook import CurrentRules
from proxy_addons.policy.targets import Target
from proxy_addons.policy.vendors.answers import Reader
from proxy_addons.policy.vendors.endpoints import Endpoint, ErrorShape
from proxy_addons.policy.verdicts import Rule, Verdict
from proxy_addons.policy.wire import HopContext, policy_name

_KEY = "fetchd.hop"


@dataclass(frozen=True, slots=True)
class Entry:
    """A listener: where it is, and which of the rulebook's entrances it is. `tls`: it speaks nothing else."""

    host: str
    port: int
    rules: CurrentRules
    index: int
    tls: bool = False

    @property
    def entrance(self) -> Entrance:
        """What the rules in force say of it."""
        return self.rules.now.entrances[self.index]

    @property
    def agent(self) -> str:
        """What the log calls those who come in here and are not told apart."""
        return self.entrance.name

    @property
    def profile(self) -> Profile:
        """Judges them."""
        return self.entrance.profile


@dataclass(slots=True)
class Tunnel:
    """An accepted CONNECT: the name it was made for, and the refusal to answer with inside, if any."""

    target: Target
    refusal: Verdict | None = None
    credential: Credential | None = None
    """What the CONNECT said of who it is: the requests inside say nothing of that, and are judged by it each time."""
    owner: Identity | None = None
    """Who that was when it was accepted: whose bytes they are that never become a request."""


class ConnectionControl(Protocol):
    """What addons may do to a client connection; the handler is the implementation."""

    def abort(self, why: str) -> None:
        """Drop the client and its origins now."""

    def end(self, name: str, why: str) -> None:
        """As `abort`, with an event `name` in the log, but where it has ended already."""

    def reset_client(self) -> None:
        """End the client connection by a reset, where a close would look like the end of an answer."""

    def abort_origin(self, origin: Server, why: str) -> None:
        """Drop one upstream connection now."""

    def later(self, event: Event) -> None:
        """Feed an event of our own to the layers."""

    def run_hook(self, hook: StartHook) -> bool:
        """Run a hook's functions now. False: one of them waits, and the layers are told when all are done."""

    def watch_resets(self, origin: Server) -> None:
        """Have `Origin.was_reset` told when the origin resets the connection."""

    def arm(self, seconds: float, why: str) -> None:
        """Close the connection unless disarmed or re-armed within `seconds`."""

    def disarm(self) -> None:
        """The client has said what it was asked for."""


class Stoppable(Protocol):
    """A request or a WebSocket that is under way."""

    hop: "Hop"

    def stop(self, verdict: Verdict) -> None:
        """Refuse it where it stands: from here on nothing of it passes, and its client is told or cut at once."""


class HttpLayerView(Protocol):
    """An HTTP layer, as back-pressure and the protocol connections below it see it."""

    session: "Session"

    def has_idle_twin(self, origin: "Origin") -> bool:
        """Whether another idle HTTP/1 connection goes to the same place."""

    def has_request(self) -> bool:
        """Whether a request is under way."""

    def is_in_use(self) -> bool:
        """Whether a request is under way or a WebSocket open; a tunnel by itself is neither."""

    def open_streams(self) -> int:
        """Requests that are under way, or not yet let go."""

    def under_way(self) -> Sequence[Stoppable]:
        """Requests that are under way, and WebSockets."""

    def is_waiting(self, stream_id: int) -> bool:
        """Whether a stream waits for an addon and holds what comes for it."""

    def most_queued(self) -> int:
        """Pieces of a request body held by the fullest paused stream."""

    def most_answers_queued(self) -> int:
        """Pieces of an answer held by the fullest paused stream."""

    def is_pipe(self) -> bool:
        """Whether an accepted CONNECT has made the client's connection a pipe, nothing held back."""

    def sent_ahead(self) -> int:
        """Bytes held of an HTTP/1 client that does not wait for its answers."""

    def uploads_held(self) -> int:
        """Bytes of request bodies held because no origin takes them yet."""

    def h2_buffered(self) -> int:
        """Bytes held for HTTP/2 peers that do not open their windows."""


class Spending(Protocol):
    """What a hop has taken of its agent's budgets."""

    def spend(self, size: int) -> Verdict:
        """Bytes of a body or a message were read from a peer; refused: they must not be passed on."""

    def release(self) -> None:
        """The hop is over; counts once. Never raises."""


class Pipe(Protocol):
    """An accepted tunnel as the handler sees it."""

    def take_child(self) -> Layer | None:
        """The layer in the tunnel, once the HTTP connection above it only passes bytes through."""


@dataclass(slots=True, eq=False)
class Session:
    """One client connection."""

    client: Client
    entry: Entry
    control: ConnectionControl
    recorder: "Recorder"
    tunnel: Tunnel | None = None
    line: RequestLine | None = None
    """The HTTP/1 request line read last; its hop begins in the same event."""
    http_layers: list[HttpLayerView] = field(default_factory=list)
    tls_to_listener: bool = False
    tls_in_tunnel: bool = False
    place: Place | None = None
    """Its place among the worker's clients."""
    pipe: "Pipe | None" = None
    """The accepted tunnel, while the layers above it still stand between its bytes and the connection."""

    @property
    def agent(self) -> str:
        """What the log calls those whose bytes come here, before they are a request."""
        owner = self.tunnel.owner if self.tunnel is not None else None
        return owner.agent if owner is not None else self.entry.agent

    @property
    def profile(self) -> Profile:
        """Judges them."""
        owner = self.tunnel.owner if self.tunnel is not None else None
        return owner.profile if owner is not None else self.entry.profile

    @property
    def in_tls(self) -> bool:
        """Whether the bytes at hand came out of TLS that was begun at this depth (listener, or tunnel)."""
        return self.tls_in_tunnel if self.tunnel is not None else self.tls_to_listener

    def begin_tls(self) -> None:
        """A TLS record was met at this depth."""
        if self.tunnel is not None:
            self.tls_in_tunnel = True
        else:
            self.tls_to_listener = True


@dataclass(slots=True, eq=False)
class Hop:
    """One request. `number` is its place in a redirect chain, 0 for the first."""

    session: Session
    fetch_id: str
    method: str
    profile: Profile
    agent: str
    deadline: float
    """Event-loop time at which the hop's whole time is spent."""
    number: int = 0
    from_daemon: bool = False
    credential: Credential | None = None
    """What the request says of who it is."""
    line: RequestLine | None = None
    """The request line as it came (HTTP/1 only)."""
    target: Target | None = None
    shown: str | None = None
    """What stands for the URL in logs where there is no target."""
    refusal: Verdict | None = None
    would_refuse: Rule | None = None
    """The rule that a profile in monitor mode left unenforced."""
    decided: bool = False
    """The decision line is written."""
    decision: int | None = None
    """Its number in the worker's audit chain."""
    chain: str = ""
    """The name of that chain."""
    closed: bool = False
    """The close line is written."""
    answered: bool = False
    """The refusal was sent."""
    removed: tuple[str, ...] = ()
    judged: Judged | None = None
    """A look-up made for this hop alone (the daemon's); the dial uses it and no other."""
    origin: "Origin | None" = None
    looked_up: Judged | None = None
    """The look-up made on this hop's account, for its audit lines."""
    meter: BodyMeter | None = None
    spending: Spending | None = None
    """None where its profile has no budgets, and until they were asked."""
    request_bytes: int = 0
    call: "VendorCall | None" = None
    """What the request is to a vendor of models, where its host is one's."""
    redirect_to: str | None = None
    """Where its answer leads, if that is a redirect, in display form."""
    status: int | None = None
    media_type: str | None = None
    started: float = field(default_factory=time.perf_counter)
    first_byte: float | None = None

    def refuse(self, verdict: Verdict) -> None:
        """Set the refusal; the first one stands."""
        if self.refusal is None:
            self.refusal = verdict

    @property
    def refused(self) -> bool:
        """Whether some rule has stopped this hop."""
        return self.refusal is not None

    @property
    def display(self) -> str | None:
        """The hop's URL as messages show it (SPEC 1.6)."""
        return self.target.display if self.target is not None else self.shown

    @property
    def context(self) -> HopContext:
        """What an answer of ours says beside the verdict."""
        position = f"{self.chain}:{self.decision}" if self.from_daemon and self.decision is not None else None
        return HopContext(self.fetch_id, self.number, policy_name(self.profile), self.display, position)


@dataclass(slots=True, eq=False)
class VendorCall:
    """A request to a vendor of models, and what was made of it.

    kept: its body is kept until it is whole, for its web tools to be held; None: it streams.
    declared: the web tools of the request, None where nobody looked. narrowed: whether it was changed.
    reader: reads its answer on the side, decoded, as it passes.
    """

    endpoint: Endpoint
    kept: "KeptBody | None" = None
    declared: tuple[str, ...] | None = None
    narrowed: bool = False
    reader: Reader | None = None

    @property
    def shape(self) -> ErrorShape:
        """In whose words a refusal is told."""
        return self.endpoint.shape


class KeptBody(Protocol):
    """Room for one body that is kept whole."""

    def take(self, size: int) -> Verdict:
        """So many bytes more are here; refused: there is no room for them."""

    def release(self) -> None:
        """The body is not needed any more. Counts once; never raises."""


class Origin(Server):
    """An upstream connection and the judgement under which it was made."""

    hop: Hop | None = None
    """The hop it was opened for."""
    report: DialReport | None = None
    policy: str | None = None
    """Version of the profile under which its peer was judged: no other may use it."""
    audited: tuple[DialReport, Addresses] | None = None
    """A report, and what audit lines say of it."""
    failure: Verdict | None = None
    """Why it could not be opened."""
    was_reset: bool = False
    certificate_digest: str | None = None
    """SHA-256 of the verified leaf, made when first asked for."""


class Recorder(Protocol):
    """The audit of hops. Both raise AuditUnavailableError when the line cannot be written."""

    def decided(self, hop: Hop) -> None:
        """Write the decision line, once a hop, before any byte goes to the origin."""

    def closed(self, hop: Hop, error: str | None = None) -> None:
        """Write the close line, once a hop that was let through."""

    def refused(self, session: Session, verdict: Verdict) -> HopContext:
        """Write the decision line for bytes that never became a hop; what the answer to them says of itself."""

    def event(self, session: Session | None, name: str, detail: str) -> None:
        """Write a line about something that is no hop."""


class Sessions:
    """The live sessions of one worker, by client connection."""

    def __init__(self) -> None:
        self._by_client: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_client)

    def add(self, session: Session) -> None:
        self._by_client[session.client.id] = session

    def drop(self, client: Client) -> None:
        self._by_client.pop(client.id, None)

    def of(self, client: Client) -> Session:
        """Raises KeyError for a connection that is not ours or already gone: callers fail closed on it."""
        return self._by_client[client.id]

    def find(self, client: Client) -> Session | None:
        return self._by_client.get(client.id)

    def all(self) -> list[Session]:
        return list(self._by_client.values())


def attach_hop(flow: http.HTTPFlow, hop: Hop) -> None:
    """Tie a hop to mitmproxy's flow."""
    flow.metadata[_KEY] = hop


def hop_of(flow: http.HTTPFlow) -> Hop:
    """The hop of a flow; raises KeyError when it has none, on which the dispatcher fails closed."""
    hop = flow.metadata[_KEY]
    assert isinstance(hop, Hop)
    return hop
