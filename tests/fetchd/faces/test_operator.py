"""The operator's listener: health, readiness, and the guard against web pages."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Mapping
from typing import Any

import pytest

from fetchd.faces.operator import make_operator_app
from fetchd.running.health import Check, Readiness
from fetchd.running.serving import listen_on, serving
from tests.kit.sync import PATIENCE


async def ask(path: str, *, ready: bool = True, fields: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Status and document of one GET; the server is called 127.0.0.9 too."""

    async def check_ready() -> Readiness:
        return Readiness((Check("audit", ready, "why"),))

    def get(port: int) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request(
                "GET", path,
                headers={name: value.format(port=port) for name, value in (fields or {}).items()},
            )  # fmt: skip
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    listening = listen_on("operator", "127.0.0.1", 0)
    async with serving(make_operator_app(check_ready, ["127.0.0.9"]), listening):
        return await asyncio.to_thread(get, listening.getsockname()[1])


@pytest.mark.parametrize("ready", [True, False])
async def test_health_says_that_the_process_answers(ready: bool) -> None:
    assert await ask("/healthz", ready=ready) == (200, {"status": "ok"})


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
async def test_readiness_says_whether_the_gateway_accepts(ready: bool, status: int) -> None:
    found = {"ready": ready, "checks": {"audit": {"ok": ready, "detail": "why"}}}
    assert await ask("/readyz", ready=ready) == (status, found)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/nothing"])
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"Host": "evil.example:{port}"}, 421, id="a rebinding name"),
        pytest.param({"Host": "127.0.0.1.evil.example"}, 421, id="a name that begins like ours"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another page's script"),
        pytest.param({"Origin": "null"}, 403, id="a sandboxed page's script"),
        pytest.param({"Origin": "http://127.0.0.1:1"}, 403, id="a page of another port of this machine"),
    ],
)
async def test_web_pages_are_kept_out(path: str, fields: dict[str, str], status: int) -> None:
    answer, document = await ask(path, fields=fields)

    assert (answer, document["status"]) == (status, status)


@pytest.mark.parametrize(
    "fields",
    [
        {"Host": "localhost:{port}"}, {"Host": "[::1]:{port}"}, {"Host": "127.0.0.9"},
        {"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}"},
    ],
)  # fmt: skip
async def test_its_own_names_and_pages_are_let_in(fields: dict[str, str]) -> None:
    assert await ask("/healthz", fields=fields) == (200, {"status": "ok"})
