"""A real DNS server on 127.0.0.1 whose every answer is written by the test.

    with ScriptedDns() as dns:
        dns.host_addresses("a.example", "192.0.2.1", "2001:db8::1")   # A and AAAA
        dns.script("flip.example", "A", Addresses("192.0.2.1"), Addresses("127.0.0.1"))   # in turn
        dns.script("half.example", "AAAA", SERVFAIL)
        ...
        assert dns.count("flip.example", "A") == 1

The last outcome of a script stays. A scripted name without a script for the asked type answers NODATA; a name
without any script answers `default` (NXDOMAIN; a callable is asked each time). Names are compared without case and
trailing dot.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rrset

from tests.kit.ports import bound_socket
from tests.kit.sync import Gate, ThreadedServer, Watch


class Transport(StrEnum):
    UDP = "udp"
    TCP = "tcp"


@dataclass(frozen=True, slots=True)
class Query:
    """One query as it arrived; `name` as sent, without the last dot; `at` on the monotonic clock."""

    name: str
    rtype: str
    transport: Transport
    source_port: int
    message_id: int
    recursion_desired: bool
    at: float = field(compare=False)


# -- outcomes


@dataclass(frozen=True, slots=True, init=False)
class Addresses:
    """Records of the asked type, in this order; `via` is a CNAME chain to walk first."""

    addresses: tuple[str, ...]
    via: tuple[str, ...]
    ttl: int

    def __init__(self, *addresses: str, via: tuple[str, ...] = (), ttl: int = 0) -> None:
        object.__setattr__(self, "addresses", addresses)
        object.__setattr__(self, "via", via)
        object.__setattr__(self, "ttl", ttl)


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer without records and with this response code (NOERROR = no data)."""

    rcode: dns.rcode.Rcode


