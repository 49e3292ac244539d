"""`fetchd search`: what is printed where, and SPEC 1.10's exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from fetchd.core.envelope import CUT_OUT
from fetchd.core.failures import FailureKind
from fetchd.faces.fetch_cli import FetchSettings
from fetchd.faces.search_cli import search
from fetchd.faces.search_display import ONLY_READ, plain_line, print_list
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import (
    Freshness,
    SafeSearch,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
)
from fetchd.search.searching import SearchResult, WebSearch
from proxy_addons.audit import AuditUnavailableError, MemoryAuditLog, SearchRecord
from proxy_addons.audit.reader import read_all
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from tests.fetchd.faces.search_rows import FOUND, TEXT, SearchCase, each_case
from tests.fetchd.faces.search_scripted import EVIL, ROWS
from tests.kit.corpora import REPOSITORY
from tests.kit.sync import PATIENCE


def run(provider: ScriptedProvider, *arguments: str, log: MemoryAuditLog | None = None) -> Result:
    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebSearch]:
        lines = log if log is not None else MemoryAuditLog()
        yield WebSearch({"local": provider}, lambda: settings.loaded.config.search, lines)

    return CliRunner().invoke(search, arguments, obj=opener)


def test_away_from_a_terminal_it_is_the_object_of_the_http_api() -> None:
    result = run(ScriptedProvider([FOUND]), "x")

    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    cut = CUT_OUT.fullmatch(document.pop("text"))
    assert cut is not None and cut[1] == TEXT
    assert document.pop("fetch_id")
    assert document == {
        "trust": "untrusted",
        "failure": None,
        "rule": None,
        "provider": "local",
        "dropped": 0,
        "urls": [
            {"url": "https://www.rust-lang.org/", "admitted": True, "rule": None},
            {"url": "http://10.0.0.1/admin", "admitted": False, "rule": "scheme"},
        ],
    }


def test_every_option_reaches_the_provider() -> None:
    provider = ScriptedProvider([FOUND])
    options = ["--count", "5", "--freshness", "pw", "--country", " us ", "--search-lang", "en"]
    options += ["--safesearch", "strict", "--include-domain", "a.example", "--include-domain", "B.example"]
    result = run(provider, " a query ", *options, "--exclude-domain", "c.example", "--json")

    assert result.exit_code == 0
    assert provider.asked == [
        (
            SearchArguments(
                " a query ",
                5,
                Freshness.WEEK,
                " us ",
                "en",
                SafeSearch.STRICT,
                ("a.example", "B.example"),
                ("c.example",),
            ),
            "local",
        )
    ]


def test_several_words_are_one_query() -> None:
    provider = ScriptedProvider([FOUND])
    run(provider, "rust", "--count", "5", "async", "--", "--runtime")

    assert provider.asked == [(SearchArguments("rust async --runtime", 5), "local")]


def test_a_search_that_leaves_this_machine_needs_no_pages_of_it(tmp_path: Path) -> None:
    """The store of what was read here is damaged, and nobody asks it."""
    (tmp_path / "fetchd.db").write_bytes(b"no database" * 100)
    config = tmp_path / "brave.toml"
    config.write_text('[search]\nprovider = "brave"\n[search.brave]\nkey_env = "NOBODY_SETS_THIS"\n')
    done = CliRunner().invoke(search, ["x", "--config", str(config), "--state-dir", str(tmp_path)])

    document = json.loads(done.stdout)
    assert (document["provider"], document["detail"]) == ("brave", "web_search: request failed")


def options_of(arguments: dict[str, Any]) -> list[str] | None:
    """The command line of JSON arguments; None where no command line says that: there, all values are text."""
    lists, count = ("include_domains", "exclude_domains"), arguments.get("count")
    if not isinstance(arguments.get("query"), str) or set(arguments) - set(OPTIONS) - {"query"}:
        return None
    if isinstance(count, str | list) or any(isinstance(arguments.get(name), str) for name in lists):
        return None
    options = []
    for name, value in arguments.items():
        if name in OPTIONS:
            for one in value if isinstance(value, list) else [value]:
                options += [OPTIONS[name], one if isinstance(one, str) else json.dumps(one)]
    return ["--json", *options, "--", arguments["query"]]


OPTIONS = {
    "count": "--count",
    "country": "--country",
    "search_lang": "--search-lang",
    "include_domains": "--include-domain",
    "exclude_domains": "--exclude-domain",
}


@each_case
def test_each_failure_on_the_command_line(case: SearchCase) -> None:
    sys.set_int_max_str_digits(6000)
    try:
        arguments = options_of(json.loads(case.arguments))
    finally:
        sys.set_int_max_str_digits(4300)
    if arguments is None:
        return
    provider = case.make_provider()
    result = run(provider, *arguments)

    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (2, "")
    assert (document["detail"], document["kind"]) == (case.message, case.kind.value)
    assert bool(provider.asked) is case.asked


@pytest.mark.parametrize("option", [("--freshness", "PD"), ("--safesearch", "none"), ("--limit", "3")])
def test_what_no_option_takes_is_said_before_anything_is_opened(option: tuple[str, str]) -> None:
    provider = ScriptedProvider([FOUND])
    result = run(provider, "x", *option)

    assert result.exit_code == 2 and option[0] in result.stderr and not provider.asked


@pytest.mark.parametrize(
    ("answer", "options", "status"),
    [
        (FOUND, (), 0),
        (FOUND, ("--fail",), 0),
        (SearchAnswer(()), (), 0),
        (SearchAnswer(()), ("--fail",), 1),
        (SearchAnswer((SearchRow("https://b.example/"),)), ("--fail", "--include-domain", "a.example"), 1),
        (SearchFailure(FailureKind.TRANSPORT, "request failed"), ("--fail",), 2),
    ],
)
def test_the_exit_status(answer: Any, options: tuple[str, ...], status: int) -> None:
    assert run(ScriptedProvider([answer]), "x", *options).exit_code == status


def test_a_profile_that_does_not_list_it(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[profiles.default]\ntools = ["web_fetch"]\n')
    provider = ScriptedProvider([FOUND])
    result = run(provider, "x", "--config", str(config))

    assert (result.exit_code, result.stderr) == (
        2,
        "Error: tool web_search is not allowed by profile default\n",
    )
    assert not provider.asked


def test_an_agent_searches_under_its_own_name_and_profile(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[agents.bot]\nprofile = "news"\n[profiles.news]\nallow_hosts = ["a.example"]\n')
    log, provider = MemoryAuditLog(), ScriptedProvider([FOUND])
    result = run(provider, "x", "--agent", "bot", "--config", str(config), log=log)

    assert [one["rule"] for one in json.loads(result.stdout)["urls"]] == ["host", "scheme"]
    (line,) = log.records
    assert isinstance(line, SearchRecord) and (line.agent, line.profile) == ("bot", "news")


def test_without_a_log_nothing_is_searched(tmp_path: Path) -> None:
    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebSearch]:
        raise AuditUnavailableError("the log is in use")
        yield

    result = CliRunner().invoke(search, ["x"], obj=opener)
    assert (result.exit_code, result.stderr) == (2, "Error: the log is in use\n")


def test_it_writes_its_line_into_the_state_directory(tmp_path: Path) -> None:
    """The command as it is, over whatever this build has of providers."""
    result = CliRunner().invoke(search, ["a secret query", "--state-dir", str(tmp_path / "state")])

    lines = [line for line in read_all(tmp_path / "state" / "audit") if line.text("kind") == "search"]
    assert [(line.chain, line.text("tool"), line.text("provider")) for line in lines] == [
        ("fetch-0", "web_search", "local")
    ]
    assert b"secret" not in lines[0].raw and result.exit_code in (0, 2)


# --------------------------------------------------------------------------------------------------- terminal


def on_terminal(*arguments: str) -> tuple[int, str]:
    """Exit status and what a terminal of 60 columns shows."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color", "COLUMNS": "60"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fetchd.faces.search_scripted", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # EIO: the other end is closed
            while chunk := os.read(ours, 65536):
                shown += chunk
        status = process.wait(PATIENCE)
    os.close(ours)
    return status, shown.decode()


