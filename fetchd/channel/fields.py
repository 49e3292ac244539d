"""What a request of the channel may carry, as the bytes of its head. Pure.

The HTTP client checks fields too, but quotes a wrong one in its error, and a credential must stand in no error. So
everything is checked here first, in words that name the field at most.
"""

import re
from typing import Final

from fetchd.errors import ChannelError

from .interface import ChannelRequest

USER_AGENT: Final = "fetchd"

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")  # RFC 9110 5.6.2
_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # visible ASCII, spaces inside

FRAMING: Final = frozenset(
    "host connection content-length transfer-encoding te trailer upgrade expect keep-alive".split()
)
"""The channel's own to write."""
CREDENTIALS: Final = frozenset("authorization proxy-authorization cookie x-api-key api-key".split())
"""Only as `secret_field`."""

type Fields = list[tuple[bytes, bytes]]


def render_fields(request: ChannelRequest, authority: str) -> Fields:
    """All fields of the request, its credential among them; raises ChannelError."""
    if not _TOKEN.fullmatch(request.method):
        raise ChannelError("the method is no token")
    named = {name.lower() for name, _ in request.fields}
    if named & FRAMING or named & CREDENTIALS or len(named) != len(request.fields):
        raise ChannelError("a request repeats a field, or sets one that is the channel's own")
    fields = [("Host", authority)]
    if "user-agent" not in named:
        fields.append(("User-Agent", USER_AGENT))
    if "accept-encoding" not in named:
        fields.append(("Accept-Encoding", "identity"))
    fields += request.fields
    fields += _credential(request, named)
    if request.body or request.method not in ("GET", "HEAD"):
        fields.append(("Content-Length", str(len(request.body))))
    for name, value in fields:
        if not _TOKEN.fullmatch(name):
            raise ChannelError("a field name is no token")
        if not _VALUE.fullmatch(value):
            raise ChannelError(f"the value of {name} cannot be a field value")
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in fields]


def _credential(request: ChannelRequest, named: set[str]) -> list[tuple[str, str]]:
    if request.secret is None and request.secret_field is None:
        return []
    if request.secret is None or request.secret_field is None:
        raise ChannelError("a credential and its field go together")
    name, before = request.secret_field
    if name.lower() in named | FRAMING:
        raise ChannelError("the credential's field is taken")
    return [(name, before + request.secret.reveal())]
