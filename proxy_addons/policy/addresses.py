"""Which addresses a connection may go to: the 30 ranges of SPEC 1.3 and the judgement of DNS answers (SPEC 1.2).

`BLOCKED_RANGES` is the table; `AddressTable` is the same table prepared for look-ups (below a microsecond:
netaddr's IPSet membership costs 22). `decide_addresses` turns both DNS answers of a name into what may be dialled.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from netaddr import INET_PTON, AddrFormatError, IPAddress, IPNetwork
from netaddr.strategy import ipv4, ipv6

from .hosts import HostPattern
from .verdicts import ALLOWED, Failure, Rule, Verdict, refuse


@dataclass(frozen=True, slots=True)
class BlockedRange:
    """One row: a CIDR and what it is for."""

    cidr: str
    label: str

    def __str__(self) -> str:
        return f"{self.cidr} ({self.label})"


def _rows(text: str) -> tuple[BlockedRange, ...]:
    return tuple(BlockedRange(*line.strip().split(" ", 1)) for line in text.strip().splitlines())


BLOCKED_RANGES: tuple[BlockedRange, ...] = _rows(
    """
    0.0.0.0/8 this network
    10.0.0.0/8 private
    100.64.0.0/10 shared (CGNAT)
    127.0.0.0/8 loopback
    169.254.0.0/16 link-local
    172.16.0.0/12 private
    192.0.0.0/24 protocol assignments
    192.0.2.0/24 documentation
    192.88.99.0/24 6to4 relay
    192.168.0.0/16 private
    198.18.0.0/15 benchmarking
    198.51.100.0/24 documentation
    203.0.113.0/24 documentation
    224.0.0.0/4 multicast
    240.0.0.0/4 reserved
    255.255.255.255/32 broadcast
    ::/96 unspecified, loopback, IPv4-compatible
    ::ffff:0:0/96 IPv4-mapped
    64:ff9b::/96 NAT64
    64:ff9b:1::/48 local NAT64
    100::/64 discard-only
    2001::/23 protocol assignments
    2001:2::/48 benchmarking
    2001:db8::/32 documentation
    2002::/16 6to4
    3fff::/20 documentation
    fc00::/7 unique local
    fe80::/10 link-local
    fec0::/10 site-local
    ff00::/8 multicast
    """
)
"""SPEC 1.3: 16 IPv4 and 14 IPv6 ranges. A mapped or compatible address is refused whatever it embeds."""

SHIPPED_EXTRAS: tuple[BlockedRange, ...] = _rows(
    """
    168.63.129.16/32 cloud platform endpoint
    5f00::/16 segment routing
    100:0:0:1::/64 dummy prefix
    ::ffff:0:0:0/96 IPv4-translated
    """
)
"""What the shipped config's own profiles add to the table."""

OWN_ADDRESS = BlockedRange("own address", "the gateway itself")
"""The row of an address that is the gateway's own (SPEC 1.2); shown as `own address`."""

UNREADABLE = BlockedRange("unreadable address", "not an address")
"""The row of an answer that is no address at all: blocked, never guessed at."""


@dataclass(frozen=True, slots=True)
class AddressException:
    """A hole in the table, named by the operator: this host may be dialled at this address (and port)."""

    host: HostPattern
    network: IPNetwork
    port: int | None = None

    def covers(self, host: str, address: IPAddress, port: int) -> bool:
        """Whether the exception lets `host` be dialled at `address` and `port`."""
        if self.port is not None and self.port != port:
            return False
        return self.host.matches(host, port) and address in self.network


