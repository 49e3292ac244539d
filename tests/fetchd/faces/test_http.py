"""SPEC 3 (HTTP) over a real server on loopback: what comes back, who is let in, and what a gone client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import httpcore
import pytest

from fetchd.core.envelope import CUT_OUT
from fetchd.faces.openapi import MAX_ARGUMENT_BYTES
from fetchd.transport.fake import ScriptedAnswer
from proxy_addons.policy.verdicts import Rule, refuse
from tests.fetchd.faces.served import URL, Daemon, serve

PATH = "/v1/tools/web_fetch"


async def call(daemon: Daemon, **arguments: object) -> httpcore.Response:
    return await daemon.request(json.dumps(arguments).encode(), PATH)


def document(response: httpcore.Response) -> dict[str, object]:
    found = json.loads(response.content)
    assert isinstance(found, dict)
    return found


def media_type(response: httpcore.Response) -> str:
    return dict(response.headers)[b"content-type"].decode()


async def test_a_success() -> None:
    async with serve(
        {URL: ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], ["é".encode()])}
    ) as daemon:
        response = await call(daemon, url=URL)

    found = document(response)
    assert (response.status, media_type(response)) == (200, "application/json")
    text = found.pop("text")
    assert isinstance(text, str) and CUT_OUT.fullmatch(text)
    assert len(str(found.pop("fetch_id"))) == 20
    assert found == {
        "trust": "untrusted",
        "failure": None,
        "rule": None,
        "final_url": URL,
        "truncated": False,
        "extraction": "plain",
    }


async def test_a_soft_failure_is_a_200_with_an_enveloped_text() -> None:
    async with serve({URL: ScriptedAnswer(refusal=refuse(Rule.DNS_FAILED, "x"))}) as daemon:
        response = await call(daemon, url=URL)

    found = document(response)
    match = CUT_OUT.fullmatch(str(found["text"]))
    assert match is not None and match[1] == "dns resolution failed for a.example"
    assert response.status == 200
    assert (found["failure"], found["rule"], found["final_url"]) == ("soft", "dns-failed", None)


async def test_a_hard_failure_is_a_problem_with_its_kind() -> None:
    async with serve({}) as daemon:
        response = await call(daemon, url="https://a.example:22/")

    found = document(response)
    assert (response.status, media_type(response)) == (400, "application/problem+json")
    assert len(str(found.pop("fetch_id"))) == 20
    assert found == {
        "type": "urn:fetchd:rule:port",
        "title": "Invalid arguments",
        "status": 400,
        "detail": "port not allowed: 22",
        "kind": "InvalidArguments",
        "failure": "hard",
        "rule": "port",
    }


async def test_a_fault_of_ours_is_a_500_of_kind_other() -> None:
    async with serve({URL: ScriptedAnswer(200, [(b"Content-Type", b"text/plain")])}) as daemon:
        daemon.transport.answers = None  # type: ignore[assignment]
        response = await call(daemon, url=URL)

    found = document(response)
    assert (response.status, found["kind"]) == (500, "Other")
    assert found["detail"] == "web_fetch: the fetch task did not finish"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        pytest.param(b"", "web_fetch: missing url argument", id="no body"),
        pytest.param(b"url=https://a.example/", "web_fetch: missing url argument", id="a form"),
        pytest.param(b"[]", "web_fetch: missing url argument", id="a list"),
        pytest.param(
            b'{"url":"u","max_chars":5.0}', "web_fetch: max_chars must be a positive integer", id="5.0"
        ),
        pytest.param(
            b'{"url":"u","max_chars":5e0}', "web_fetch: max_chars must be a positive integer", id="5e0"
        ),
        pytest.param(b'{"url":"u","raw":"true"}', "web_fetch: raw must be a boolean", id="raw a string"),
        pytest.param(b'{"url":"u"}', "invalid url", id="no absolute URL"),
    ],
)
async def test_arguments_arrive_as_they_were_written(body: bytes, detail: str) -> None:
    async with serve({}) as daemon:
        response = await daemon.request(body, PATH)

    assert (response.status, document(response)["detail"]) == (400, detail)


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 413)])
async def test_arguments_are_bounded(extra: int, status: int) -> None:
    body = json.dumps({"url": URL}).encode()
    body += b" " * (MAX_ARGUMENT_BYTES + extra - len(body))
    async with serve({URL: ScriptedAnswer(200, [(b"Content-Type", b"text/plain")])}) as daemon:
        response = await daemon.request(body, PATH)

    assert response.status == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", PATH, 405), ("POST", "/v1/tools/web_find", 404), ("GET", "/healthz", 200), ("GET", "/", 200)],
)
async def test_other_requests(method: str, path: str, status: int) -> None:
    async with serve({}) as daemon:
        assert (await daemon.request(b"", path, method)).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="the address itself"),
        pytest.param({"Host": "localhost:9"}, 200, id="a loopback name, any port"),
        pytest.param({"Host": "LOCALHOST"}, 200, id="in capitals, without a port"),
        pytest.param({"Host": "[::1]:9"}, 200, id="IPv6"),
        pytest.param({"Host": "fetchd.test"}, 200, id="the configured name"),
        pytest.param({"Host": "localhost:9", "Origin": "http://localhost:9"}, 200, id="a page of our own"),
        pytest.param({"Host": "evil.example"}, 421, id="a rebound name"),
        pytest.param({"Host": "localhost.evil.example"}, 421, id="with our name in front"),
        pytest.param({"Host": "evil-localhost"}, 421, id="with our name behind"),
        pytest.param({"Host": "localhost:9@evil"}, 421, id="a port that is none"),
        pytest.param({"Host": "localhost."}, 421, id="a trailing dot"),
        pytest.param({"Host": ""}, 421, id="empty"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another page"),
        pytest.param(
            {"Host": "localhost:9", "Origin": "http://localhost.evil.example"},
            403,
            id="a page with our name in front",
        ),
        pytest.param(
            {"Host": "localhost:9", "Origin": "http://localhost:8"}, 403, id="another port of this machine"
        ),
        pytest.param({"Host": "localhost:9", "Origin": "https://localhost:9"}, 403, id="another scheme"),
        pytest.param({"Origin": "null"}, 403, id="a page without an origin"),
    ],
)
async def test_web_pages_are_kept_out(headers: dict[str, str], status: int) -> None:
    """Bug case C077: refused before any work."""
    async with serve({URL: ScriptedAnswer(200, [(b"Content-Type", b"text/plain")])}) as daemon:
        response = await daemon.request(json.dumps({"url": URL}).encode(), PATH, headers=headers)

        assert response.status == status
        assert len(daemon.transport.sent) == (status == 200)


@pytest.mark.parametrize("hangs", ["head", "body"])
async def test_a_client_that_goes_away_drops_its_call(hangs: str) -> None:
    hanging = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], [b"x"], hangs=hangs)
    async with serve({URL: hanging}) as daemon:
        body = json.dumps({"url": URL}).encode()
        with socket.create_connection(("127.0.0.1", daemon.port)) as client:
            client.sendall(
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (PATH.encode(), len(body), body)
            )
            await daemon.transport.hanging.wait()
            assert daemon.transport.open_answers == 1

        await daemon.expect_dropped_call()


async def test_calls_beyond_the_bound_are_turned_away() -> None:
    hanging = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], [b"x"], hangs="head")
    async with serve({URL: hanging}, max_calls=1, max_waiting=0) as daemon:
        first = asyncio.create_task(call(daemon, url=URL))
        await daemon.transport.hanging.wait()
        response = await call(daemon, url=URL)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first

    assert response.status == 503
    assert dict(response.headers)[b"retry-after"] == b"5"
    assert len(daemon.transport.sent) == 1
