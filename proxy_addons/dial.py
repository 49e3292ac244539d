"""The dialer: a name becomes a connection here and nowhere else (law 4, SPEC 1.2).

host, port ── judge ──► Judged (addresses that may be dialled, or a refusal) ── connect ──► socket, DialReport

Laws of this file
- A and AAAA are asked afresh for each judgement; what is dialled is an address out of that very answer.
- Policy decides (`decide_addresses`); this file brings it the answers and which addresses are our own.
- Nothing here resolves a name: sockets get numeric addresses only.
- Any fault of our own ends as a refusal with rule `internal`, never as a connection.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiohappyeyeballs import AddrInfoType, start_connection

from proxy_addons.own_addresses import OwnAddresses
from proxy_addons.policy.addresses import (
    OWN_ADDRESS,
    AddressDecision,
    AnswerSet,
    DroppedAddress,
    decide_addresses,
)
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse
from proxy_addons.resolve.resolver import Answer, LookupFailure, RecordType, Resolver

ATTEMPT_DELAY = 0.25
"""Seconds before the next address is tried beside the one that is still connecting (RFC 8305 section 8)."""

OTHER_TYPE_DELAY = {RecordType.A: 0.05, RecordType.AAAA: 0.5}
"""Keyed by the type that answered first: seconds the other may still take. After A: the resolution
delay of RFC 8305 section 3. After AAAA longer: where IPv6 is broken unnoticed, A saves the fetch."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DialReport:
    """What the audit says of one dial.

    returned: all addresses, A before AAAA. dropped: (address, range). failed: (record type, reason).
    dialled: the address connected to. Times in milliseconds; 0 for a phase that did not happen.
    """

    returned: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    dialled: str | None = None
    dns_ms: float = 0.0
    connect_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """One fresh look-up, judged. `allowed` is empty exactly when `verdict` is a refusal."""

    host: str
    port: int
    allowed: tuple[str, ...]
    verdict: Verdict
    report: DialReport

    @property
    def refused(self) -> bool:
        """True when nothing may be dialled."""
        return self.verdict.refused


class DialRefusedError(OSError):
    """No connection was made, and `verdict` says why; the text is its message."""

    def __init__(self, verdict: Verdict, report: DialReport) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict
        self.report = report


