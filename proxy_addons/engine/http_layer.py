"""The HTTP layer of one depth (listener, or tunnel): streams of ours, and upstream connections that are let go.

N10  stock never forgets a closed upstream connection: 73 KiB each on one kept-alive client.
N11  stock remembers a failed dial for the client connection's life.
     An h2 client's requests to an h1 origin opened a connection each (12 for 12); idle ones are reused here.
     The daemon's hops reuse a connection only if its peer is in the set allowed by a look-up of their own.

Hooks below this layer run where they are met, and what waited for them goes on at the end of the same event; stock
sends each up to the handler and back down through every layer, four times a hop.
"""

from mitmproxy.connection import Connection, ConnectionState
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import (
    DropStream,
    GetHttpConnection,
    GetHttpConnectionCompleted,
    HttpLayer,
    HTTPMode,
    RegisterHttpConnection,
    SendHttp,
)
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import RequestData, RequestHeaders, ResponseData
from mitmproxy.proxy.layers.http._http2 import Http2Connection, Http2Server

from proxy_addons.engine.hops import Hop, Origin, Session
from proxy_addons.engine.http1 import GateHttp1Client, GateHttp1Server
from proxy_addons.engine.http2 import GateHttp2Client, StreamGoesOn
from proxy_addons.engine.reuse import peer_is_allowed
from proxy_addons.engine.stream import GateStream, HopStopped


