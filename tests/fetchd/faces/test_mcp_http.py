"""MCP over streamable HTTP, by the SDK's own client and by a plain one, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent

from fetchd.core.envelope import CUT_OUT
from fetchd.core.tool_definitions import WEB_FETCH, WEB_SEARCH
from fetchd.faces.mcp_http import MAX_MESSAGE_BYTES
from fetchd.transport.fake import ScriptedAnswer
from proxy_addons.policy.verdicts import Rule, refuse
from tests.fetchd.faces.served import HANGS, HANGS_IN_BODY, TEXT, URL, PlainClient, read_answer, serve
from tests.kit.sync import PATIENCE

ERAS = ["legacy", "2026-07-28"]
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
INTEGER = "web_fetch: max_chars must be a positive integer"
MISSING = "web_fetch: missing url argument"


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    found = CUT_OUT.fullmatch(block.text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("era", [*ERAS, "auto"])
async def test_tools_are_published_as_specified(era: Any) -> None:
    async with serve({}) as daemon, Client(daemon.mcp_url, mode=era) as client:
        tools = (await client.list_tools()).tools

    for tool, specified in zip(tools, (WEB_FETCH, WEB_SEARCH), strict=True):
        assert (tool.name, tool.description) == (specified.name, specified.description)
        assert tool.input_schema == specified.input_schema()
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, True)
        assert tool.output_schema is None


@pytest.mark.parametrize("era", ERAS)
class TestCalls:
    async def test_a_success(self, era: Any) -> None:
        async with serve({URL: TEXT}) as daemon, Client(daemon.mcp_url, mode=era) as client:
            result = await client.call_tool("web_fetch", {"url": URL})

        assert result.is_error is False
        assert text_of(result) == f"url: {URL}\ntruncated: false\nextraction: plain\n\né &lt;b>"
        assert result.structured_content is None
        assert result.meta is not None and len(str(result.meta["fetchd/fetch_id"])) == 20

    async def test_a_soft_failure_is_a_text(self, era: Any) -> None:
        answers = {URL: ScriptedAnswer(refusal=refuse(Rule.DNS_FAILED, "x"))}
        async with serve(answers) as daemon, Client(daemon.mcp_url, mode=era) as client:
            result = await client.call_tool("web_fetch", {"url": URL})

        assert (result.is_error, text_of(result)) == (False, "dns resolution failed for a.example")
        assert result.meta is not None and result.meta["fetchd/rule"] == "dns-failed"

    async def test_a_hard_failure_is_an_error_in_the_envelope(self, era: Any) -> None:
        async with serve({}) as daemon, Client(daemon.mcp_url, mode=era) as client:
            result = await client.call_tool("web_fetch", {"url": "https://a.example:22/"})

        assert (result.is_error, text_of(result)) == (True, "port not allowed: 22")
        assert result.meta is not None and result.meta["fetchd/kind"] == "InvalidArguments"

    async def test_an_unknown_tool(self, era: Any) -> None:
        async with serve({}) as daemon, Client(daemon.mcp_url, mode=era) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("web_serch", {"url": URL})

        assert (caught.value.error.code, caught.value.error.message) == (-32602, "Unknown tool: web_serch")
        assert daemon.transport.sent == []

    async def test_calls_run_side_by_side(self, era: Any) -> None:
        answers = {"https://a.example/slow": HANGS, URL: TEXT}
        async with serve(answers) as daemon, Client(daemon.mcp_url, mode=era) as client:
            slow = asyncio.create_task(client.call_tool("web_fetch", {"url": "https://a.example/slow"}))
            await daemon.transport.hanging.wait()
            results = await asyncio.gather(*(client.call_tool("web_fetch", {"url": URL}) for _ in range(8)))
            assert not slow.done()
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)

        assert [result.is_error for result in results] == [False] * 8

    async def test_calls_beyond_the_bound_are_turned_away(self, era: Any) -> None:
        async with (
            serve({URL: HANGS}, max_calls=1, max_waiting=0) as daemon,
            Client(daemon.mcp_url, mode=era) as client,
        ):
            first = asyncio.create_task(client.call_tool("web_fetch", {"url": URL}))
            await daemon.transport.hanging.wait()
            with pytest.raises(MCPError) as caught:
                await client.call_tool("web_fetch", {"url": URL})
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

        assert caught.value.error.message == "too many calls; try again in a few seconds"
        assert len(daemon.transport.sent) == 1

    async def test_progress_is_told_while_a_fetch_runs(self, era: Any) -> None:
        told: list[tuple[float, str | None]] = []
        twice = asyncio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, message))
            if len(told) > 1 and message == "reading the page, 5 bytes":
                twice.set()

        async with (
            serve({URL: HANGS_IN_BODY}, progress_seconds=0.01) as daemon,
            Client(daemon.mcp_url, mode=era) as client,
        ):
            call = asyncio.create_task(client.call_tool("web_fetch", {"url": URL}, progress_callback=note))
            await asyncio.wait_for(twice.wait(), PATIENCE)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

        values = [progress for progress, _ in told]
        assert values == sorted(set(values))

    async def test_a_call_given_up_closes_its_connection(self, era: Any) -> None:
        """The handshake era sends notifications/cancelled; that of 2026-07-28 closes the stream."""
        async with serve({URL: HANGS}) as daemon, Client(daemon.mcp_url, mode=era) as client:
            call = asyncio.create_task(client.call_tool("web_fetch", {"url": URL}))
            await daemon.transport.hanging.wait()
            assert daemon.transport.open_answers == 1
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await daemon.expect_dropped_call()
            assert (await client.list_tools()).tools


@pytest.mark.parametrize("version", VERSIONS)
class TestPlainClient:
    async def test_every_version_is_spoken(self, version: str) -> None:
        async with serve({URL: TEXT}) as daemon:
            client = await PlainClient(daemon, version).open()
            response = await client.post(client.raw_call(json.dumps({"url": URL})))

        answer = read_answer(response)
        assert (response.status, answer["id"]) == (200, 7)
        assert answer["result"]["isError"] is False
        assert CUT_OUT.fullmatch(answer["result"]["content"][0]["text"])

    @pytest.mark.parametrize("hanging", [HANGS, HANGS_IN_BODY], ids=["before the head", "in the body"])
    async def test_a_connection_that_closes_drops_its_call(
        self, version: str, hanging: ScriptedAnswer
    ) -> None:
        async with serve({URL: hanging}) as daemon:
            client = await PlainClient(daemon, version).open()
            body = client.raw_call(json.dumps({"url": URL}))
            fields = client.fields() | {"Host": "localhost", "Content-Length": str(len(body))}
            head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
                connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
                await daemon.transport.hanging.wait()
                assert daemon.transport.open_answers == 1
            await daemon.expect_dropped_call()


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param('{"url":"u","max_chars":5.0}', INTEGER, id="5.0 is no integer"),
        pytest.param('{"url":"u","max_chars":5e0}', INTEGER, id="5e0 is no integer"),
        pytest.param('{"url":"u","max_chars":1e400}', INTEGER, id="1e400 is no integer"),
        pytest.param('{"url":"u","max_chars":true}', INTEGER, id="true is no integer"),
        pytest.param('{"url":"u","max_chars":"5"}', INTEGER, id="a string is no integer"),
        pytest.param('{"url":"u","max_chars":0}', INTEGER, id="0 is not positive"),
        pytest.param('{"url":"u","max_chars":-%s}' % ("9" * 5000), INTEGER, id="nor is a huge negative"),
        pytest.param('{"url":"u","max_chars":1}', "invalid url", id="1 is one"),
        pytest.param('{"url":"u","max_chars":%s}' % ("9" * 30), "invalid url", id="30 digits are one"),
        pytest.param('{"url":"u","max_chars":%s}' % ("9" * 5000), "invalid url", id="5000 digits are one"),
        pytest.param('{"url":"u","max_chars":null,"raw":null}', "invalid url", id="null is left out"),
        pytest.param('{"url":"u","raw":1}', "web_fetch: raw must be a boolean", id="1 is no boolean"),
        pytest.param('{"url":"u","raw":"true"}', "web_fetch: raw must be a boolean", id="nor is a string"),
        pytest.param('{"url":1}', MISSING, id="a number is no URL"),
        pytest.param('{"url":"https://a.example/","url":"u"}', "invalid url", id="the last of two counts"),
        pytest.param(
            '{"url":"u","Raw":1,"max_chars ":0}', "invalid url", id="C071: unknown keys are ignored"
        ),
        pytest.param("{}", MISSING, id="an empty object"),
        pytest.param("null", MISSING, id="null"),
        pytest.param("[]", MISSING, id="a list"),
        pytest.param('"https://a.example/"', MISSING, id="a string"),
        pytest.param("7", MISSING, id="a number"),
        pytest.param("false", MISSING, id="false"),
    ],
)
async def test_arguments_reach_our_parser_untouched(version: str, arguments: str, message: str) -> None:
    async with serve({}) as daemon:
        client = await PlainClient(daemon, version).open()
        response = await client.post(client.raw_call(arguments))

    result = read_answer(response)["result"]
    found = CUT_OUT.fullmatch(result["content"][0]["text"])
    assert (result["isError"], found is not None and found[1]) == (True, message)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", -32700, id="nothing"),
        pytest.param(b'{"jsonrpc":"2.0",', -32700, id="half an object"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":%s' % (b"9" * 5000), -32700, id="cut"
        ),
        pytest.param(b"[" * 100_000, -32700, id="nesting"),
        pytest.param(b"\xff", -32700, id="not UTF-8"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":NaN}}', -32700, id="NaN"),
        pytest.param(b"[]", -32600, id="a batch"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}', -32600, id="no method"),
        pytest.param(b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', -32600, id="another version"),
    ],
)
async def test_what_is_no_message_is_refused(version: str, body: bytes, code: int) -> None:
    async with serve({}) as daemon:
        client = await PlainClient(daemon, version).open()
        response = await client.post(body)
        alive = await client.post(client.raw_call('{"url":"u"}'))

    assert response.status == 400
    assert json.loads(response.content)["error"]["code"] == code
    assert read_answer(alive)["result"]["isError"] is True


HALF = "\\ud800"
"""Half a surrogate pair, as JSON may write it."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "members",
    [
        pytest.param('"id":true,"method":"tools/list"', id="true is no id"),
        pytest.param('"id":null,"method":"tools/list"', id="null is none"),
        pytest.param('"id":1.5,"method":"tools/list"', id="nor is a fraction"),
        pytest.param('"id":[7],"method":"tools/list"', id="nor a list"),
        pytest.param('"id":{},"method":"tools/list"', id="nor an object"),
        pytest.param(f'"id":"{HALF}","method":"tools/list"', id="half a surrogate pair could not be echoed"),
        pytest.param(f'"id":7,"method":"tools/{HALF}"', id="in the method"),
        pytest.param(f'"id":7,"method":"tools/call","params":{{"name":"{HALF}"}}', id="in the tool's name"),
        pytest.param(
            f'"id":7,"method":"tools/call","params":{{"{HALF}":1}}', id="in the name of a parameter"
        ),
        pytest.param(f'"id":7,"method":"tools/list","params":{{"arguments":"{HALF}"}}', id="of no call"),
        pytest.param(f'"method":"notifications/{HALF}"', id="in a notification"),
    ],
)
async def test_an_invalid_request_is_answered_with_null_for_its_id(version: str, members: str) -> None:
    """JSON-RPC 2.0, 5 and 5.1."""
    async with serve({}) as daemon:
        client = await PlainClient(daemon, version).open()
        response = await client.post(f'{{"jsonrpc":"2.0",{members}}}'.encode())
        alive = await client.post(client.raw_call('{"url":"u"}'))

    answer = json.loads(response.content)
    assert (response.status, answer["error"]["code"], answer["id"]) == (400, -32600, None)
    assert read_answer(alive)["result"]["isError"] is True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(f'{{"url":"https://{HALF}.example/"}}', "invalid url", id="half a pair in a host"),
        pytest.param(f'{{"url":"https://a.example/{HALF}"}}', "invalid url", id="in a path"),
        pytest.param(f'{{"url":"u","max_chars":{"9" * 5000},"x":"{HALF}"}}', "invalid url", id="with digits"),
        pytest.param(f'{{"max_chars":"{HALF}","url":"u"}}', INTEGER, id="where an integer belongs"),
        pytest.param(f'"{HALF}"', MISSING, id="in place of all arguments"),
    ],
)
async def test_half_a_surrogate_pair_in_arguments_is_the_tools_to_judge(
    version: str, arguments: str, message: str
) -> None:
    async with serve({}) as daemon:
        client = await PlainClient(daemon, version).open()
        result = read_answer(await client.post(client.raw_call(arguments)))["result"]

    found = CUT_OUT.fullmatch(result["content"][0]["text"])
    assert (result["isError"], found is not None and found[1]) == (True, message)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(f'"{HALF}":1', id="half a pair in an unknown key"),
        pytest.param('"x":"\\ud83d\\ude00"', id="a whole pair"),
        pytest.param('"x":"\\\\ud800"', id="a back-slash before it"),
    ],
)
async def test_what_the_tool_ignores_does_no_harm(version: str, extra: str) -> None:
    async with serve({URL: TEXT}) as daemon:
        client = await PlainClient(daemon, version).open()
        response = await client.post(client.raw_call(f'{{"url":"{URL}",{extra}}}'))

    assert read_answer(response)["result"]["isError"] is False


