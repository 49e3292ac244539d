"""What is asked of the provider channel."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


class Secret:
    """A credential. No repr, str, format, pickle or comparison of it shows what it holds; `reveal` does."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """One request. url: absolute, its host on the channel's list. fields: names and values, no credential among them.

    secret_field: the one that carries the credential, as its name and the text before the secret (``Bearer ``).
    """

    method: str
    url: str
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    secret_field: tuple[str, str] | None = None
    secret: Secret | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ChannelAnswer:
    """The head of an answer, and its body as it arrives, content codings undone, bounded by the reader.

    fields: names in lower case. chunks: read once; raises ChannelError when it breaks off.
    """

    status: int
    fields: tuple[tuple[str, str], ...]
    chunks: AsyncIterator[bytes]


class Channel(Protocol):
    """Sends requests to the hosts it was made for."""

    def send(self, request: ChannelRequest) -> AbstractAsyncContextManager[ChannelAnswer]:
        """Entering raises ChannelError: a host not on the list, DNS, TLS, reset, a redirect, no time left.

        It has no deadline of its own: the caller bounds the whole. Leaving closes the connection unless the body was
        read to its end.
        """
        ...
