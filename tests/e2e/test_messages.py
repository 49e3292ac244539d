"""Every message of web_fetch, to the letter, through the real gateway from real TLS origins (SPEC 2, 2.1).

Each is met on the first URL and, where it can occur there, on the hop after a redirect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from fetchd.app import open_web_fetch
from fetchd.core.caller import Caller
from fetchd.core.envelope import CUT_OUT
from fetchd.fetch import FetchResult
from fetchd.running.gateway_process import Gateway
from fetchd.running.run_state import read_secret
from fetchd.settings import load_config
from proxy_addons.audit import MemoryAuditLog
from tests.e2e.conftest import Installed
from tests.e2e.stage import SITE, SMALL_CAP
from tests.kit import replies
from tests.kit.bodies import Coding, encode_body
from tests.kit.exchange import Route
from tests.kit.sync import Gate

HTML = "text/html; charset=utf-8"
HIGH = "h.example"


class Tool:
    """web_fetch over the running gateway, under a profile of the stage."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed

    @asynccontextmanager
    async def _open(self, profile: str) -> AsyncIterator[tuple[object, Caller]]:
        config = load_config(self.installed.stage.config, {}).config
        host, port = self.installed.up.gateway
        gateway = Gateway(host, port, read_secret(self.installed.up.state))
        async with open_web_fetch(gateway, MemoryAuditLog()) as tool:  # type: ignore[arg-type]
            yield tool, Caller("local", config.profiles[profile])

    async def fetch(self, url: str, profile: str = "test", **arguments: object) -> FetchResult:
        async with self._open(profile) as (tool, caller):
            return await tool.call({"url": url, **arguments}, caller)  # type: ignore[attr-defined]


@pytest.fixture
def tool(installed: Installed) -> Tool:
    return Tool(installed)


def soft_text(result: FetchResult) -> str:
    """What a soft failure says inside its envelope."""
    assert result.failure is not None
    assert not result.is_hard
    found = CUT_OUT.fullmatch(result.text)
    assert found is not None
    return found[1].replace("&lt;", "<")


@dataclass(frozen=True, slots=True)
class Answer:
    """An origin's answer, and what the caller is told; {url} is the final URL as messages show it."""

    route: Route
    message: str
    profile: str = "test"


def _status(code: int) -> Route:
    return replies.answer(code, b"gone")


def _typed(value: str | None, body: bytes = b"x") -> Route:
    return replies.answer(200, body, value)


ANSWERS: Mapping[str, Answer] = {
    "a status that is not 2xx": Answer(_status(404), "{url} answered HTTP 404; try a different URL"),
    "a status is told before a bad type and a length over the cap": Answer(
        replies.answer(500, b"x" * (SMALL_CAP + 1), "application/pdf"),
        "{url} answered HTTP 500; try a different URL",
        "small",
    ),
    "304 to an unconditional GET": Answer(_status(304), "{url} answered HTTP 304; try a different URL"),
    "no content type": Answer(
        _typed(None),
        "response from {url} declared no content type; refusing to guess its format; try a different URL",
    ),
    "a content type with an octet that is not ASCII": Answer(
        replies.wire(b"HTTP/1.1 200 OK\r\nContent-Type: text/h\xe9\r\nContent-Length: 1\r\n\r\nx"),
        "response from {url} declared no content type; refusing to guess its format; try a different URL",
    ),
    "a type that is no text, told verbatim": Answer(
        _typed("Application/PDF; x=1"),
        "content type Application/PDF; x=1 from {url} cannot be returned as text; "
        "try an HTML version of the page or a different URL",
    ),
    "an image in XML": Answer(
        _typed("image/svg+xml"),
        "content type image/svg+xml from {url} cannot be returned as text; "
        "try an HTML version of the page or a different URL",
    ),
    "HTML that declares one byte over the cap": Answer(
        _typed(HTML, b"x" * (SMALL_CAP + 1)),
        f"response from {{url}} exceeds the {SMALL_CAP}-byte size cap",
        "small",
    ),
    "JSON over the cap, undeclared": Answer(
        replies.chunked([b"x" * (SMALL_CAP + 1)], [("content-type", "application/json")]),
        f"response from {{url}} exceeds the {SMALL_CAP}-byte size cap",
        "small",
    ),
    "HTML over the cap once decompressed": Answer(
        replies.encoded(b" " * (SMALL_CAP + 1), Coding.GZIP),
        f"response from {{url}} exceeds the {SMALL_CAP}-byte size cap",
        "small",
    ),
    "an unknown charset, lowercased": Answer(
        _typed("text/html; charset=KLINGON-8"),
        "response from {url} declared unknown charset klingon-8; cannot decode its text",
    ),
    "an unknown coding": Answer(
        replies.body_as_is(b"x", "compress"),
        "the response body from {url} could not be read; try again or use a different URL",
    ),
    "a body that breaks off": Answer(
        replies.close_mid_body(b"<p>half"),
        "the response body from {url} could not be read; try again or use a different URL",
    ),
    "a body that is reset": Answer(
        replies.close_mid_body(b"<p>half", reset=True),
        "the response body from {url} could not be read; try again or use a different URL",
    ),
    "a coded body cut short": Answer(
        replies.body_as_is(encode_body(b"<p>whole</p>" * 50, Coding.BR)[:-4], "br"),
        "the response body from {url} could not be read; try again or use a different URL",
    ),
    "a body that says gzip and is none": Answer(
        replies.body_as_is(b"<p>plain</p>", "gzip"),
        "the response body from {url} could not be read; try again or use a different URL",
    ),
    "time runs out after the head": Answer(
        replies.headers_only(Gate()),
        "the response body from {url} could not be read; try again or use a different URL",
        "brief",
    ),
}
"""SPEC 2.1, rows 1 to 6: told of the final URL."""


