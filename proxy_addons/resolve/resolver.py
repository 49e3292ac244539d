"""What a resolver is: `resolve(host, rtype)` gives an Answer and raises nothing but cancellation.

A failure is a value. NODATA (the name exists, but not with this type) is an answer without addresses and no
failure (SPEC 1.2). Nothing is cached anywhere: each call asks again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MAX_LABEL = 63
MAX_NAME = 253
"""RFC 1035 2.3.4: 63 octets a label; 255 octets a name on the wire, which is 253 without the last dot."""

MAX_ADDRESSES = 64
"""Addresses of one answer that are used; more are counted as surplus. Far above what a service publishes
(resolvers answer 13 or fewer); it bounds judging, racing and audit lines against an answer of thousands."""


class RecordType(StrEnum):
    """The two record types a dial needs."""

    A = "A"
    AAAA = "AAAA"


class LookupFailure(StrEnum):
    """Why one record type has no answer; for logs, never for a client."""

    NXDOMAIN = "nxdomain"
    SERVFAIL = "servfail"
    REFUSED = "refused"
    OTHER_RCODE = "other-rcode"
    TIMEOUT = "timeout"
    LATE = "late"  # not waited for, since the other type had answered
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    CNAME_CHAIN = "cname-chain"
    BAD_NAME = "bad-name"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one record type: addresses in the order they came, or a failure, or neither (NODATA).

    surplus: how many further addresses the answer held beyond MAX_ADDRESSES.
    """

    rtype: RecordType
    addresses: tuple[str, ...] = ()
    failure: LookupFailure | None = None
    surplus: int = 0

    @property
    def failed(self) -> bool:
        """True when this type failed; NODATA has not."""
        return self.failure is not None


class Resolver(Protocol):
    """Asks for one record type of one name."""

    async def resolve(self, host: str, rtype: RecordType) -> Answer:
        """Look `host` up as an absolute name, with or without its last dot. Raises only CancelledError."""
        ...


class BadNameError(ValueError):
    """The name cannot be put into a DNS query."""


_LOOPBACK = {RecordType.A: "127.0.0.1", RecordType.AAAA: "::1"}


def parse_labels(host: str) -> tuple[bytes, ...]:
    """The labels of `host` as octets. Any octet is allowed in a label, underscores included (RFC 2181 11).

    Raises BadNameError for an empty label, a label over 63 octets or a name over 253; one last dot is fine.
    """
    try:
        name = host.encode()
    except UnicodeEncodeError as error:
        raise BadNameError(f"name has no octets: {host!r}") from error
    name = name.removesuffix(b".")
    if len(name) > MAX_NAME:
        raise BadNameError(f"name of {len(name)} octets; DNS carries {MAX_NAME}")
    labels = tuple(name.split(b"."))
    for label in labels:
        if not label:
            raise BadNameError("name with an empty label")
        if len(label) > MAX_LABEL:
            raise BadNameError(f"label of {len(label)} octets; DNS carries {MAX_LABEL}")
    return labels


def answer_without_query(labels: tuple[bytes, ...], rtype: RecordType) -> Answer | None:
    """What every resolver answers by itself: `localhost` and names below it are loopback (RFC 6761 6.3)."""
    if labels[-1].lower() == b"localhost":
        return Answer(rtype, (_LOOPBACK[rtype],))
    return None
