"""What a browser sends back: small forms, read within a bound."""

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

MAX_FORM: Final = 8_192
MAX_FIELDS: Final = 16
_TYPE: Final = "application/x-www-form-urlencoded"


class FormError(ValueError):
    """Not a form of ours; the text says what it should be."""


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises FormError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise FormError(f"send a form: Content-Type {_TYPE}")
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM:
                raise FormError(f"send a form of at most {MAX_FORM} bytes")
    except ClientDisconnect:
        raise FormError("the form was not sent to its end") from None
    try:
        pairs = parse_qsl(
            bytes(body).decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise FormError("send a form of few fields, percent-encoded UTF-8") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormError("send each field once")
    return found
