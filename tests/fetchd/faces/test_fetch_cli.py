"""`fetchd fetch`: what is printed, and SPEC 1.10's exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fetchd.core.envelope import CUT_OUT
from fetchd.errors import NoGatewayError
from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.fetch_cli import FetchSettings, fetch
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from proxy_addons.audit import AuditUnavailableError, MemoryAuditLog

URL = "https://a.example/p"
PAGE = ScriptedAnswer(200, [(b"Content-Type", b"text/html")], ["<p>é <b>x</b>".encode()])
LOST = ScriptedAnswer(404, [(b"Content-Type", b"text/html")])


def run(
    answers: Mapping[str, ScriptedAnswer], *arguments: str, seen: list[FetchSettings] | None = None
) -> Result:
    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebFetch]:
        if seen is not None:
            seen.append(settings)
        with ProcessExtractor(1) as extractor:
            yield WebFetch(FakeTransport(answers), extractor, MemoryAuditLog())

    return CliRunner().invoke(fetch, arguments, obj=opener)


def test_the_enveloped_text_is_printed() -> None:
    result = run({URL: PAGE}, URL)

    assert result.exit_code == 0
    found = CUT_OUT.fullmatch(result.stdout.removesuffix("\n"))
    assert found is not None
    assert found[1] == f"url: {URL}\ntruncated: false\nextraction: raw-html\n\né **x**"
    assert result.stderr == ""


def test_json_is_the_object_of_the_http_api() -> None:
    result = run({URL: PAGE}, URL, "--json", "--max-chars", "1", "--raw")

    found = json.loads(result.stdout)
    assert list(found) == [
        "text",
        "trust",
        "failure",
        "rule",
        "final_url",
        "truncated",
        "extraction",
        "fetch_id",
    ]
    assert (found["truncated"], found["extraction"]) == (True, "raw-html")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "stderr"),
    [
        pytest.param([URL], 0, "", id="a soft failure is done"),
        pytest.param([URL, "--fail"], 1, "", id="--fail makes it 1"),
        pytest.param(
            ["https://a.example:22/", "--fail"], 2, "Error: port not allowed: 22\n", id="a hard failure"
        ),
        pytest.param(
            [URL, "--max-chars", "0"], 2, "Error: web_fetch: max_chars must be a positive integer\n", id="0"
        ),
        pytest.param(
            [URL, "--max-chars", "5.0"],
            2,
            "Error: web_fetch: max_chars must be a positive integer\n",
            id="5.0",
        ),
        pytest.param(
            [URL, "--max-chars", "x"], 2, "Error: web_fetch: max_chars must be a positive integer\n", id="x"
        ),
    ],
)
def test_exit_codes(arguments: list[str], exit_code: int, stderr: str) -> None:
    result = run({URL: LOST}, *arguments)

    assert (result.exit_code, result.stderr) == (exit_code, stderr)
    assert ("answered HTTP 404" in result.stdout) == (exit_code != 2)


def test_json_of_a_hard_failure() -> None:
    result = run({}, "not a url", "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["kind"] == "InvalidArguments"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([URL, "--profile", "nope"], "has no profile nope", id="an unknown profile"),
        pytest.param(
            [URL, "--config", "missing.toml"], "missing.toml", id="a configuration that is not there"
        ),
        pytest.param([], "Missing argument", id="no URL"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str) -> None:
    result = run({}, *arguments)

    assert result.exit_code == 2
    assert message in result.stderr


def test_the_settings_reach_whoever_opens_the_gateway(tmp_path: Path) -> None:
    seen: list[FetchSettings] = []
    run({}, URL, "--no-start", "--state-dir", str(tmp_path), seen=seen)

    assert (seen[0].no_start, seen[0].state_dir) == (True, tmp_path)


def test_no_gateway_is_3_and_one_line() -> None:
    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebFetch]:
        raise NoGatewayError("no gateway at 127.0.0.1:3128; start one with: fetchd up")
        yield

    result = CliRunner().invoke(fetch, [URL, "--no-start"], obj=opener)

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "no gateway at 127.0.0.1:3128; start one with: fetchd up\n"


def test_an_audit_log_that_cannot_be_opened_is_one_line() -> None:
    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebFetch]:
        raise AuditUnavailableError("audit log fetch-0: read-only file system")
        yield

    result = CliRunner().invoke(fetch, [URL], obj=opener)

    assert (result.exit_code, result.stderr) == (2, "Error: audit log fetch-0: read-only file system\n")


def test_a_page_cannot_move_the_cursor_through_an_error() -> None:
    result = run({}, "\x1b]0;title\x07not a url")

    assert re.search(r"[\x00-\x09\x0b-\x1f]", result.stderr) is None
