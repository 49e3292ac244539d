"""What a search provider is, apart from how it is reached: data and pure functions.

arguments ── render ──► request, or a refusal of a value, before anything is sent
2xx body  ── parse  ──► rows, or the reason why they cannot be had
others    ── explain ─► what stands in place of the body; None: the body itself, cut and escaped
others    ── wait   ──► seconds until it may be asked again; None: asking again is no use
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from fetchd.channel import ChannelRequest, Secret
from fetchd.core.failures import FailureKind
from fetchd.search.interface import (
    Argument,
    Capability,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
)

type Fields = tuple[tuple[str, str], ...]

BUSY_STATUSES = frozenset({429, 503})
"""The answers that may say when to come again (RFC 6585 4, RFC 9110 15.6.4)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """base: scheme, host, port and base path, no slash at the end. secret: None where none is needed."""

    base: str
    secret: Secret | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer that is not 2xx. body: its beginning. now: seconds since 1970, for a Retry-After that is a date."""

    status: int
    fields: Fields
    body: bytes
    now: float


def find_retry_after(answer: Rejection) -> float | None:
    """Seconds that a busy server asks for (RFC 9110 10.2.3: a number, or a date)."""
    if answer.status not in BUSY_STATUSES:
        return None
    values = [value.strip() for name, value in answer.fields if name == "retry-after"]
    if len(values) != 1:
        return None
    if values[0].isascii() and values[0].isdigit():
        return float(values[0][:9])
    try:
        return max(0.0, parsedate_to_datetime(values[0]).timestamp() - answer.now)
    except (ValueError, OverflowError):
        return None


def explain_nothing(answer: Rejection) -> str | None:
    """For a provider whose error bodies say what is wrong as they are."""
    return None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One provider. Every function is pure and raises nothing. passes_way: it may ask others in its turn, and is
    told which installations the search has come through.
    """

    name: str
    capabilities: Mapping[Argument, Capability]
    render: Callable[[SearchArguments, Settings], ChannelRequest | SearchFailure]
    parse: Callable[[bytes], SearchAnswer | SearchFailure]
    explain: Callable[[Rejection], str | None] = explain_nothing
    wait: Callable[[Rejection], float | None] = find_retry_after
    passes_way: bool = False


def malformed(reason: str) -> SearchFailure:
    """A 2xx answer that is none. reason: our own words, nothing of the body."""
    return SearchFailure(FailureKind.BACKEND, f"malformed search response: {reason}")
