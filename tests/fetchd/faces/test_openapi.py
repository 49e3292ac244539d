"""The OpenAPI document and the running server say the same.

schemathesis makes requests from the document, good ones and bad ones, and holds each answer to it: a tool for just
this question, that knows more ways to be wrong than tests of ours would. It runs as its own command over a real
socket, as a user of the API would run it. The answers it cannot provoke are each provoked below.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpcore
import pytest
from jsonschema import Draft202012Validator

from fetchd.faces.openapi import MAX_ARGUMENT_BYTES, WEB_FETCH_PATH, make_document
from fetchd.faces.openapi_page import PAGE_FIELDS, render_page
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import SearchAnswer, SearchRow
from fetchd.transport.fake import ScriptedAnswer
from proxy_addons.policy.verdicts import Rule, refuse
from tests.fetchd.faces.served import HANGS, TEXT, URL, Daemon, serve

EXAMPLE = "https://docs.rs/tokio"
"""The example in the document: the one request of the tool's that finds a page."""


async def test_the_document_holds_under_property_based_requests(tmp_path: Path) -> None:
    found = SearchAnswer((SearchRow("https://a.example/", "é <b>"), SearchRow("http://10.0.0.1/")))
    async with serve({EXAMPLE: TEXT}, providers={"local": ScriptedProvider([found])}) as daemon:
        process = await asyncio.create_subprocess_exec(
            # A URL may be any string to a schema, so that a good one may be refused: the one check left out.
            *(sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{daemon.port}/openapi.json"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *("--max-examples", "40", "--seed", "1", "--no-color", "--continue-on-failure"),
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        report, _ = await process.communicate()

        assert process.returncode == 0, report.decode()
        assert daemon.providers["local"].asked  # type: ignore[attr-defined]
        assert EXAMPLE in {request.target.href for request in daemon.transport.sent}
        assert len(daemon.log.records) > 20


def is_as_documented(response: httpcore.Response, path: str, method: str) -> bool:
    """Whether status, media type and body are among what the document says."""
    document: Any = make_document()
    documented = document["paths"][path][method]["responses"][str(response.status)]
    media_type = dict(response.headers)[b"content-type"].decode().partition(";")[0]
    schema = documented["content"][media_type]["schema"] | {"components": document["components"]}
    body = json.loads(response.content) if "json" in media_type else response.content.decode()
    return Draft202012Validator(schema).is_valid(body)


TYPED = [(b"Content-Type", b"text/plain")]


@pytest.mark.parametrize(
    ("answer", "body", "headers", "status"),
    [
        pytest.param(TEXT, {"url": URL}, {}, 200, id="a page"),
        pytest.param(ScriptedAnswer(404, TYPED), {"url": URL}, {}, 200, id="a soft failure"),
        pytest.param(
            ScriptedAnswer(refusal=refuse(Rule.DNS_FAILED, "x")), {"url": URL}, {}, 200, id="one with a rule"
        ),
        pytest.param(TEXT, {"url": "https://10.0.0.1/"}, {}, 400, id="a hard failure"),
        pytest.param(TEXT, {"url": URL}, {"Origin": "https://evil.example"}, 403, id="another page"),
        pytest.param(TEXT, {"url": URL}, {"Host": "evil.example"}, 421, id="another host"),
        pytest.param(TEXT, {"url": " " * MAX_ARGUMENT_BYTES}, {}, 413, id="too large"),
    ],
)
async def test_each_answer_of_the_tool(
    answer: ScriptedAnswer, body: dict[str, object], headers: dict[str, str], status: int
) -> None:
    async with serve({URL: answer}) as daemon:
        response = await daemon.request(json.dumps(body).encode(), WEB_FETCH_PATH, headers=headers)

    assert response.status == status
    assert is_as_documented(response, WEB_FETCH_PATH, "post")


async def test_a_fault_of_ours() -> None:
    async with serve({}) as daemon:
        daemon.transport.answers = None  # type: ignore[assignment]
        response = await daemon.request(json.dumps({"url": URL}).encode(), WEB_FETCH_PATH)

    assert response.status == 500
    assert is_as_documented(response, WEB_FETCH_PATH, "post")


async def test_too_many_calls() -> None:
    async with serve({URL: HANGS}, max_calls=1, max_waiting=0) as daemon:
        body = json.dumps({"url": URL}).encode()
        first = asyncio.create_task(daemon.request(body, WEB_FETCH_PATH))
        await daemon.transport.hanging.wait()
        response = await daemon.request(body, WEB_FETCH_PATH)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    assert response.status == 503
    assert is_as_documented(response, WEB_FETCH_PATH, "post")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_another_method_is_a_problem_too(method: str) -> None:
    async with serve({}) as daemon:
        response = await daemon.request(b"", WEB_FETCH_PATH, method)

    assert (response.status, dict(response.headers)[b"allow"]) == (405, b"POST")
    assert is_as_documented(response, WEB_FETCH_PATH, "post")


async def test_so_is_another_path() -> None:
    async with serve({}) as daemon:
        response = await daemon.request(b"", "/v1/tools/web_find")

    assert response.status == 404
    assert json.loads(response.content)["detail"] == "POST /v1/tools/web_find is not served; see /docs"


@pytest.mark.parametrize("path", ["/", "/healthz", "/openapi.json", "/docs"])
async def test_each_other_path(path: str) -> None:
    async with serve({}) as daemon:
        found = await daemon.request(b"", path, "GET")
        foreign = await daemon.request(b"", path, "GET", {"Host": "evil.example"})
        wrong = await daemon.request(b"", path, "POST")

    assert [response.status for response in (found, foreign, wrong)] == [200, 421, 405]
    assert all(is_as_documented(response, path, "get") for response in (found, foreign, wrong))


async def fetch_page(daemon: Daemon) -> httpcore.Response:
    return await daemon.request(b"", "/docs", "GET")


class Assets(HTMLParser):
    """Everything a browser would load or follow, and what is unbalanced."""

    VOID = {"meta", "br"}  # noqa: RUF012 - read only

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action"}]
        self.ids |= {found["id"] or ""} if "id" in found else set()
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_the_page_loads_nothing_and_runs_nothing() -> None:
    async with serve({}) as daemon:
        response = await fetch_page(daemon)

    fields = dict(response.headers)
    page = response.content.decode()
    assets = Assets()
    assets.feed(page)
    assert fields[b"content-security-policy"].startswith(b"default-src 'none'; style-src 'sha256-")
    assert b"unsafe" not in fields[b"content-security-policy"]
    assert "script" not in assets.tags
    assert {link for link in assets.links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in assets.links if link.startswith("#")} <= assets.ids
    assert assets.open == []


def test_the_page_says_all_that_the_document_says() -> None:
    document: Any = make_document()
    page = unescape(re.sub(r"<[^>]+>", "", render_page(document)))

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page
            for status, response in operation["responses"].items():
                assert status in page and response["description"].replace("`", "") in page
    for name, schema in document["components"]["schemas"].items():
        assert name in page
        assert all(key in page for key in schema["properties"])


def test_what_a_document_holds_is_escaped() -> None:
    document: Any = make_document()
    document["info"]["description"] = "<script>alert(1)</script> & `<b>`"
    page = render_page(document)

    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; <code>&lt;b&gt;</code>" in page


def test_the_style_is_the_one_its_policy_allows() -> None:
    from base64 import b64encode
    from hashlib import sha256

    found = re.search("<style>(.*?)</style>", render_page(make_document()), re.DOTALL)
    assert found is not None
    digest = b64encode(sha256(found[1].encode()).digest()).decode()

    assert f"'sha256-{digest}'" in PAGE_FIELDS["Content-Security-Policy"]


def test_the_page_says_the_bounds_of_values() -> None:
    page = render_page(make_document())
    table = page.partition('<h3 id="SearchArguments">')[2].partition("</table>")[0]
    for bound in ("string, 1 to 400 characters", "at least 1, at most 20", "at most 20 entries"):
        assert bound in table