class Dialer:
    """The only way out. Stateless but for its parts: safe for any number of dials at once."""

    def __init__(self, resolver: Resolver, own: OwnAddresses) -> None:
        self._resolver = resolver
        self._own = own

    async def judge(self, host: str, port: int, profile: Profile) -> Judged:
        """Look `host` (canonical, no last dot) up and judge the answers. Raises only CancelledError."""
        started = time.perf_counter()
        try:
            answers = await self._look_up(host, port, profile)
            decision = self._decide(host, port, answers, profile)
        except Exception:  # noqa: BLE001 fail closed: what cannot be judged is not dialled
            _log.exception("judging host %s failed", host)
            return Judged(host, port, (), _internal(host), DialReport(dns_ms=_ms_since(started)))
        for dropped in decision.dropped:
            _log.debug(
                "host %s resolved to blocked address %s in range %s", host, dropped.address, dropped.row.cidr
            )
        report = DialReport(
            returned=tuple(dict.fromkeys(address for answer in answers for address in answer.addresses)),
            dropped=tuple((dropped.address, dropped.row.cidr) for dropped in decision.dropped),
            failed=tuple((answer.rtype.value, answer.failure.value) for answer in answers if answer.failure),
            dns_ms=_ms_since(started),
        )
        return Judged(host, port, decision.allowed, decision.verdict, report)

    async def connect(self, judged: Judged, profile: Profile) -> tuple[socket.socket, DialReport]:
        """Connect to a judged address; the caller owns the socket (non-blocking, TCP_NODELAY).

        Raises DialRefusedError (as judged, or connect-timeout, upstream, internal) or CancelledError;
        then no socket is left open.
        """
        if judged.refused:
            raise DialRefusedError(judged.verdict, judged.report)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(profile.connect_timeout):
                sock = await start_connection(_race_order(judged), happy_eyeballs_delay=ATTEMPT_DELAY)
            dialled = _finish(sock, judged)
        except TimeoutError as error:
            verdict = _soft(Rule.CONNECT_TIMEOUT, f"connecting to {judged.host} timed out", judged.host)
            raise DialRefusedError(verdict, _timed(judged, started)) from error
        except OSError as error:
            verdict = _soft(Rule.UPSTREAM, f"could not connect to {judged.host}", judged.host)
            raise DialRefusedError(verdict, _timed(judged, started)) from error
        except Exception as error:
            _log.exception("connecting to host %s failed", judged.host)
            raise DialRefusedError(_internal(judged.host), _timed(judged, started)) from error
        return sock, replace(_timed(judged, started), dialled=dialled)

    async def _look_up(self, host: str, port: int, profile: Profile) -> list[Answer]:
        """Both answers, A first. A type that did not come in time counts as failed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + profile.lookup_timeout
        tasks = {rtype: loop.create_task(self._resolver.resolve(host, rtype)) for rtype in RecordType}
        try:
            done, late = await asyncio.wait(
                tasks.values(), timeout=profile.lookup_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if done and late:
                first = done.pop().result()
                left = max(0.0, deadline - loop.time())
                _, late = await asyncio.wait(late, timeout=min(left, OTHER_TYPE_DELAY[first.rtype]))
                if late and not any(map(_is_routable, self._decide(host, port, [first], profile).allowed)):
                    await asyncio.wait(late, timeout=max(0.0, deadline - loop.time()))
        finally:
            for task in tasks.values():
                task.cancel()
        missed = LookupFailure.LATE if loop.time() < deadline else LookupFailure.TIMEOUT
        return [
            task.result() if task.done() else Answer(rtype, failure=missed) for rtype, task in tasks.items()
        ]

    def _decide(self, host: str, port: int, answers: Sequence[Answer], profile: Profile) -> AddressDecision:
        """Policy's decision, told which addresses are our own; our listeners are out whatever is excepted."""
        table, holes = profile.addresses, profile.exceptions
        returned = dict.fromkeys(address for answer in answers for address in answer.addresses)
        barred = tuple(address for address in returned if self._own.is_listener(address, port))
        sets = [
            AnswerSet(tuple(address for address in answer.addresses if address not in barred), answer.failed)
            for answer in answers
        ]
        decision = decide_addresses(host, port, sets, table, holes)
        own = frozenset(address for address in decision.allowed if self._own.is_own(address))
        if own:
            decision = decide_addresses(host, port, sets, table, holes, own)
        if not barred:
            return decision
        dropped = (*decision.dropped, *(DroppedAddress(address, OWN_ADDRESS) for address in barred))
        if decision.allowed:
            return replace(decision, dropped=dropped)
        alone = decide_addresses(host, port, [AnswerSet(barred)], table, own=frozenset(barred))
        return AddressDecision((), dropped, alone.verdict)


def _race_order(judged: Judged) -> list[AddrInfoType]:
    """The judged addresses for the race, alternating families, IPv6 first (RFC 8305 section 4)."""
    v6 = [address for address in judged.allowed if ":" in address]
    v4 = [address for address in judged.allowed if ":" not in address]
    stream, tcp = socket.SOCK_STREAM, socket.IPPROTO_TCP
    return [
        *((socket.AF_INET6, stream, tcp, "", (address, judged.port, 0, 0)) for address in v6),
        *((socket.AF_INET, stream, tcp, "", (address, judged.port)) for address in v4),
    ]


def _finish(sock: socket.socket, judged: Judged) -> str:
    """Ready the connected socket and return its judged peer; closes it and raises when the peer is none."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer, local = sock.getpeername(), sock.getsockname()
        if peer[:2] == local[:2]:
            # TCP simultaneous open: our source port happened to be the port dialled on this machine.
            raise ConnectionRefusedError("connected to itself")
        packed = socket.inet_pton(sock.family, peer[0])
        for address in judged.allowed:
            if _family(address) is sock.family and socket.inet_pton(sock.family, address) == packed:
                return address
        raise RuntimeError("connected to an address that was not judged")
    except BaseException:
        sock.close()
        raise


def _is_routable(address: str) -> bool:
    """Whether the machine has a route there at all. UDP connect: asks the routing table, sends nothing."""
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
    except OSError:
        return False
    return True


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _soft(rule: Rule, message: str, host: str) -> Verdict:
    return refuse(rule, message, failure=Failure.SOFT, subject=host)


def _internal(host: str) -> Verdict:
    return _soft(Rule.INTERNAL, "internal error; the request was refused", host)


def _timed(judged: Judged, started: float) -> DialReport:
    return replace(judged.report, connect_ms=_ms_since(started))


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