@pytest.mark.parametrize("redirected", [False, True], ids=["first URL", "after a redirect"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_what_an_answer_is_refused_with(tool: Tool, name: str, redirected: bool) -> None:
    answer = ANSWERS[name]
    stage = tool.installed.stage
    path = f"/{list(ANSWERS).index(name)}/page"
    stage.origin.route(path, answer.route)
    final = stage.url(path, "b.example" if redirected else SITE)
    stage.origin.route(f"{path}/moved", replies.redirect(final))
    first = stage.url(f"{path}/moved") if redirected else final

    result = await tool.fetch(f"{first}?secret=1#part", answer.profile)

    assert soft_text(result) == answer.message.format(url=final)
    assert (result.final_url, result.extraction) == (None, None)


async def test_time_runs_out_before_the_head(tool: Tool) -> None:
    """The first URL is told, without its query, also when a later hop was the slow one."""
    stage = tool.installed.stage
    stage.origin.route("/slow", replies.silent(Gate()))
    stage.origin.route("/to-slow", replies.redirect("/slow"))

    on_first = soft_text(await tool.fetch(stage.url("/slow?k=v"), "brief"))
    on_second = soft_text(await tool.fetch(stage.url("/to-slow?k=v"), "brief"))

    told = "request to {} timed out; try again or use a different URL"
    assert on_first == told.format(stage.url("/slow"))
    assert on_second == told.format(stage.url("/to-slow"))


async def test_a_network_error_keeps_the_query_of_the_first_url(tool: Tool) -> None:
    """A hop that nobody answers: the first URL, serialized, query kept, fragment dropped."""
    stage = tool.installed.stage
    stage.origin.route("/to-nobody", replies.redirect("https://b.example/x"))
    nobody = "https://A.example:443/a/../b?k=v#f"

    on_first = soft_text(await tool.fetch(nobody))
    on_second = soft_text(await tool.fetch(stage.url("/to-nobody?k=v#f")))

    told = "fetch failed for {}: network error; try a different URL"
    assert on_first == told.format("https://a.example/b?k=v")
    assert on_second == told.format(stage.url("/to-nobody?k=v"))


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        ("scheme", "http://a.example/", "scheme not allowed: http"),
        ("scheme", "ftp://user@a.example/", "scheme not allowed: ftp"),
    ],
)
async def test_a_scheme_is_a_soft_failure(tool: Tool, name: str, url: str, message: str) -> None:
    result = await tool.fetch(url)

    assert (soft_text(result), str(result.failure.rule if result.failure else None)) == (message, name)


