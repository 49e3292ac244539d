"""A search gateway: the HTTP service of SPEC 4, which another installation serves at /v1/search and keeps the key of.

    POST {endpoint}/v1/search   Authorization: Bearer …   {"query": …, "count": …}
    Via: 1.1 fetchd-…           the installations that the search has come through (`fetchd.search.way`)
    200  {"results": [{"title", "url", "description", "age", "site_name", "extra_snippets"}], "credits": …}

Every argument is passed on as written; what its provider cannot honour, that service refuses.
"""

import json
from types import MappingProxyType
from typing import Final

from fetchd.channel import ChannelRequest
from fetchd.search.interface import (
    Argument,
    Capability,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
    Support,
)

from .dialect import Dialect, Settings, malformed
from .shapes import (
    Object,
    ShapeError,
    read_document,
    read_number,
    read_objects,
    read_rows,
    read_text,
    read_texts,
)

PATH: Final = "/v1/search"

CAPABILITIES: Final = MappingProxyType({argument: Capability(Support.NATIVE) for argument in Argument})


def render_request(arguments: SearchArguments, settings: Settings) -> ChannelRequest | SearchFailure:
    """The set arguments as JSON; unset ones and empty lists are left out."""
    values = {argument.value: getattr(arguments, argument) for argument in Argument}
    body = {name: value for name, value in values.items() if value not in (None, ())}
    return ChannelRequest(
        "POST",
        settings.base + PATH,
        (("Accept", "application/json"), ("Content-Type", "application/json")),
        json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8"),
        ("Authorization", "Bearer ") if settings.secret is not None else None,
        settings.secret,
    )


def parse_answer(body: bytes) -> SearchAnswer | SearchFailure:
    """See Dialect.parse."""
    try:
        document = read_document(body)
        rows = read_rows(read_objects(document, "results"), _read_row)
    except ShapeError as error:
        return malformed(str(error))
    return SearchAnswer(rows, credits=read_number(document, "credits"))


def _read_row(where: str, one: Object) -> SearchRow:
    return SearchRow(
        read_text(one, "url", where),
        read_text(one, "title", where),
        read_text(one, "description", where),
        read_text(one, "age", where) or None,
        read_text(one, "site_name", where) or None,
        read_texts(one, "extra_snippets", where),
    )


GATEWAY: Final = Dialect("gateway", CAPABILITIES, render_request, parse_answer, passes_way=True)