class AddressTable:
    """The blocked table as disjoint segments, so that a look-up is one bisection; the longest row wins."""

    __slots__ = ("_rows", "_starts")

    def __init__(self, extra: Iterable[BlockedRange] = ()) -> None:
        """Raises AddrFormatError when a range of `extra` is no CIDR."""
        self._starts: dict[int, list[int]] = {}
        self._rows: dict[int, list[BlockedRange | None]] = {}
        nets = [(IPNetwork(row.cidr), row) for row in (*BLOCKED_RANGES, *extra)]
        for version in (4, 6):
            own = sorted(
                ((n, row) for n, row in nets if n.version == version), key=lambda pair: pair[0].prefixlen
            )
            edges = sorted({0} | {n.first for n, _ in own} | {n.last + 1 for n, _ in own})
            rows: list[BlockedRange | None] = []
            for start in edges:
                covering = [row for n, row in own if n.first <= start <= n.last]
                rows.append(covering[-1] if covering else None)
            self._starts[version], self._rows[version] = edges, rows

    def match(self, address: IPAddress) -> BlockedRange | None:
        """The longest row that covers `address`, or None when the table allows it."""
        return self.match_value(address.version, int(address))

    def match_value(self, version: int, value: int) -> BlockedRange | None:
        """The same for an IP version (4, 6) and the address as an integer: the hot path."""
        return self._rows[version][bisect_right(self._starts[version], value) - 1]


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """One record type's answer: the addresses, or that the look-up of this type failed (no data is no failure)."""

    addresses: tuple[str, ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class DroppedAddress:
    """An address of an answer that may not be dialled, and the row that forbids it."""

    address: str
    row: BlockedRange


@dataclass(frozen=True, slots=True)
class AddressDecision:
    """What may be dialled. `verdict` is ALLOWED exactly when `allowed` is not empty."""

    allowed: tuple[str, ...]
    dropped: tuple[DroppedAddress, ...]
    verdict: Verdict


def classify_address(
    host: str,
    port: int,
    address: str,
    table: AddressTable,
    exceptions: Sequence[AddressException] = (),
    *,
    own: bool = False,
) -> BlockedRange | None:
    """The row that forbids dialling `address` for `host`, or None.

    `own`: the caller found the address to be one of this machine's; it counts as blocked unless excepted.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return UNREADABLE
    version, value = parsed
    row = table.match_value(version, value) or (OWN_ADDRESS if own else None)
    if row is not None and any(hole.covers(host, IPAddress(value, version), port) for hole in exceptions):
        return None
    return row


@lru_cache(maxsize=4096)
def _parse_address(address: str) -> tuple[Literal[4, 6], int] | None:
    """IP version and value of an address in its plain form; None for anything else (octal, zones, spaces)."""
    try:
        return (6, ipv6.str_to_int(address)) if ":" in address else (4, ipv4.str_to_int(address, INET_PTON))
    except (AddrFormatError, ValueError, TypeError):
        return None


def decide_addresses(
    host: str,
    port: int,
    answers: Sequence[AnswerSet],
    table: AddressTable,
    exceptions: Sequence[AddressException] = (),
    own: frozenset[str] = frozenset(),
) -> AddressDecision:
    """Judge both answers of a look-up (SPEC 1.2): drop blocked members, keep the allowed ones in order.

    host: canonical name. own: those of the returned addresses that are this machine's own.
    """
    allowed: list[str] = []
    dropped: list[DroppedAddress] = []
    for address in dict.fromkeys(a for answer in answers for a in answer.addresses):
        row = classify_address(host, port, address, table, exceptions, own=address in own)
        if row is None:
            allowed.append(address)
        else:
            dropped.append(DroppedAddress(address, row))
    return AddressDecision(tuple(allowed), tuple(dropped), _verdict(host, answers, allowed, dropped))


def _verdict(
    host: str, answers: Sequence[AnswerSet], allowed: Sequence[str], dropped: Sequence[DroppedAddress]
) -> Verdict:
    if allowed:
        return ALLOWED
    if not dropped and any(answer.failed for answer in answers):
        return refuse(
            Rule.DNS_FAILED, f"dns resolution failed for {host}", failure=Failure.SOFT, subject=host
        )
    return refuse(Rule.NO_ALLOWED_ADDRESS, f"host {host} has no allowed address", subject=host)