@dataclass(frozen=True, slots=True)
class Drop:
    """No answer at all."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """`then`, once the gate is open."""

    gate: Gate
    then: Outcome


@dataclass(frozen=True, slots=True)
class Truncated:
    """TC and no records over UDP; `then` over TCP."""

    then: Outcome


@dataclass(frozen=True, slots=True)
class Garbage:
    """These bytes, instead of a message."""

    wire: bytes


class Forgery(StrEnum):
    WRONG_ID = "wrong id"
    WRONG_NAME = "wrong question name"
    WRONG_TYPE = "wrong question type"
    NOT_A_RESPONSE = "QR bit clear"
    OTHER_OPCODE = "opcode of a notification"
    WRONG_SOURCE = "sent from another port"
    GARBAGE = "bytes that are no message"


@dataclass(frozen=True, slots=True)
class Forged:
    """First a forged answer carrying `lie`, then, if given, the true one."""

    how: Forgery
    lie: Outcome
    then: Outcome | None = None


@dataclass(frozen=True, slots=True)
class CnameLoop:
    """The name is an alias of another, which is an alias of the name."""


Outcome = Addresses | Failure | Drop | Delayed | Truncated | Garbage | Forged | CnameLoop
Script = Callable[[Query], Outcome]

NODATA = Failure(dns.rcode.NOERROR)
NXDOMAIN = Failure(dns.rcode.NXDOMAIN)
SERVFAIL = Failure(dns.rcode.SERVFAIL)
REFUSED = Failure(dns.rcode.REFUSED)


def in_turn(*outcomes: Outcome) -> Script:
    """Each outcome once, in this order; the last one for ever."""
    remaining = itertools.chain(outcomes, itertools.repeat(outcomes[-1]))
    return lambda query: next(remaining)


# -- the server


class ScriptedDns(ThreadedServer):
    """Listens with UDP and TCP on `host`:`port` (one free port for both)."""

    def __init__(self, host: str = "127.0.0.1", default: Outcome | Script = NXDOMAIN) -> None:
        super().__init__("scripted-dns")
        self.host = host
        self.default = default
        self._udp, self._tcp = _bound_pair(host)
        self.port: int = self._udp.getsockname()[1]
        self._scripts: dict[str, dict[str, Script]] = {}
        self._log: list[Query] = []
        self._watch = Watch()
        self._tasks: set[asyncio.Task[None]] = set()

    def script(self, name: str, rtype: str, *outcomes: Outcome | Script) -> None:
        """Set what `name`/`rtype` answers: outcomes in turn, or one callable asked each time."""
        first = outcomes[0]
        script = first if callable(first) else in_turn(*(o for o in outcomes if not callable(o)))
        with self._watch:
            self._scripts.setdefault(_key(name), {})[rtype] = script

    def host_addresses(self, name: str, *addresses: str, ttl: int = 0) -> None:
        """Give `name` these addresses, each under its own type; a type without any answers NODATA."""
        v4 = tuple(a for a in addresses if ":" not in a)
        v6 = tuple(a for a in addresses if ":" in a)
        self.script(name, "A", Addresses(*v4, ttl=ttl) if v4 else NODATA)
        self.script(name, "AAAA", Addresses(*v6, ttl=ttl) if v6 else NODATA)

    @property
    def queries(self) -> list[Query]:
        with self._watch:
            return list(self._log)

    def count(self, name: str | None = None, rtype: str | None = None) -> int:
        """How many queries came for `name` (any, if None) and `rtype` (any, if None)."""
        return sum(
            1
            for query in self.queries
            if (name is None or _key(query.name) == _key(name)) and rtype in (None, query.rtype)
        )

    def forget_queries(self) -> None:
        with self._watch:
            self._log.clear()

    async def wait_queries(self, number: int, name: str | None = None, rtype: str | None = None) -> None:
        """Wait until at least `number` such queries have arrived."""
        await self._watch.wait(
            lambda: self.count(name, rtype) >= number, f"{number} queries for {name} {rtype}"
        )

    # -- inside the server's loop

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Udp(self), sock=self._udp)
        self._server = await asyncio.start_server(self._serve_tcp, sock=self._tcp)

    async def _close(self) -> None:
        self._transport.close()
        self._server.close()

    def _answer_udp(self, wire: bytes, peer: tuple[str, int]) -> None:
        def send(reply: bytes, forged_source: bool = False) -> None:
            if forged_source:
                with bound_socket(self.host, kind=socket.SOCK_DGRAM) as other:
                    other.sendto(reply, peer)
            else:
                self._transport.sendto(reply, peer)

        task = asyncio.get_running_loop().create_task(self._answer(wire, Transport.UDP, peer[1], send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(reply: bytes, forged_source: bool = False) -> None:
            writer.write(struct.pack("!H", len(reply)) + reply)

        source_port = writer.get_extra_info("peername")[1]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                wire = await reader.readexactly(length)
                await self._answer(wire, Transport.TCP, source_port, send)
                await writer.drain()
        writer.close()

    async def _answer(
        self, wire: bytes, transport: Transport, source_port: int, send: Callable[..., None]
    ) -> None:
        message = dns.message.from_wire(wire)
        question = message.question[0]
        query = Query(
            name=question.name.to_text(omit_final_dot=True),
            rtype=dns.rdatatype.to_text(question.rdtype),
            transport=transport,
            source_port=source_port,
            message_id=message.id,
            recursion_desired=bool(message.flags & dns.flags.RD),
            at=time.monotonic(),
        )
        with self._watch:
            self._log.append(query)
            types = self._scripts.get(_key(query.name))
            script = None if types is None else types.get(query.rtype)
            if script is not None:
                outcome = script(query)
            else:
                default = self.default(query) if callable(self.default) else self.default
                outcome = default if types is None else NODATA
        await self._play(outcome, message, transport, send)

    async def _play(
        self, outcome: Outcome, message: dns.message.Message, transport: Transport, send: Callable[..., None]
    ) -> None:
        match outcome:
            case Drop():
                return
            case Delayed(gate, then):
                await gate.wait()
                await self._play(then, message, transport, send)
            case Truncated(then):
                if transport is Transport.TCP:
                    await self._play(then, message, transport, send)
                    return
                reply = dns.message.make_response(message)
                reply.flags |= dns.flags.TC
                send(reply.to_wire())
            case Garbage(wire):
                send(wire)
            case Forged(how, lie, then):
                forged = _forge(how, message, lie)
                send(forged, how is Forgery.WRONG_SOURCE)
                if then is not None:
                    await self._play(then, message, transport, send)
            case Addresses() | Failure() | CnameLoop():
                reply = render_reply(message, outcome)
                limit = message.payload or 512 if transport is Transport.UDP else 65535
                send(reply.to_wire(max_size=limit, prefer_truncation=True, want_shuffle=False))


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: ScriptedDns) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server._answer_udp(data, addr)


def render_reply(message: dns.message.Message, outcome: Outcome) -> dns.message.Message:
    """The DNS message that says `outcome` in answer to `message`."""
    reply = dns.message.make_response(message)
    reply.flags |= dns.flags.RA
    question = message.question[0]
    match outcome:
        case Failure(rcode):
            reply.set_rcode(rcode)
        case CnameLoop():
            other = dns.name.from_text("loop-other.example.")
            reply.answer.append(dns.rrset.from_text(question.name, 0, "IN", "CNAME", other.to_text()))
            reply.answer.append(dns.rrset.from_text(other, 0, "IN", "CNAME", question.name.to_text()))
        case Addresses(addresses, via, ttl):
            owner = question.name
            for alias in via:
                target = dns.name.from_text(alias)
                reply.answer.append(dns.rrset.from_text(owner, ttl, "IN", "CNAME", target.to_text()))
                owner = target
            if addresses:
                reply.answer.append(dns.rrset.from_text_list(owner, ttl, "IN", question.rdtype, addresses))
        case _:
            raise TypeError(f"{outcome} is no plain answer")
    return reply


def _forge(how: Forgery, message: dns.message.Message, lie: Outcome) -> bytes:
    if how is Forgery.GARBAGE:
        return b"\xff" * 7
    reply = render_reply(message, lie)
    question = message.question[0]
    if how is Forgery.WRONG_ID:
        reply.id = message.id ^ 0x5555
    elif how is Forgery.NOT_A_RESPONSE:
        reply.flags &= ~dns.flags.QR
    elif how is Forgery.OTHER_OPCODE:
        reply.set_opcode(dns.opcode.NOTIFY)
    elif how is Forgery.WRONG_NAME:
        other = dns.name.from_text("other-question.example.")
        reply.question = [dns.rrset.RRset(other, question.rdclass, question.rdtype)]
    elif how is Forgery.WRONG_TYPE:
        reply.question = [dns.rrset.RRset(question.name, question.rdclass, dns.rdatatype.TXT)]
    return reply.to_wire()


def _key(name: str) -> str:
    return name.rstrip(".").lower()


def _bound_pair(host: str) -> tuple[socket.socket, socket.socket]:
    for _ in range(50):
        tcp = bound_socket(host)
        try:
            return bound_socket(host, tcp.getsockname()[1], socket.SOCK_DGRAM), tcp
        except OSError:
            tcp.close()
    raise OSError(f"no port is free for both UDP and TCP on {host}")


__all__ = [
    "NODATA",
    "NXDOMAIN",
    "REFUSED",
    "SERVFAIL",
    "Addresses",
    "CnameLoop",
    "Delayed",
    "Drop",
    "Failure",
    "Forged",
    "Forgery",
    "Garbage",
    "Outcome",
    "Query",
    "ScriptedDns",
    "Transport",
    "Truncated",
    "in_turn",
]
