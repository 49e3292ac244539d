"""MCP as an agent's host has it: `/mcp` of `fetchd up`; `fetchd mcp` over the running gateway or a private one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from fetchd.core.envelope import CUT_OUT
from tests.e2e.conftest import Installed
from tests.e2e.stage import Stage
from tests.kit import replies
from tests.kit.exchange import Ending
from tests.kit.installed import CLI, COMMAND_SECONDS, environment, run_fetchd
from tests.kit.processes import find_in, wait_ended
from tests.kit.sync import Gate

ERAS = ["legacy", "2026-07-28"]
MARKUP = "<p>one<table><tr><td>two<td></b></i>three [INST] &#0; <div><div>"
"""Broken enough for libraries to talk about it."""


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    found = CUT_OUT.fullmatch(block.text)
    assert found is not None
    return found[1]


def mcp_url(installed: Installed) -> str:
    host, port = installed.up.tools
    return f"http://{host}:{port}/mcp"


@pytest.fixture(scope="module", autouse=True)
def _pages(shared_installation: Installed) -> None:
    add_pages(shared_installation.stage)


def add_pages(stage: Stage) -> None:
    route = stage.origin.route
    route("/mcp/page", replies.text("read through the gateway"))
    route("/mcp/broken", replies.page(MARKUP))
    route("/mcp/klingon", replies.answer(200, b"x", "text/plain; charset=X-Klingon"))
    route("/mcp/moved", replies.redirect(stage.url("/secret?key=abc123", "denied.example")))


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_over_http(installed: Installed, era: Any) -> None:
    stage = installed.stage
    async with Client(mcp_url(installed), mode=era) as client:
        page = await client.call_tool("web_fetch", {"url": stage.url("/mcp/page")})
        soft = await client.call_tool("web_fetch", {"url": stage.url("/mcp/moved")})
        hard = await client.call_tool("web_fetch", {"url": "https://169.254.169.254/"})

    assert text_of(page).endswith("extraction: plain\n\nread through the gateway")
    assert (soft.is_error, hard.is_error) == (False, True)
    assert text_of(soft) == (
        f"redirect from {stage.url('/mcp/moved')} to {stage.url('/secret', 'denied.example')} refused: "
        "host not allowed: denied.example"
    )
    assert text_of(hard) == "ip literal host not allowed: 169.254.169.254"
    line = installed.up.audit("fetch")[-3]
    assert page.meta is not None and page.meta["fetchd/fetch_id"] == line["fetch_id"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_given_up_closes_the_origin_connection(installed: Installed, era: Any) -> None:
    gate, path = Gate(), f"/mcp/silent/{era}"
    installed.stage.origin.route(path, replies.silent(gate))
    try:
        async with Client(mcp_url(installed), mode=era) as client:
            call = asyncio.create_task(client.call_tool("web_fetch", {"url": installed.stage.url(path)}))
            await asyncio.to_thread(installed.stage.wait_requests, installed.stage.origin, 1)
            connection = next(
                one
                for one in installed.stage.origin.connections
                if any(request.path == path for request in one.requests)
            )
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            # The gate is still shut: only the cancellation can end it.
            assert await connection.wait_closed() in (Ending.PEER_FIN, Ending.PEER_RESET)
    finally:
        gate.open()


def parameters(*arguments: str, folder: Path) -> StdioServerParameters:
    command, *before = CLI
    return StdioServerParameters(
        command=command, args=[*before, "mcp", *arguments], env=environment(), cwd=folder
    )


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_over_stdio_uses_the_running_gateway(
    installed: Installed, era: Any
) -> None:
    up = installed.up
    command = parameters(
        "--config", str(installed.stage.config), "--state-dir", str(up.state), "--no-start", folder=up.folder
    )
    with tempfile.TemporaryFile("w+") as errors:
        async with Client(stdio_client(command, errlog=errors), mode=era) as client:
            page = await client.call_tool("web_fetch", {"url": installed.stage.url("/mcp/page")})

    assert text_of(page).endswith("read through the gateway")


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_a_private_gateway_is_started_and_ended_and_output_is_messages_only(tmp_path: Path) -> None:
    """Bug case C079, with debug logging on; the end of input ends everything that was started."""
    with Stage(tmp_path) as stage:
        add_pages(stage)
        urls = [
            stage.url("/mcp/broken"),
            stage.url("/mcp/klingon"),
            stage.url("/", "denied.example"),
            stage.url("/mcp/moved"),
            "https://nowhere.example/",
        ]
        process = subprocess.Popen(
            [*CLI, "mcp", "--verbose", "--config", str(stage.config), "--state-dir", str(tmp_path / "state")],
            cwd=tmp_path, env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None

        def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            assert process.stdin is not None and process.stdout is not None
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
            assert (found["jsonrpc"], found["id"]) == ("2.0", number)
            return found["result"]

        try:
            ask(0, "initialize", HELLO)
            results = [
                ask(at + 1, "tools/call", {"name": "web_fetch", "arguments": {"url": url}})
                for at, url in enumerate(urls)
            ]
            rest, errors = process.communicate(timeout=COMMAND_SECONDS)
        finally:
            process.kill()
        wait_ended(find_in(tmp_path))

    assert [result["isError"] for result in results] == [False, False, True, False, False]
    assert "three [ INST]" in results[0]["content"][0]["text"]
    assert "unknown charset x-klingon" in results[1]["content"][0]["text"]
    assert (rest, process.returncode) == ("", 0)
    assert "abc123" not in errors and "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param(["--no-start"], 3, "start one with: fetchd up", id="no gateway"),
        pytest.param(["--config", "missing.toml"], 2, "missing.toml", id="a configuration that is not there"),
        pytest.param(["--profile", "nope"], 2, "no profile nope", id="an unknown profile"),
        pytest.param(["--transport", "stdio"], 2, "--transport", id="an option that is none"),
    ],
)
def test_a_start_that_fails_says_so_on_standard_error(
    arguments: list[str], status: int, said: str, tmp_path: Path
) -> None:
    done = run_fetchd("mcp", *arguments, "--state-dir", str(tmp_path / "state"), folder=tmp_path)

    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_many_pages_by_the_command(installed: Installed) -> None:
    """In order, over the running gateway; the denied one stops nothing."""
    stage, up = installed.stage, installed.up
    urls = [stage.url("/mcp/page"), stage.url("/", "denied.example"), *[stage.url("/mcp/klingon")] * 3]
    done = subprocess.run(
        [*CLI, "fetch", "-", "--json", "--config", str(stage.config), "--state-dir", str(up.state)],
        cwd=up.folder, env=environment(), input="\n".join(urls), text=True, capture_output=True,
        check=False, timeout=COMMAND_SECONDS,
    )  # fmt: skip

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["failure"] for row in rows] == [None, "hard", "soft", "soft", "soft"]
    assert (done.returncode, done.stderr) == (2, "")


def test_tools_are_printed_without_a_gateway(tmp_path: Path) -> None:
    done = run_fetchd("tools", "--format", "anthropic", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["name"] == "web_fetch"
    assert list(tmp_path.iterdir()) == []
