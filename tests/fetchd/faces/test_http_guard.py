"""Which requests may have come from a page that DNS led here, and are refused before anything else."""

from __future__ import annotations

from typing import Any

import pytest

from fetchd.faces.http_guard import BrowserGuard

TOKEN = ("authorization", "Bearer x")


async def ask(
    host: str, *fields: tuple[str, str], server: str | None = "10.0.0.5", needs_token: bool = True
) -> int:
    """The status; 200 from the application behind."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any: ...

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in (("host", host), *fields)]
    scope = {"type": "http", "scheme": "http", "headers": headers, "server": server and (server, 3129)}
    guard = BrowserGuard(app, ["fetchd.internal"], lambda: needs_token)
    await guard(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize(
    ("host", "server", "status"),
    [
        pytest.param("localhost:3129", "10.0.0.5", 200, id="this machine"),
        pytest.param("Fetchd.Internal", "10.0.0.5", 200, id="a name of daemon.names, in any case"),
        pytest.param("10.0.0.5:3129", "10.0.0.5", 200, id="the address it came to"),
        pytest.param("10.0.0.5", "10.0.0.5", 200, id="without a port"),
        pytest.param("10.0.0.6", "10.0.0.5", 421, id="another address"),
        pytest.param("[fd00::5]:3129", "fd00::5", 200, id="an IPv6 address"),
        pytest.param("fd00::5", "fd00::5", 421, id="not in brackets"),
        pytest.param("10.0.0.5", "::ffff:10.0.0.5", 200, id="on a socket for both"),
        pytest.param("10.0.0.5.evil.example", "10.0.0.5", 421, id="a name that begins like it"),
        pytest.param("10.0.0.5", None, 421, id="on a socket without an address"),
        pytest.param("evil.example", "10.0.0.5", 421, id="another name"),
        pytest.param("localhost:x", "10.0.0.5", 421, id="no port"),
    ],
)
@pytest.mark.parametrize("needs_token", [True, False])
async def test_the_host_is_ours(host: str, server: str | None, status: int, needs_token: bool) -> None:
    assert await ask(host, server=server, needs_token=needs_token) == status


@pytest.mark.parametrize(
    ("fields", "needs_token", "status"),
    [
        pytest.param([TOKEN], True, 200, id="with a token, where one is needed"),
        pytest.param([TOKEN], False, 421, id="where none is"),
        pytest.param([], True, 421, id="without"),
        pytest.param([TOKEN, ("origin", "http://evil.example")], True, 200, id="its own page says so itself"),
        pytest.param([TOKEN, ("origin", "http://other.example")], True, 403, id="another page"),
        pytest.param([TOKEN, ("host", "localhost")], True, 421, id="two hosts"),
    ],
)
async def test_another_host_passes_with_a_token(
    fields: list[tuple[str, str]], needs_token: bool, status: int
) -> None:
    assert await ask("evil.example", *fields, needs_token=needs_token) == status
