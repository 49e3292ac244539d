"""Framing of one message, whatever the protocol it came by: heads with one reading, bodies as long as declared.

N17  HTTP/1 readers hold a body to its Content-Length; h2 does not where a head or trailers end the stream. Passed on
     to an HTTP/1 peer, the next message on that connection is taken for the missing rest.
"""

import re
import string

from mitmproxy import http
from mitmproxy.net.http.validate import parse_content_length, validate_headers
from mitmproxy.proxy import events
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
)

from proxy_addons.engine.lean import is_plain_length, values_by_name

_FOLD = b"\r\n "
"""How mitmproxy keeps the line break of a folded field."""
_TOKEN_OCTETS = b"!#$%&'*+-.^_`|~" + (string.digits + string.ascii_letters).encode()
_LINE_MARK = re.compile(rb"[\r\n\0]")


def is_clear_head(message: http.Message) -> bool:
    """Field names are tokens, the framing has one reading, no value holds a line of its own (RFC 9112, 2.2 and 6.3).
    An answer is final, but for 101: an interim one that came this far would be taken for another request's.

    A folded value of an answer is unfolded here, as a proxy must (RFC 9112, 5.2); folded requests are refused.
    """
    fields = message.headers.fields
    values = b" ".join([value for _, value in fields])
    if isinstance(message, http.Response):
        if message.status_code < 200 and message.status_code != 101:
            return False
        if _LINE_MARK.search(message.data.reason):
            return False
        if _FOLD in values:
            fields = message.headers.fields = tuple(
                (name, value.replace(_FOLD, b" ")) for name, value in fields
            )
            values = b" ".join([value for _, value in fields])
    return _is_valid(message) and _LINE_MARK.search(values) is None


def _is_valid(message: http.Message) -> bool:
    """Stock's `validate_headers`, which is asked itself where framing is out of the common."""
    names = [name for name, _ in message.headers.fields]
    if b"".join(names).translate(None, _TOKEN_OCTETS) or not all(names):
        return False
    index = values_by_name(message.headers)
    lengths = index.get(b"content-length", ())
    if b"transfer-encoding" not in index and len(lengths) <= 1 and all(map(is_plain_length, lengths)):
        return True
    try:
        validate_headers(message)
    except ValueError:
        return False
    return True


class OwedBody:
    """What a message's Content-Length still owes of its body."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = 0

    def declare(self, message: http.Message) -> None:
        """The head is here; one without a readable length owes nothing."""
        lengths = values_by_name(message.headers).get(b"content-length")
        if lengths is None:
            self._left = 0
            return
        try:
            self._left = parse_content_length(b", ".join(lengths))
        except ValueError:
            self._left = 0

    def take(self, data: bytes) -> None:
        """Body bytes are here."""
        self._left = max(0, self._left - len(data))

    @property
    def is_short(self) -> bool:
        """Whether the body, if it ended now, would be shorter than declared."""
        return self._left > 0


class OwedBodies:
    """Both bodies of an exchange (N17)."""

    def __init__(self) -> None:
        self._by_client, self._by_origin = OwedBody(), OwedBody()
        self._answer_is_bare = False
        self.request_ended = False
        """Whether the request's head was all of it."""

    def end_short(self, event: events.Event) -> bool:
        """Whether `event`, of either side, ends a body before its declared length."""
        match event:
            case RequestHeaders(request=request, end_stream=ended):
                self.request_ended, self._answer_is_bare = ended, request.method == "HEAD"
                self._by_client.declare(request)
            case RequestData(data=data):
                self._by_client.take(data)
            case RequestEndOfMessage():
                return self._by_client.is_short
            case ResponseHeaders(response=response):
                if not self._answer_is_bare and response.status_code not in (204, 304):
                    self._by_origin.declare(response)
            case ResponseData(data=data):
                self._by_origin.take(data)
            case ResponseEndOfMessage():
                return self._by_origin.is_short
        return False