async def test_a_body_of_another_type_is_refused_for_that() -> None:
    async with serve({}) as daemon:
        client = await PlainClient(daemon, "2025-11-25").open()
        response = await client.post(b"{", **{"Content-Type": "text/plain"})

    assert response.status in (400, 415)
    assert b"-32700" not in response.content


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 413)])
async def test_messages_are_bounded(version: str, extra: int, status: int) -> None:
    async with serve({}) as daemon:
        client = await PlainClient(daemon, version).open()
        body = client.raw_call("{}")
        body += b" " * (MAX_MESSAGE_BYTES + extra - len(body))
        response = await client.post(body)

    assert response.status == status


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "localhost:9"}, 200, id="this machine, no Origin"),
        pytest.param({"Host": "evil.example"}, 421, id="a rebound name"),
        pytest.param({"Host": "localhost.evil.example"}, 421, id="with our name in front"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another page"),
        pytest.param(
            {"Host": "localhost", "Origin": "http://localhost.evil.example"}, 403, id="a look-alike"
        ),
        pytest.param({"Origin": "null"}, 403, id="a page without an origin"),
    ],
)
async def test_web_pages_are_kept_out(version: str, headers: dict[str, str], status: int) -> None:
    """Bug case C077: refused before any work."""
    async with serve({URL: TEXT}) as daemon:
        client = await PlainClient(daemon, version).open()
        response = await client.post(client.raw_call(json.dumps({"url": URL})), **headers)

        assert response.status == status
        assert len(daemon.transport.sent) == (status == 200)


async def test_a_web_page_cannot_open_a_session() -> None:
    async with serve({}) as daemon:
        client = PlainClient(daemon, "2025-11-25")
        hello = client.message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})

        assert (await client.post(hello, Origin="https://evil.example")).status == 403


async def test_the_end_of_the_daemon_drops_calls() -> None:
    async with serve({URL: HANGS}) as daemon:
        client = await PlainClient(daemon, "2025-11-25").open()
        call = asyncio.create_task(client.post(client.raw_call(json.dumps({"url": URL}))))
        await daemon.transport.hanging.wait()
    await asyncio.gather(call, return_exceptions=True)

    await daemon.expect_dropped_call()


async def test_the_end_of_a_session_drops_its_calls() -> None:
    async with serve({URL: HANGS}) as daemon:
        client = await PlainClient(daemon, "2025-11-25").open()
        call = asyncio.create_task(client.post(client.raw_call(json.dumps({"url": URL}))))
        await daemon.transport.hanging.wait()
        response = await daemon.request(b"", "/mcp", "DELETE", client.fields())
        assert response.status == 200
        await daemon.expect_dropped_call()
        assert (await client.post(client.raw_call("{}"))).status == 404
        await asyncio.gather(call, return_exceptions=True)
