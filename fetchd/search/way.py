"""The installations that a search has come through, so that those that ask one another in a circle notice it. Pure.

    Via: 1.1 fetchd-5d41402abc4b2a76, 1.1 fetchd-7d793037a0760186      the first that asked first (RFC 9110 7.6.3)

A name is made at the start and tells nobody who is behind it. What others enter there, such as a proxy on the way,
is passed over.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fetchd.core.failures import FailureKind

from .interface import SearchFailure

FIELD: Final = "Via"
MAX_INSTALLATIONS: Final = 8
"""That ask one after the other: each costs a place, a part of the time and a line of its log."""

CIRCLE: Final = SearchFailure(
    FailureKind.BACKEND,
    'provider "gateway" leads back to this installation; the operator has to change search.gateway.endpoint, here or'
    " at one that it leads to",
)
TOO_FAR: Final = SearchFailure(
    FailureKind.BACKEND,
    f'provider "gateway" was not asked: the search has come through {MAX_INSTALLATIONS} installations already',
)

_ENTRY: Final = re.compile(r"1\.1 (fetchd-[0-9a-f]{16})")


def name_installation(random: bytes) -> str:
    """The name that eight random bytes make."""
    return f"fetchd-{random.hex()}"


def read_way(values: Iterable[str]) -> tuple[str, ...]:
    """The installations that the Via fields of a request name."""
    entries = (entry.strip() for value in values for entry in value.split(","))
    return tuple(found[1] for entry in entries if (found := _ENTRY.fullmatch(entry)) is not None)


def render_way(way: Sequence[str]) -> str:
    """The field's value."""
    return ", ".join(f"1.1 {name}" for name in way)


def find_circle(way: Sequence[str], name: str) -> SearchFailure | None:
    """Why the installation of this name asks no further one."""
    if name in way:
        return CIRCLE
    return TOO_FAR if len(way) >= MAX_INSTALLATIONS else None
