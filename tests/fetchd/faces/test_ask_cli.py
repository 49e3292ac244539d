"""`fetchd ask`, and what is read of its runs afterwards: over a real channel to a vendor on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetchd.core.envelope import CUT_OUT
from fetchd.faces import runs_cli
from fetchd.faces.cli import main
from proxy_addons.audit.reader import read_all
from tests.kit import vendor_answers as answers
from tests.kit.vendor_server import VendorServer

KEY = "sk-ant-0123456789-secret"
URL, OUTSIDE = "https://docs.rs/1", "https://evil.test/x"
PAUSED = answers.message(
    answers.text("I look. "),
    answers.search_use(),
    answers.search_result(URL, OUTSIDE),
    stop="pause_turn",
    searches=1,
)
CITED = answers.message(
    answers.text("It is 1.99.", answers.search_citation(URL), answers.search_citation(OUTSIDE, None)),
    searches=0,
)


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with VendorServer() as server:
        server.replies = [answers.message(answers.text("Hello."))]
        yield server


class Command:
    """`fetchd` in one directory."""

    def __init__(self, directory: Path, vendor: VendorServer) -> None:
        self.state = directory / "state"
        self.config = directory / "fetchd.toml"
        self.vendor = vendor
        self.write("")

    def write(self, more: str) -> None:
        endpoint = f'endpoint = "{self.vendor.endpoint}"\nmodel = "model"\n'
        tables = "".join(f"[vendors.{name}]\n{endpoint}" for name in ("anthropic", "openai", "openrouter"))
        self.config.write_text(f"{tables}{more}")

    def __call__(self, *arguments: str, data: bytes = b"") -> Result:
        found: dict[str, str | None] = {
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
            "OPENROUTER_API_KEY": None,
        }
        found |= {"FETCHD_STATE": str(self.state), "FETCHD_CONFIG": str(self.config)}
        return CliRunner().invoke(main, arguments, env=found, input=data)

    def rows(self, *arguments: str) -> list[Any]:
        result = self(*arguments)
        assert result.exit_code == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def fetchd(tmp_path: Path, vendor: VendorServer) -> Command:
    return Command(tmp_path, vendor)


def test_the_answer_goes_to_standard_output_and_all_else_to_standard_error(
    fetchd: Command, vendor: VendorServer
) -> None:
    vendor.replies = [PAUSED, CITED]
    result = fetchd("ask", "What is new?", "--search", "--max-uses", "3", "--allow", "docs.rs")
    assert (result.exit_code, result.stdout) == (0, "I look. It is 1.99.\n")
    lines = result.stderr.splitlines()
    assert lines[:5] == [
        "step 1: asking anthropic (model)",
        "  anthropic web_search: done",
        "step 1: pause, tokens in 100, out 20, web requests 1",
        "step 2: asking anthropic (model)",
        "step 2: end, tokens in 100, out 20, web requests 0",
    ]
    assert lines[5:9] == [
        "Sources, as the provider says:",
        f"  {URL}",
        f"  {OUTSIDE}  (outside what was declared)",
        "left out, as outside what was declared: 1 result",
    ]
    first, then = vendor.asked
    assert first.headers["x-api-key"] == KEY
    assert first.body["tools"] == then.body["tools"]
    assert [message["role"] for message in then.body["messages"]] == ["user", "assistant"]


def test_json_is_the_object_of_the_http_api(fetchd: Command, vendor: VendorServer) -> None:
    vendor.replies = [CITED]
    result = fetchd("ask", "x", "--search", "--json", "--no-progress")
    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    cut = CUT_OUT.fullmatch(document["text"])
    assert cut is not None and cut[1] == "It is 1.99."
    assert (document["status"], document["trust"]) == ("done", "untrusted")
    assert document["citations"][1] == {
        "step": 1, "url": OUTSIDE, "title": None, "cited_text": "quoted", "outside_declaration": False,
    }  # fmt: skip
    assert "nobody here has checked it" in document["citations_are"]
    assert document["usage"] == {"input_tokens": 100, "output_tokens": 20, "server_tool_requests": 0}


def test_json_of_a_failure_is_the_problem_document_of_the_http_api(
    fetchd: Command, vendor: VendorServer
) -> None:
    vendor.replies = [(401, answers.message_error("authentication_error", "invalid x-api-key"))]
    for options, kind, detail in (
        (
            (),
            "Backend",
            'ask: provider "anthropic" answered with HTTP 401: authentication_error: invalid x-api-key',
        ),
        (("--search", "--allow", "a b"), "InvalidArguments", 'domain "a b" is not a bare host name'),
    ):
        result = fetchd("ask", "x", "--json", *options)
        document = json.loads(result.stdout)
        assert (result.exit_code, document["kind"], document["failure"]) == (2, kind, "hard")
        assert document["detail"].startswith(detail)
        assert detail.removeprefix("ask: ") in result.stderr


def test_a_source_on_a_terminal_is_one_line_that_turns_nothing_around(
    fetchd: Command, vendor: VendorServer
) -> None:
    url = "https://docs.rs/\u202e\nError: forged\x1b[2J"
    vendor.replies = [answers.message(answers.text("x", answers.search_citation(url, "\n", "\u202e")))]
    result = fetchd("ask", "x", "--search")
    assert "  https://docs.rs/\\u202e Error: forged\\x1b[2J" in result.stderr.splitlines()
    assert not {"\u202e", "\x1b"} & set(result.stderr)


def test_a_run_can_be_read_back_when_it_is_long_over(fetchd: Command, vendor: VendorServer) -> None:
    vendor.replies = [PAUSED, CITED]
    fetchd("ask", "What is new?", "--search", "--allow", "docs.rs")
    (run,) = fetchd.rows("runs")
    assert (run["status"], run["steps"], run["agent"]) == ("done", 2, "local")
    assert run["usage"] == {"input_tokens": 200, "output_tokens": 40, "server_tool_requests": 1}
    assert run["declared"]["allowed_domains"] == ["docs.rs"]
    cited = fetchd.rows("citations", run["run_id"])
    assert [(one["step"], one["url"], one["outside_declaration"]) for one in cited] == [
        (2, URL, False), (2, OUTSIDE, True),
    ]  # fmt: skip
    assert all("nobody here has checked it" in one["claim"] for one in cited)
    (usage,) = fetchd.rows("usage", run["run_id"])
    assert [call["stop_reason"] for call in usage["provider_calls"]] == ["pause_turn", "end_turn"]
    assert usage["server_tool_calls"] == [
        {"step": 1, "provider": "anthropic", "tool": "web_search", "error": None}
    ]


def test_on_a_terminal_what_a_user_copies_is_whole_and_nothing_moves_its_cursor(
    fetchd: Command, vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "https://docs.rs/" + "long/" * 30
    vendor.replies = [
        answers.message(
            answers.search_use(),
            answers.search_error("too_many_requests"),
            answers.text(
                "x",
                answers.search_citation(long, None, "\x1b[2Jwords\u202e\nagain"),
                answers.search_citation(OUTSIDE, "\x1b]0;title\x07"),
            ),
        )
    ]
    fetchd("ask", "x", "--search", "--allow", "docs.rs", "--max-steps", "1")
    (run,) = fetchd.rows("runs")
    monkeypatch.setattr(runs_cli, "_wants_json", lambda as_json: as_json)
    monkeypatch.setenv("COLUMNS", "80")
    runs, cited, usage = fetchd("runs"), fetchd("citations", run["run_id"]), fetchd("usage", run["run_id"])
    assert run["run_id"] in runs.stdout
    assert "100  20   -" in runs.stdout and "-: not reported" in runs.stdout
    lines = cited.stdout.splitlines()
    assert lines[:4] == [f"1     {long}", "      title not reported", "      “\\x1b[2Jwords\\u202e again”",
                         f"1     {OUTSIDE}"]  # fmt: skip
    assert "      outside what was declared" in lines
    assert "nobody here has checked it" in lines[-1]
    assert "not reported" in usage.stdout and "too_many_requests" in usage.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(runs.stdout + cited.stdout + usage.stdout)


def test_a_search_that_failed_is_said_however_quiet_it_is(fetchd: Command, vendor: VendorServer) -> None:
    broke = answers.message(
        answers.search_use(), answers.search_error("too_many_requests"), answers.text("Nothing.")
    )
    vendor.replies = [broke]
    result = fetchd("ask", "x", "--search", "--no-progress")
    assert (result.exit_code, result.stdout) == (0, "Nothing.\n")
    assert "Warning: the provider's web_search failed (too_many_requests)" in result.stderr
    assert "  anthropic web_search: failed (too_many_requests)" in fetchd("ask", "x", "--search").stderr
    vendor.replies = [broke, CITED]
    vendor.asked.clear()
    assert fetchd("ask", "x", "--search", "--no-progress").stderr == ""


def test_neither_key_nor_prompt_nor_answer_is_in_the_state_or_in_the_log(
    fetchd: Command, vendor: VendorServer
) -> None:
    vendor.replies = [(401, answers.message_error("authentication_error", f"invalid x-api-key {KEY}"))]
    result = fetchd("ask", "the-prompt-itself", "--search")
    assert result.exit_code == 2
    assert (
        'provider "anthropic" answered with HTTP 401: authentication_error: invalid x-api-key [key]'
        in result.stderr
    )
    vendor.replies = [answers.message(answers.text("the-answer-itself"))]
    assert fetchd("ask", "the-prompt-itself").exit_code == 0
    for path in fetchd.state.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(
                word.encode() in data for word in (KEY, "the-prompt-itself", "the-answer-itself")
            ), path
    kinds = [line.text("kind") for line in read_all(fetchd.state / "audit")]
    assert kinds.count("ask") == 4


REFUSED = [
    # arguments, what is said
    (
        ["--search", "--block", "evil.test", "--provider", "openai"],
        "cannot block individual domains — its web search",
    ),
    (["--fetch", "--provider", "openai"], "cannot fetch pages — it has no provider-executed fetch tool"),
    (["--search", "--allow", "https://docs.rs"], 'domain "https://docs.rs" is not a bare host name'),
    (["--search", "--allow", "docs.rs", "--block", "docs.rs"], "leaves nothing to allow"),
    (["--provider", "openrouter"], "the environment variable OPENROUTER_API_KEY is not set"),
    (["--max-uses", "0"], "max_uses must be a whole number from 1 to 1000"),
    (["--max-steps", "0"], "max_steps must be a whole number from 1 to 100"),
    (["--timeout", "nan"], "timeout must be a number of seconds"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_cannot_be_carried_is_refused_and_nothing_is_sent(
    fetchd: Command, vendor: VendorServer, arguments: list[str], says: str
) -> None:
    result = fetchd("ask", "x", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert vendor.asked == []


def test_a_fallback_that_cannot_carry_it_is_refused_at_the_start(
    fetchd: Command, vendor: VendorServer
) -> None:
    fetchd.write('[ask]\nfallbacks = ["openai"]\n')
    result = fetchd("ask", "x", "--fetch")
    assert result.exit_code == 2
    assert 'provider "openai" cannot fetch pages' in result.stderr
    assert vendor.asked == []


def test_a_fallback_is_asked_when_the_first_is_overloaded(fetchd: Command, vendor: VendorServer) -> None:
    fetchd.write('[ask]\nfallbacks = ["openai"]\n')
    vendor.replies = [(529, answers.message_error()), answers.response(answers.output_text("Hello."))]
    result = fetchd("ask", "x", "--search")
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert 'asking provider "openai" instead' in result.stderr
    assert [one.path for one in vendor.asked] == ["/v1/messages", "/v1/responses"]
    (run,) = fetchd.rows("runs")
    (usage,) = fetchd.rows("usage", run["run_id"])
    assert [(call["provider"], call["failure"]) for call in usage["provider_calls"]] == [
        ("anthropic", "overloaded_error"), ("openai", None),
    ]  # fmt: skip


def test_the_table_of_the_configuration_is_what_is_declared_unless_an_option_says_otherwise(
    fetchd: Command, vendor: VendorServer
) -> None:
    fetchd.write('[web]\nsearch = true\nmax_uses = 3\nallowed_domains = ["docs.rs"]\n')
    fetchd("ask", "x")
    fetchd("ask", "x", "--no-search")
    fetchd("ask", "x", "--allow", "crates.io")
    found: list[Any] = [one.body.get("tools") for one in vendor.asked]
    assert [tools and tools[0]["allowed_domains"] for tools in found] == [["docs.rs"], None, ["crates.io"]]
    assert found[0][0]["max_uses"] == 3


def test_a_profile_s_host_rules_are_declared_too(fetchd: Command, vendor: VendorServer) -> None:
    fetchd.write('[profiles.p]\nallow_hosts = ["docs.rs:443"]\ndeny_hosts = ["evil.test"]\n')
    fetchd("ask", "x", "--search", "--profile", "p")
    assert vendor.asked[0].body["tools"][0]["allowed_domains"] == ["docs.rs"]
    result = fetchd("ask", "x", "--search", "--profile", "p", "--allow", "crates.io")
    assert (result.exit_code, len(vendor.asked)) == (2, 1)
    assert "have no host in common" in result.stderr


def test_an_agent_needs_the_tool_and_stays_within_the_configuration(
    fetchd: Command, vendor: VendorServer
) -> None:
    agents = '[agents.bot]\nprofile = "p"\n[profiles.p]\n'
    fetchd.write(agents)
    assert "tool ask is not allowed by profile p" in fetchd("ask", "x", "--agent", "bot").stderr
    fetchd.write(f'{agents}tools = ["ask"]\n')
    assert (
        "web search is not among what this run may do"
        in fetchd("ask", "x", "--agent", "bot", "--search").stderr
    )
    assert vendor.asked == []
    assert fetchd("ask", "x", "--agent", "bot").exit_code == 0
    assert [run["agent"] for run in fetchd.rows("runs", "--agent", "bot")] == ["bot"]


ENDS = [
    # what it says, the vendor's answer, options, status
    ("cut", answers.message(answers.text("Half"), stop="max_tokens"), (), "length"),
    ("refused", answers.message(answers.text("No."), stop="refusal"), (), "refused"),
    (
        "a budget",
        answers.message(answers.text("x"), stop="pause_turn"),
        ("--max-steps", "1"),
        "spent (steps)",
    ),
]


@pytest.mark.parametrize(("what", "answer", "options", "status"), ENDS, ids=[row[0] for row in ENDS])
def test_an_answer_that_is_not_whole_is_printed_and_the_exit_status_1(
    fetchd: Command,
    vendor: VendorServer,
    what: str,
    answer: answers.Object,
    options: tuple[str, ...],
    status: str,
) -> None:
    vendor.replies = [answer]
    result = fetchd("ask", "x", "--search", *options)
    assert (result.exit_code, result.stdout) == (1, f"{answer['content'][0]['text']}\n")
    assert f": {status}, tokens" in result.stderr


def test_a_vendor_that_breaks_off_is_a_failure_and_no_answer(fetchd: Command, vendor: VendorServer) -> None:
    from tests.kit import replies

    events = list(answers.message_events(CITED))[:-1]
    vendor.replies = [replies.answer(200, answers.stream(events), "text/event-stream")]
    result = fetchd("ask", "x", "--search")
    assert (result.exit_code, result.stdout) == (2, "")
    assert 'provider "anthropic": the stream broke off before the end of the message' in result.stderr


def test_a_vendor_that_answers_whole_where_a_stream_was_asked_for_is_read(
    fetchd: Command, vendor: VendorServer
) -> None:
    vendor.replies = [(200, answers.message(answers.text("Hello.")))]
    assert fetchd("ask", "x").stdout == "Hello.\n"


def test_what_cannot_be_recorded_does_not_cost_the_answer(fetchd: Command, vendor: VendorServer) -> None:
    fetchd.state.mkdir()
    (fetchd.state / "fetchd.db").write_bytes(b"not a database, and long enough to be none" * 100)
    result = fetchd("ask", "x")
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")


def test_records_that_cannot_be_written_can_be_read(
    fetchd: Command, vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor.replies = [CITED]
    fetchd("ask", "x", "--search")
    (run,) = fetchd.rows("runs")
    before = {path.name: path.stat().st_mtime_ns for path in fetchd.state.iterdir()}
    # What root is told of a file system that is mounted read-only, and others of a directory of root's.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert fetchd.rows("runs") == [run]
    assert [one["url"] for one in fetchd.rows("citations", run["run_id"])] == [URL, OUTSIDE]
    assert {path.name: path.stat().st_mtime_ns for path in fetchd.state.iterdir()} == before


def test_there_is_no_run_that_was_not_made(fetchd: Command) -> None:
    for command in ("citations", "usage"):
        missing = fetchd(command, "nope")
        assert missing.exit_code == 2
        assert "nothing recorded in" in missing.stderr
    fetchd("ask", "x")
    for command in ("citations", "usage"):
        result = fetchd(command, "nope\x1b[2J")
        assert (result.exit_code, "\x1b" in result.stderr) == (2, False)
        assert "see: fetchd runs" in result.stderr


def test_a_prompt_can_come_by_standard_input(fetchd: Command, vendor: VendorServer) -> None:
    assert fetchd("ask", "-", data="What is a quöll?\n".encode()).exit_code == 0
    assert vendor.asked[0].body["messages"][0]["content"] == "What is a quöll?\n"
    for wrong in (b"", b" \n", b"\xff", b"x" * 1_000_000):
        assert fetchd("ask", "-", data=wrong).exit_code == 2
    assert len(vendor.asked) == 1