def test_a_terminal_shows_a_list_and_nothing_moves_it(tmp_path: Path) -> None:
    status, shown = on_terminal("x", "--state-dir", str(tmp_path))

    assert status == 0
    assert "Tokio — docs" in shown and "https://docs.rs/tokio" in shown
    assert "2 results by local, 2 outside the domain lists left out" in shown
    # What moves a terminal is ours alone: styles, and line ends.
    for allowed in ("\r\n", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[33m"):
        shown = shown.replace(allowed, "")
    assert shown.isprintable(), ascii(shown)


def test_json_on_a_terminal_moves_it_no_more_than_a_list(tmp_path: Path) -> None:
    status, shown = on_terminal("x", "--json", "--state-dir", str(tmp_path))

    assert status == 0 and shown.endswith("\r\n")
    assert shown[:-2].isprintable(), ascii(shown)
    assert [one["url"] for one in json.loads(shown)["urls"]] == [row.url for row in ROWS]


def test_a_failure_on_a_terminal_is_one_line(tmp_path: Path) -> None:
    assert on_terminal(" ", "--state-dir", str(tmp_path)) == (2, "")


def test_what_a_provider_said_of_its_failure_moves_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchd.faces.search_cli._is_terminal", lambda: True)
    failure = SearchFailure(FailureKind.BACKEND, "backend returned 500: \u202etxt\u2066 \x9b2J")
    result = run(ScriptedProvider([failure]), "x")

    assert result.stderr == "Error: web_search: backend returned 500: \\u202etxt\\u2066 \\x9b2J\n"


def shown_list(result: SearchResult, profile: Profile = DEFAULT_PROFILE, width: int = 60) -> list[str]:
    console = Console(width=width, markup=False, highlight=False, emoji=False, color_system=None)
    with console.capture() as capture:
        print_list(console, result, profile)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_list() -> None:
    result = SearchResult("", "0", rows=(ROWS[0], SearchRow("http://10.0.0.1/")), provider="brave")
    assert shown_list(result) == [
        " 1  Tokio — docs",
        "    https://docs.rs/tokio",
        "    docs.rs, 2 days ago",
        "    An asynchronous runtime.",
        "    Fast.",
        "",
        " 2  (no title)",
        "    http://10.0.0.1/",
        "    not admitted by profile default: scheme",
        "",
        "2 results by brave",
    ]
    assert shown_list(SearchResult("", "0", provider="brave")) == ["nothing found by brave"]


def test_a_url_wider_than_the_terminal_is_copied_whole() -> None:
    url = f"https://a.example/{'long-path/' * 20}?q=1"
    assert shown_list(SearchResult("", "0", rows=(SearchRow(url),)))[1] == f"    {url}"


def test_who_finds_nothing_in_the_local_index_is_told_what_it_is() -> None:
    lines = shown_list(SearchResult("", "0", provider="local"), width=200)
    assert lines == ["nothing found by local", ONLY_READ]


def test_a_hostile_row_is_shown_in_escapes() -> None:
    lines = shown_list(SearchResult("", "0", rows=(SearchRow("u", EVIL),)), width=200)
    assert lines[0] == r" 1  \x1b]0;owned\x07\x9b2J \u202etxt.exe [red]x[/red] :boom:"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (" a\t\r\n b\u2028c\xa0d ", "a b c d"),
        ("\u202e\u2066\u200b\ufeff", r"\u202e\u2066\u200b\ufeff"),
        ("\x00\x1b\x7f\x9b", r"\x00\x1b\x7f\x9b"),
        ("é 😀 日本", "é 😀 日本"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_line_holds_what_can_be_printed(text: str, line: str) -> None:
    assert plain_line(text) == line