async def test_a_name_without_dns_on_either_hop(tool: Tool) -> None:
    """Soft, and it names the host of the hop that failed."""
    stage = tool.installed.stage
    missing = stage.url("/", "nowhere.example")
    stage.origin.route("/to-nowhere", replies.redirect(missing))

    for url in (missing, stage.url("/to-nowhere")):
        result = await tool.fetch(url)
        assert soft_text(result) == "dns resolution failed for nowhere.example"
        assert stage.accepts(stage.origin) <= 1


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        pytest.param("http://b.example/x?q=1", "refusing https to http downgrade", id="to plain http"),
        pytest.param("ftp://b.example/x", "scheme not allowed: ftp", id="to another scheme"),
        pytest.param(
            "https://u:p@b.example/x", "url must not contain userinfo", id="to a URL with credentials"
        ),
        pytest.param("https://b.example:22/x", "port not allowed: 22", id="to another port"),
        pytest.param("https://[::1]/x", "ip literal host not allowed: ::1", id="to an IP literal"),
        pytest.param("https://denied.example/x", "host not allowed: denied.example", id="to a denied host"),
    ],
)
async def test_a_refused_redirect_is_soft_and_names_both_ends(tool: Tool, location: str, reason: str) -> None:
    stage = tool.installed.stage
    path = "/away/" + reason.split()[0]
    stage.origin.route(path, replies.redirect(location))

    text = soft_text(await tool.fetch(stage.url(f"{path}?secret=1")))

    shown = location.replace("u:p@", "").replace("?q=1", "")
    assert text == f"redirect from {stage.url(path)} to {shown} refused: {reason}"


async def test_five_redirects_are_followed_and_a_sixth_is_not(tool: Tool) -> None:
    stage = tool.installed.stage
    for number in range(6):
        stage.origin.route(f"/chain/{number}", replies.redirect(f"/chain/{number + 1}"))
    stage.origin.route("/chain/6", replies.text("the end"))

    five = await tool.fetch(stage.url("/chain/1"))
    six = soft_text(await tool.fetch(stage.url("/chain/0")))

    assert (five.failure, five.final_url) == (None, stage.url("/chain/6"))
    assert six == (
        f"redirect from {stage.url('/chain/5')} to {stage.url('/chain/6')} refused: "
        "exceeded max redirects (5)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"url": None}, "web_fetch: missing url argument", id="no url"),
        pytest.param({"max_chars": 0}, "web_fetch: max_chars must be a positive integer", id="max_chars 0"),
        pytest.param(
            {"max_chars": 5.0}, "web_fetch: max_chars must be a positive integer", id="max_chars 5.0"
        ),
        pytest.param({"raw": "yes"}, "web_fetch: raw must be a boolean", id="raw a string"),
        pytest.param({"url": "a.example"}, "invalid url", id="not absolute"),
        pytest.param({"url": "https://u@a.example/"}, "url must not contain userinfo", id="userinfo"),
        pytest.param({"url": "https://a.example:8443/"}, "port not allowed: 8443", id="port"),
        pytest.param({"url": "https://0x7f.1/"}, "ip literal host not allowed: 127.0.0.1", id="IP literal"),
        pytest.param(
            {"url": "https://denied.example/"}, "host not allowed: denied.example", id="denied host"
        ),
    ],
)
async def test_hard_failures_are_bare(tool: Tool, arguments: Mapping[str, object], message: str) -> None:
    url = arguments.get("url", "https://a.example/")
    rest = {name: value for name, value in arguments.items() if name != "url"}

    result = await tool.fetch(url, **rest)  # type: ignore[arg-type]

    assert (result.is_hard, result.text) == (True, message)
    assert tool.installed.stage.dns.queries == []


async def test_blocked_addresses_are_hard_on_either_hop(tool: Tool) -> None:
    stage = tool.installed.stage
    stage.dns.host_addresses(HIGH, "10.0.0.5", "fd00::1")
    inward = stage.url("/", HIGH)
    stage.origin.route("/to-inward", replies.redirect(inward))

    for url in (inward, stage.url("/to-inward")):
        result = await tool.fetch(url)
        assert (result.is_hard, result.text) == (True, f"host {HIGH} has no allowed address")
