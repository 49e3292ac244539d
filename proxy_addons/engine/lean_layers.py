"""mitmproxy's layers in fewer steps: the same commands for the same events, asked for dozens of times a hop.

layers    stock runs a layer by hand, `next` by `next`, and looks before each step whether it should log it
TLS       stock reads until OpenSSL raises that there is no more, twice for each record; here it is asked first
HTTP      once connected, a client layer only handed events to the one below it

Equality with stock: tests/proxy_addons/engine/test_lean_layers.py.
"""

import logging
from itertools import chain
from typing import Any

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import HttpClient
from mitmproxy.proxy.layers.tls import ServerTLSLayer, TLSLayer
from mitmproxy.proxy.tunnel import TunnelState
from OpenSSL import SSL

_OPENSSL: Any = SSL._lib  # type: ignore[attr-defined]
_WHERE: Any = SSL._ffi.new("char **")  # type: ignore[attr-defined]
_RECORD = 65535
"""Bytes asked of OpenSSL at a time, as in stock."""


def handle_event(self: layer.Layer, event: events.Event) -> layer.CommandGenerator[None]:
    """`Layer.handle_event`: run the layer until it waits; keep what comes while it does."""
    paused = self._paused
    if paused is None:
        steps = self._handle_event(event)
        for command in steps:
            if command.blocking is True:
                command.blocking = self
                self._paused = layer.Paused(command, steps)
                yield command
                return
            yield command
    elif isinstance(event, events.CommandCompleted) and event.command is paused.command:
        yield from _go_on(self, event.reply)
    else:
        self._paused_event_queue.append(event)


def _go_on(self: layer.Layer, reply: Any) -> layer.CommandGenerator[None]:
    """What the layer waited for is here: the step that waited, then what was kept."""
    assert self._paused is not None
    steps = self._paused.generator
    self._paused = None
    try:
        rest = chain((steps.send(reply),), steps)
    except StopIteration:
        rest = chain(())
    while True:
        for command in rest:
            if command.blocking is True:
                command.blocking = self
                self._paused = layer.Paused(command, steps)
                yield command
                return
            yield command
        # Meanwhile an event within a step may have made the layer wait.
        if self._paused is not None or not self._paused_event_queue:  # type: ignore[redundant-expr]
            return
        steps = self._handle_event(self._paused_event_queue.popleft())
        rest = chain(steps)


def has_output(tls: SSL.Connection) -> bool:
    """Whether there are records to be sent to the peer."""
    return bool(_OPENSSL.BIO_get_mem_data(tls._from_ssl, _WHERE) > 0)


def has_input(tls: SSL.Connection) -> bool:
    """Whether a further read may give something. OpenSSL takes record by record out of what has come (it does not
    read ahead), so what is neither decrypted nor waiting there is at most a part of one.
    """
    return bool(_OPENSSL.SSL_pending(tls._ssl) > 0 or _OPENSSL.BIO_get_mem_data(tls._into_ssl, _WHERE) > 0)


class LeanTlsLayer(TLSLayer):
    """What both TLS layers do once the handshake is done."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As in stock; open, this layer never waits itself, so there is no pause to keep account of."""
        if self.tunnel_state is TunnelState.OPEN and self._paused is None:
            if type(event) is events.DataReceived and event.connection is self.tunnel_connection:
                return self.receive_data(event.data)
            if not isinstance(event, (events.ConnectionEvent, events.Start)):
                return self.event_to_child(event)
        return super().handle_event(event)

    def event_to_child(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As in stock."""
        if self.tunnel_state is not TunnelState.OPEN:
            yield from super().event_to_child(event)
            return
        for command in self.child_layer.handle_event(event):
            if isinstance(command, commands.ConnectionCommand) and command.connection is self.conn:
                if type(command) is commands.SendData:
                    yield from self.send_data(command.data)
                else:
                    yield from self._handle_command(command)
            else:
                yield command

    def has_only_tickets(self) -> bool:
        """Right after the handshake: what a TLS 1.3 server then has to send are session tickets, which are in no
        hurry: they go out in front of the first answer, in its write.
        """
        return self.conn is self.context.client and self.conn.tls_version == "TLSv1.3"

    def tls_interact(self) -> layer.CommandGenerator[None]:
        """Send what OpenSSL has for the peer."""
        while has_output(self.tls):
            yield commands.SendData(self.conn, self.tls.bio_read(_RECORD))

    def receive_data(self, data: bytes) -> layer.CommandGenerator[None]:
        """As in stock: records in, what was in them to the child as one piece, then the peer's end if it came."""
        tls = self.tls
        if data:
            tls.bio_write(data)
        pieces: list[bytes] = []
        close = False
        while data or has_input(tls):
            try:
                pieces.append(tls.recv(_RECORD))
            except SSL.WantReadError:
                break
            except SSL.ZeroReturnError:
                close = True
                break
            except SSL.Error as error:
                yield commands.Log(f"TLS Error: {error}", logging.WARNING)
                break
            if not has_input(tls):
                break
        if pieces or close or data or not self.has_only_tickets():
            yield from self.tls_interact()
        if pieces:
            plaintext = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            yield from self.event_to_child(events.DataReceived(self.conn, plaintext))
        if close:
            self.conn.state &= ~ConnectionState.CAN_READ
            yield from self.event_to_child(events.ConnectionClosed(self.conn))


class GateServerTlsLayer(LeanTlsLayer, ServerTLSLayer):
    """TLS with an origin."""


class GateHttpClient(HttpClient):
    """The layer that opens an upstream connection and picks the protocol on it."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As in stock, which from then on calls the protocol's layer by way of itself."""
        yield from super()._handle_event(event)
        if "child_layer" in self.__dict__:
            self.handle_event = self.child_layer.handle_event  # type: ignore[method-assign]
