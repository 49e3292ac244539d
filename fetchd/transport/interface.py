"""What the daemon asks of a transport."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from proxy_addons.policy.targets import Target
from proxy_addons.policy.wire import DaemonRequest


@dataclass(frozen=True, slots=True)
class HopRequest:
    """One hop: a GET of `target`, on behalf of whom, of which fetch.

    conditions: fields that ask for the body only if it is not the one we have (RFC 9110, 13).
    """

    target: Target
    identity: DaemonRequest
    conditions: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class HopAnswer:
    """The head of an answer, and its body as it arrives: de-chunked, content codings still applied.

    fields: raw names and values, in order. chunks: read once; raises BrokenAnswerError if the body breaks
    off.
    """

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    chunks: AsyncIterator[bytes]


class Transport(Protocol):
    """Sends hops. It has no time limit of its own: the fetch bounds the whole chain."""

    def send(self, request: HopRequest) -> AbstractAsyncContextManager[HopAnswer]:
        """Ask for a hop; the answer lives inside the context.

        Entering raises NoAnswerError. Leaving, also by cancellation, closes the connection at once unless the
        body was read to its end.
        """
        ...
