"""page_read as its callers meet it: HTTP, MCP, the command line; the blob and the receipt that stay."""

from __future__ import annotations

import hashlib
import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.conftest import Installed
from tests.e2e.stage import Reply, post_json
from tests.e2e.test_mcp import text_of
from tests.gateway.memory import MIB, peak, reset_peak
from tests.kit import replies

PAGE_READ = "/v1/tools/page_read"
CEILING = 64 * MIB
HTML = "<title>Read</title><h1>Read me</h1>" + "<p>A paragraph that is long enough to be an article.</p>" * 20
DIGEST = f"sha256:{hashlib.sha256(HTML.encode()).hexdigest()}"


@pytest.fixture
def url(installed: Installed) -> str:
    installed.stage.origin.route("/read", replies.page(HTML))
    return installed.stage.url("/read")


def read(installed: Installed, url: str, **inputs: Any) -> Reply:
    return post_json(installed.up.tools, PAGE_READ, {"url": url, **inputs})


def get(installed: Installed, path: str) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection(*installed.up.tools, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer, answer.read()


def test_http_gives_the_packet_its_receipt_and_the_blob(installed: Installed, url: str) -> None:
    reply = read(installed, url, allowlist=["a.example"])
    document: Any = reply.document
    assert reply.status == 200
    assert list(document) == ["provider_operation", "trust", "fetch_id", "receipt"]
    assert document["trust"] == "untrusted"
    result = document["provider_operation"]["data"]["result"]
    assert (result["content_digest"], result["provenance"]["bytes"]) == (DIGEST, len(HTML))
    assert result["extracted"].startswith("# Read me")
    assert (document["receipt"]["type"], document["receipt"]["content_digest"]) == ("runx.receipt.v1", DIGEST)

    answer, body = get(installed, f"/v1/blobs/{DIGEST}")
    assert (answer.status, body.decode()) == (200, HTML)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert get(installed, f"/v1/blobs/sha256:{'0' * 64}")[0].status == 404


def test_http_failures_are_problems_with_a_code(installed: Installed, url: str) -> None:
    rows: list[tuple[dict[str, Any], int, str, str]] = [
        ({"url": None}, 400, "missing_input", "InvalidArguments"),
        ({"url": url, "cookies": 1}, 400, "invalid_input", "InvalidArguments"),
        ({"url": url, "\ud800": 1}, 400, "invalid_input", "InvalidArguments"),
        ({"url": "https://10.0.0.7/"}, 403, "url_refused", "InvalidArguments"),
        ({"url": url, "allowlist": ["b.example"]}, 403, "policy_denied", "InvalidArguments"),
        ({"url": installed.stage.url("/nothing-here")}, 502, "http_status", "Backend"),
        ({"url": url, "extract": "json"}, 422, "extract_failed", "Backend"),
    ]
    installed.stage.origin.route("/nothing-here", replies.answer(404, b""))
    for inputs, status, code, kind in rows:
        reply = post_json(installed.up.tools, PAGE_READ, inputs)
        assert (reply.status, reply.document["code"], reply.document["kind"]) == (status, code, kind), inputs


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_mcp_gives_the_packet_in_the_envelope(installed: Installed, url: str, era: Any) -> None:
    host, port = installed.up.tools
    async with Client(streamable_http_client(f"http://{host}:{port}/mcp"), mode=era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "web_fetch",
            "page_read",
            "web_search",
        ]
        good = await client.call_tool("page_read", {"url": url, "extract": "metadata"})
        bad = await client.call_tool("page_read", {"url": url, "allowlist": []})
    packet = json.loads(text_of(good).replace("&lt;", "<"))
    assert packet["provider_operation"]["data"]["result"]["extracted"]["title"] == "Read"
    assert (good.is_error, bad.is_error) == (False, True)
    assert text_of(bad) == "page_read: host a.example is not on the allowlist (nothing)"


def test_the_command_reads_many_pages_and_its_receipts_verify(
    installed: Installed, url: str, tmp_path: Path
) -> None:
    up = installed.up
    other = installed.stage.url("/read?2")
    config = ("--config", str(installed.stage.config))
    done = up.run("read", url, other, "https://10.0.0.7/", "--json", "--extract", "links", *config)
    assert done.returncode == 2, done.stderr
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first["provider_operation"]["data"]["result"]["final_url"] == url
    assert second["provider_operation"]["data"]["result"]["extracted"] == []
    assert third["code"] == "url_refused"

    shown = up.run("read", url, "--allow", "a.example", *config)
    assert shown.returncode == 0, shown.stderr
    assert f"digest    {DIGEST}" in shown.stdout
    assert "# Read me" in shown.stdout

    verified = up.run("receipt", "verify", first["fetch_id"])
    assert verified.returncode == 0, verified.stdout + verified.stderr
    whole = up.run("blob", "verify", DIGEST)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    receipt = tmp_path / "receipt.json"
    altered = {**first["receipt"], "status": 201}
    receipt.write_text(json.dumps(altered))
    broken = up.run("receipt", "verify", str(receipt))
    assert broken.returncode == 1
    assert "signature" in broken.stdout + broken.stderr


def test_the_operator_s_ceiling_comes_from_the_environment(installed: Installed, url: str) -> None:
    """Read by the command in place of what the file says; the gateway that runs keeps its own."""
    command = ("read", url, "--config", str(installed.stage.config))
    done = installed.up.run(*command, variables={"RUNX_WEB_READ_MAX_BYTES": "100"})
    assert done.returncode == 2
    assert "larger than 100 bytes" in done.stderr
    wrong = installed.up.run(*command, variables={"RUNX_WEB_READ_MAX_BYTES": "64MiB"})
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "RUNX_WEB_READ_MAX_BYTES: write a whole number of bytes" in wrong.stderr


RISE = 160 * MIB
PARAGRAPH = (
    b"<p>A sentence of ordinary length stands here, and another one follows it in this paragraph.</p>\n"
)


@pytest.mark.parametrize("extract", ["metadata", "links", "text"])
def test_a_page_at_the_ceiling_is_read_in_bounded_memory(installed: Installed, extract: str) -> None:
    """Daemon and gateway together; workers that take pages apart have a limit of their own."""
    path, up = f"/large-{extract}", installed.up
    body = (b"<title>Large</title>" + PARAGRAPH * (CEILING // len(PARAGRAPH) + 1))[:CEILING]
    installed.stage.origin.route(path, replies.answer(200, body))
    read(
        installed, installed.stage.url("/nothing"), extract=extract
    )  # what is loaded at the first call is no page's
    processes = (up.process.pid, *up.gateway_processes)
    idle = sum(map(reset_peak, processes))
    with closing(http.client.HTTPConnection(*up.tools, timeout=120)) as connection:
        asked = json.dumps({"url": installed.stage.url(path), "extract": extract})
        connection.request("POST", PAGE_READ, asked)
        answer = connection.getresponse()
        assert answer.status == 200
        length, head = 0, answer.read(1 << 10)
        while piece := answer.read(1 << 20):
            length += len(piece)
    digest = hashlib.sha256(body).hexdigest()
    assert f'"content_digest":"sha256:{digest}"'.encode() in head
    assert sum(map(peak, processes)) - idle < RISE
    assert (length > CEILING * 9 // 10) is (extract == "text")


def test_a_page_over_the_ceiling_by_one_byte_is_not_read(installed: Installed) -> None:
    installed.stage.origin.route("/too-large", replies.answer(200, b"x" * (CEILING + 1), "text/plain"))
    reply = read(installed, installed.stage.url("/too-large"), extract="metadata")
    assert (reply.status, reply.document["code"]) == (502, "response_too_large")