class GateHttpLayer(HttpLayer):
    """Implements `hops.HttpLayerView`."""

    def __init__(self, context: context.Context, mode: HTTPMode, session: Session) -> None:
        super().__init__(context, mode)
        self.session = session
        session.http_layers.append(self)
        self._completed: list[tuple[layer.Layer, events.HookCompleted]] = []

    def has_request(self) -> bool:
        """Whether a request is under way; a tunnel or a WebSocket is none."""
        return any(stream.child_layer is None for stream in self.streams.values())

    def is_in_use(self) -> bool:
        """Whether a request is under way or a WebSocket open; a tunnel by itself is neither."""
        return any(
            stream.child_layer is None or stream.flow.request.method != "CONNECT"
            for stream in self.streams.values()
        )

    def open_streams(self) -> int:
        """Requests that are under way, or not yet let go."""
        return len(self.streams)

    def under_way(self) -> list[GateStream]:
        """Requests that are under way, and WebSockets; not a CONNECT, inside which another layer has its own."""
        streams = [stream for stream in self.streams.values() if isinstance(stream, GateStream)]
        return [stream for stream in streams if stream.has_begun and stream.hop.method != "CONNECT"]

    def is_waiting(self, stream_id: int) -> bool:
        """Whether a stream waits for an addon and holds what comes for it."""
        stream = self.streams.get(stream_id)
        return stream is not None and stream._paused is not None

    def most_queued(self) -> int:
        """Pieces of a request body held by the fullest paused stream (N5)."""
        return self._most_held(RequestData)

    def most_answers_queued(self) -> int:
        """Pieces of an answer held by the fullest paused stream (N20)."""
        return self._most_held(ResponseData)

    def _most_held(self, kind: type[events.Event]) -> int:
        most = 0  # asked after each piece that is read, and nearly always of empty queues
        for stream in self.streams.values():
            if stream._paused and stream._paused_event_queue:
                most = max(most, sum(isinstance(event, kind) for event in stream._paused_event_queue))
        return most

    def sent_ahead(self) -> int:
        """Bytes held of an HTTP/1 client that does not wait for its answers (N14)."""
        server = self.connections.get(self.context.client)
        return server.sent_ahead if type(server) is GateHttp1Server else 0

    def h2_buffered(self) -> int:
        """Bytes held for a client that does not open its HTTP/2 windows (N6)."""
        server = self.connections.get(self.context.client)
        return (
            0 if type(server) is GateHttp1Server or not isinstance(server, Http2Server) else _unsent(server)
        )

    def uploads_held(self) -> int:
        """Bytes of request bodies held: by all paused streams, and for origins that do not open their windows."""
        held = 0
        for stream in self.streams.values():
            for event in stream._paused_event_queue:
                if isinstance(event, RequestData):
                    held += len(event.data)
        for top in self.connections.values():
            client = top.context.layers[-1]
            if type(client) is GateHttp2Client:
                held += _unsent(client)
        return held

    def has_idle_twin(self, origin: Origin) -> bool:
        """Whether another idle HTTP/1 connection goes to the same place."""
        return any(
            twin is not origin
            and isinstance(twin, Origin)
            and twin.connected
            and twin.address == origin.address
            and _is_idle_h1(top)
            for twin, top in self.connections.items()
        )

    def is_pipe(self) -> bool:
        """Whether an accepted CONNECT has made the client's connection a pipe, nothing held back."""
        server = self.connections.get(self.context.client)
        return isinstance(server, GateHttp1Server) and server.state == server.passthrough and not server.buf

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """The layers below wait, this one never does: stock's account of pauses is left out."""
        yield from self._handle_event(event)
        while self._completed:
            child, hook = self._completed.pop(0)
            yield from self.event_to_child(child, hook)

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, HopStopped):
            if self.streams.get(event.stream.stream_id) is event.stream:
                yield from self.event_to_child(event.stream, event)
            else:  # the HTTP layer inside a tunnel is a child of the CONNECT's stream
                for stream in list(self.streams.values()):
                    if stream.child_layer is not None:
                        yield from self.event_to_child(stream, event)
            return
        if not isinstance(event, events.ConnectionEvent) or type(event.connection) is not Origin:
            yield from super()._handle_event(event)
            return
        origin = event.connection
        if origin not in self.connections and origin is not self.context.server:
            return  # the end of one that was closed and let go before
        yield from super()._handle_event(event)
        if isinstance(event, events.ConnectionClosed) and self._is_gone(origin):
            self.connections.pop(origin, None)

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        stream = GateStream(self.context.fork(), stream_id, self.session, self.session.control.later)
        self.streams[stream_id] = stream
        yield from self.event_to_child(stream, events.Start())

    def event_to_child(self, child: layer.Layer, event: events.Event) -> layer.CommandGenerator[None]:
        return self._to_stream(child, event) if type(child) is GateStream else self._feed(child, event)

    def _to_stream(self, stream: GateStream, event: events.Event) -> layer.CommandGenerator[None]:
        yield from self._feed(stream, event)
        if self.streams.get(stream.stream_id) is not stream:
            stream.let_go()
        elif isinstance(event, events.HookCompleted):
            top = self.connections.get(stream.flow.server_conn)
            client = top.context.layers[-1] if top is not None else None
            if top is not None and type(client) is GateHttp2Client and client.owes(stream.stream_id):
                yield from self.event_to_child(top, StreamGoesOn(stream.stream_id))

    def _feed(self, child: layer.Layer, event: events.Event) -> layer.CommandGenerator[None]:
        """Stock's `event_to_child`, step for step, the commands of HTTP first: they are nine in ten."""
        for command in child.handle_event(event):
            if type(command) is SendHttp:
                yield from self.event_to_child(self.connections[command.connection], command.event)
            elif type(command) is ReceiveHttp:
                if type(command.event) is RequestHeaders:
                    yield from self.make_stream(command.event.stream_id)
                stream = self.streams.get(command.event.stream_id)
                if stream is not None:  # else: more of a stream that we are done with
                    yield from self.event_to_child(stream, command.event)
            elif type(command) is commands.SendData:
                yield command
            else:
                yield from self._obey(child, command)

    def _obey(self, child: layer.Layer, command: commands.Command) -> layer.CommandGenerator[None]:
        """The rarer commands of a layer below."""
        if isinstance(command, commands.StartHook):
            if self.session.control.run_hook(command):
                if command.blocking:
                    self._completed.append((child, events.HookCompleted(command)))
            else:
                self.command_sources[command] = child
                yield command
            return
        if command.blocking or isinstance(command, commands.RequestWakeup):
            self.command_sources[command] = child
        if isinstance(command, DropStream):
            self.streams.pop(command.stream_id, None)
        elif isinstance(command, GetHttpConnection):
            yield from self.get_connection(command)
        elif isinstance(command, RegisterHttpConnection):
            yield from self.register_connection(command)
        else:
            if isinstance(command, commands.OpenConnection):
                self.connections[command.connection] = child
            yield command

    def get_connection(self, event: GetHttpConnection, *, reuse: bool = True) -> layer.CommandGenerator[None]:
        """Reuse what may be reused, else open a new one on the hop's account."""
        self._purge()
        stream = self.command_sources[event]
        assert isinstance(stream, GateStream)
        hop = stream.hop
        connection = self._reusable(event, hop) if reuse else None
        if connection is not None:
            del self.command_sources[event]
            yield from self.event_to_child(stream, GetHttpConnectionCompleted(event, (connection, None)))
            return
        # Stock's own reuse is right but for a daemon's hop, which may ride only on what it looked up itself.
        for command in super().get_connection(event, reuse=reuse and not hop.from_daemon):
            if isinstance(command, commands.OpenConnection):
                self._charge(event, hop)  # before the dial starts
            yield command
        self._charge(event, hop)

    def _charge(self, event: GetHttpConnection, hop: Hop) -> None:
        """Tie the connection that `event` waits for to the hop that asked for it first."""
        for opening, waiting in self.waiting_for_establishment.items():
            if isinstance(opening, Origin) and any(waiter is event for waiter in waiting):
                if opening.hop is None:
                    opening.hop, opening.policy = hop, hop.profile.version
                hop.origin = opening

    def _reusable(self, event: GetHttpConnection, hop: Hop) -> Connection | None:
        h2_client = self.context.client.alpn == b"h2"
        if not (h2_client or hop.from_daemon):
            return None  # stock decides
        for connection, top in self.connections.items():
            if not (event.connection_spec_matches(connection) and connection.connected):
                continue
            if connection in self.waiting_for_establishment:
                continue
            if hop.from_daemon and not peer_is_allowed(connection, hop):
                continue
            if connection.alpn == b"h2" or _is_idle_h1(top):
                return connection
        return None

    def _purge(self) -> None:
        """Forget upstream connections that are closed, or could not be opened (N10, N11)."""
        for connection in [one for one in self.connections if type(one) is Origin and self._is_gone(one)]:
            del self.connections[connection]

    def _is_gone(self, origin: Origin) -> bool:
        return (
            origin.state is ConnectionState.CLOSED
            and origin is not self.context.server
            and origin not in self.waiting_for_establishment
            # An upload may still be sent to one that has answered and closed.
            and all(stream.context.server is not origin for stream in self.streams.values())
        )


def _unsent(peer: Http2Connection) -> int:
    return sum(len(chunk.data) for buffer in peer.h2_conn.stream_buffers.values() for chunk in buffer)


def _is_idle_h1(top: layer.Layer) -> bool:
    client = top.context.layers[-1]
    return isinstance(client, GateHttp1Client) and client.is_idle
