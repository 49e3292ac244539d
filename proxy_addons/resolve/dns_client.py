"""The real resolver: asks nameservers itself. Only this file imports dns (dnspython).

Laws of this file
- Absolute names only: no hosts file, no search domains, no cache, no getaddrinfo (SPEC 1.2).
- Each query has a fresh random source port and a random id. A reply counts only if the source, the id, the QR
  bit and the question are right (RFC 5452 section 9); anything else is passed over.
- No EDNS: plain queries work with every server and middlebox; answers over 512 octets come over TCP.
- Only the header, the question and the answer section are read, with dnspython's wire parser: its objects for
  whole messages would cost as much CPU as the rest of a look-up.
"""

import asyncio
import logging
import secrets
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import dns.exception
import dns.name
import dns.wire

from .exchange import NoReplyError, exchange_tcp, exchange_udp
from .nameservers import Nameserver
from .resolver import (
    MAX_ADDRESSES,
    Answer,
    BadNameError,
    LookupFailure,
    RecordType,
    answer_without_query,
    parse_labels,
)

LOOKUP_SECONDS = 5.0
"""SPEC 1: the look-up limit of the built-in profile."""

FIRST_ATTEMPT_SECONDS = 1.0
"""How long a silent server is waited for in the first round; doubled each round (RFC 1035 7.2: back off)."""

MAX_ROUNDS = 3
MAX_RECORDS = 1000
"""Records read of one answer section: 64 KiB of the smallest records would hold the loop for 50 ms."""

MAX_LABELS = 16_384
"""Labels read of the names in one answer section, pointers followed: 1,000 records can point 2,000 times to a name of
127, which would hold the loop for 200 ms.
"""

MAX_CHAIN = 16
"""CNAME links followed, as in dnspython and BIND."""

QR, TC, RD = 0x8000, 0x0200, 0x0100
OPCODE_MASK, RCODE_MASK = 0x7800, 0x000F
CLASS_IN, TYPE_CNAME = 1, 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _TypeRow:
    number: int
    family: socket.AddressFamily
    octets: int


_TYPES = {
    RecordType.A: _TypeRow(1, socket.AF_INET, 4),
    RecordType.AAAA: _TypeRow(28, socket.AF_INET6, 16),
}
_RCODES = {2: LookupFailure.SERVFAIL, 3: LookupFailure.NXDOMAIN, 5: LookupFailure.REFUSED}
_MAY_OMIT_QUESTION = frozenset({1, 2, 4, 5})
"""FORMERR, SERVFAIL, NOTIMP and REFUSED come without the question from some servers."""

_FINAL = frozenset({None, LookupFailure.NXDOMAIN, LookupFailure.CNAME_CHAIN})
"""Outcomes that another server would only repeat: an answer, no such name, an endless alias."""

_ASKED_NAME = b"\xc0\x0c"
"""A pointer (RFC 1035 4.1.4) to the name right behind the header, as nearly every answer begins."""

_Labels = tuple[bytes, ...]


class _MalformedError(Exception):
    """The reply is to our query and cannot be read."""


@dataclass(frozen=True, slots=True)
class _Query:
    """One query: its id and its question section as octets, and what is asked."""

    id: int
    question: bytes
    name: _Labels
    rtype: RecordType

    def render(self) -> bytes:
        return struct.pack("!6H", self.id, RD, 1, 0, 0, 0) + self.question


@dataclass(frozen=True, slots=True)
class _Truncated:
    """The reply says: ask over TCP."""


class DnsClient:
    """Asks `servers` in order, each once a round, at most three rounds and `limit` seconds altogether.

    A server that answers uselessly (SERVFAIL, REFUSED, malformed) is left for the next one and not asked
    again; a silent one is asked again with a longer wait.
    """

    def __init__(
        self,
        servers: Sequence[Nameserver],
        limit: float = LOOKUP_SECONDS,
        first_wait: float = FIRST_ATTEMPT_SECONDS,
    ) -> None:
        if not servers:
            raise ValueError("a DnsClient needs at least one nameserver")
        self._servers = tuple(servers)
        self._limit = limit
        self._first_wait = first_wait

    async def resolve(self, host: str, rtype: RecordType) -> Answer:
        """See Resolver.resolve."""
        try:
            labels = parse_labels(host)
        except BadNameError:
            return Answer(rtype, failure=LookupFailure.BAD_NAME)
        own = answer_without_query(labels, rtype)
        if own is not None:
            return own
        try:
            answer = await self._ask(labels, rtype)
        except Exception:  # noqa: BLE001 fail closed: a fault of ours is a failed look-up, never an answer
            _log.exception("look-up of %s %s failed inside the resolver", host, rtype)
            return Answer(rtype, failure=LookupFailure.INTERNAL)
        if answer.surplus:
            _log.debug("%s %s: %d addresses beyond the first %d", host, rtype, answer.surplus, MAX_ADDRESSES)
        return answer

    async def _ask(self, labels: _Labels, rtype: RecordType) -> Answer:
        question = _render_question(labels, rtype)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limit
        servers = self._servers
        worst = Answer(rtype, failure=LookupFailure.TIMEOUT)
        for attempt in range(MAX_ROUNDS):
            silent: list[Nameserver] = []
            for server in servers:
                until = deadline
                if attempt < MAX_ROUNDS - 1 or server is not servers[-1]:
                    until = min(deadline, loop.time() + self._first_wait * 2**attempt)
                query = _Query(secrets.randbelow(1 << 16), question, labels, rtype)
                answer = await _ask_server(server, query, until)
                if answer.failure in _FINAL:
                    return answer
                if answer.failure is LookupFailure.TIMEOUT:
                    silent.append(server)
                else:
                    worst = answer
                if loop.time() >= deadline:
                    return worst
            if not silent:
                break
            servers = tuple(silent)
        return worst


