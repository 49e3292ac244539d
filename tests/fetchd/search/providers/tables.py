"""What the tests of all dialects share."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from fetchd.channel import ChannelRequest, Secret
from fetchd.core.failures import FailureKind
from fetchd.search.interface import SearchAnswer, SearchArguments, SearchFailure
from fetchd.search.providers.dialect import Dialect, Rejection, Settings

BASE = "https://search.example:8443/base"
KEY = "canary-0123456789"
SETTINGS = Settings(BASE, Secret(KEY))


def rendered(dialect: Dialect, arguments: SearchArguments) -> ChannelRequest:
    request = dialect.render(arguments, SETTINGS)
    assert isinstance(request, ChannelRequest), request
    return request


def parameters(request: ChannelRequest) -> dict[str, Any]:
    """Query string, form or JSON; each name once."""
    if request.method == "GET":
        text = request.url.partition("?")[2]
    elif dict(request.fields)["Content-Type"] == "application/json":
        found: dict[str, Any] = json.loads(request.body, object_pairs_hook=once)
        return found
    else:
        text = request.body.decode("ascii")
    return once(
        parse_qsl(text, keep_blank_values=True, strict_parsing=True, encoding="utf-8", errors="strict")
    )


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def refusal(dialect: Dialect, arguments: SearchArguments) -> str:
    """Its message, without the words that every refusal of this provider begins with."""
    found = dialect.render(arguments, SETTINGS)
    assert isinstance(found, SearchFailure) and found.kind is FailureKind.BACKEND
    start = f'provider "{dialect.name}" cannot honour '
    assert found.message.startswith(start)
    return found.message.removeprefix(start)


def parsed(dialect: Dialect, document: object) -> SearchAnswer:
    answer = dialect.parse(json.dumps(document).encode())
    assert isinstance(answer, SearchAnswer), answer
    return answer


def reason(dialect: Dialect, document: object) -> str:
    """Why an answer is malformed."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    answer = dialect.parse(body)
    assert isinstance(answer, SearchFailure) and answer.kind is FailureKind.BACKEND
    start = "malformed search response: "
    assert answer.message.startswith(start)
    return answer.message.removeprefix(start)


def rejection(status: int, document: object = b"", fields: tuple[tuple[str, str], ...] = ()) -> Rejection:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Rejection(status, fields, body, 1_700_000_000.0)