def _render_question(labels: _Labels, rtype: RecordType) -> bytes:
    name = b"".join(len(label).to_bytes() + label for label in labels)
    return name + struct.pack("!BHH", 0, _TYPES[rtype].number, CLASS_IN)


async def _ask_server(server: Nameserver, query: _Query, until: float) -> Answer:
    """One attempt at one server, ending at loop time `until`; every failure is a value."""

    def accept(wire: bytes) -> Answer | _Truncated | None:
        return _parse_reply(wire, query)

    rtype = query.rtype
    wire = query.render()
    try:
        async with asyncio.timeout_at(until):
            reply: Answer | _Truncated = await exchange_udp(server, wire, accept)
            if isinstance(reply, _Truncated):
                reply = await exchange_tcp(server, wire, accept)
    except TimeoutError:
        return Answer(rtype, failure=LookupFailure.TIMEOUT)
    except OSError:
        return Answer(rtype, failure=LookupFailure.UNREACHABLE)
    except (NoReplyError, _MalformedError):
        return Answer(rtype, failure=LookupFailure.MALFORMED)
    return Answer(rtype, failure=LookupFailure.MALFORMED) if isinstance(reply, _Truncated) else reply


def _parse_reply(wire: bytes, query: _Query) -> Answer | _Truncated | None:
    """What `wire` says to `query`; None when it answers something else. Raises _MalformedError."""
    if len(wire) < 12:
        return None
    message_id, flags, questions, records = struct.unpack_from("!4H", wire)
    if message_id != query.id or not flags & QR or flags & OPCODE_MASK:
        return None
    rcode = flags & RCODE_MASK
    start = 12 + len(query.question)
    if questions == 0 and rcode in _MAY_OMIT_QUESTION:
        pass
    # Length octets (at most 63) and our type and class are no letters, so lower() changes the name alone.
    elif questions != 1 or wire[12:start].lower() != query.question.lower():
        return None
    if rcode:
        return Answer(query.rtype, failure=_RCODES.get(rcode, LookupFailure.OTHER_RCODE))
    if flags & TC:
        return _Truncated()
    if records > MAX_RECORDS:
        raise _MalformedError(f"{records} records")
    try:
        return _parse_answer_section(dns.wire.Parser(wire, start), records, query)
    except (dns.exception.DNSException, struct.error) as error:
        raise _MalformedError(str(error)) from error


def _parse_answer_section(parser: dns.wire.Parser, records: int, query: _Query) -> Answer:
    """The addresses at the end of the CNAME chain that starts at the asked name."""
    row = _TYPES[query.rtype]
    addresses: dict[_Labels, list[str]] = {}
    aliases: dict[_Labels, _Labels] = {}
    name = tuple(label.lower() for label in query.name)
    labels = 0
    for _ in range(records):
        if parser.wire[parser.current : parser.current + 2] == _ASKED_NAME:
            owner = name  # it was compared when the question was
            parser.get_bytes(2)
        else:
            owner = _parse_name(parser)
            labels += len(owner)
        number, rdclass, _, length = parser.get_struct("!HHIH")
        with parser.restrict_to(length):
            if rdclass == CLASS_IN and number == row.number:
                octets = parser.get_bytes(row.octets)
                addresses.setdefault(owner, []).append(socket.inet_ntop(row.family, octets))
            elif rdclass == CLASS_IN and number == TYPE_CNAME:
                alias = _parse_name(parser)
                labels += len(alias)
                aliases.setdefault(owner, alias)
            else:
                parser.get_bytes(length)
        if labels > MAX_LABELS:
            raise _MalformedError("too many labels")
    for _ in range(MAX_CHAIN):
        if name in addresses:
            found = addresses[name]
            return Answer(
                query.rtype, tuple(found[:MAX_ADDRESSES]), surplus=max(0, len(found) - MAX_ADDRESSES)
            )
        if name not in aliases:
            return Answer(query.rtype)
        name = aliases[name]
    return Answer(query.rtype, failure=LookupFailure.CNAME_CHAIN)


def _parse_name(parser: dns.wire.Parser) -> _Labels:
    return tuple(label.lower() for label in dns.name.from_wire_parser(parser).labels[:-1])
