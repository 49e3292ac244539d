"""Many pages: side by side, in order, bounded; one bad URL stops nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from fetchd.core.envelope import CUT_OUT
from fetchd.core.progress import Phase
from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.fetch_cli import MAX_LINE_BYTES, FetchSettings, fetch
from fetchd.faces.fetch_display import FetchDisplay
from fetchd.faces.fetch_many import HELD_PER_JOB, iterate, run_in_order
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from proxy_addons.audit import MemoryAuditLog
from tests.kit.corpora import REPOSITORY
from tests.kit.sync import PATIENCE

TYPED = [(b"Content-Type", b"text/plain")]
HARD = "https://a.example:22/"


def url(number: int) -> str:
    return f"https://a.example/{number}"


def pages(*numbers: int) -> dict[str, ScriptedAnswer]:
    return {url(number): ScriptedAnswer(200, TYPED, [b"page %d" % number]) for number in numbers}


def run(
    answers: Mapping[str, ScriptedAnswer], *arguments: str, stdin: bytes = b""
) -> tuple[Result, FakeTransport]:
    transport = FakeTransport(answers)

    @asynccontextmanager
    async def opener(settings: FetchSettings) -> AsyncIterator[WebFetch]:
        with ProcessExtractor(1) as extractor:
            yield WebFetch(transport, extractor, MemoryAuditLog())

    return CliRunner().invoke(fetch, arguments, obj=opener, input=stdin), transport


def into(taken: list[int]) -> Callable[[int], Awaitable[None]]:
    async def take(number: int) -> None:
        taken.append(number)

    return take


class TestRunInOrder:
    async def test_results_keep_the_order_of_their_sources(self) -> None:
        """Each call ends only when the one after it has: as much out of order as can be."""
        ended = [asyncio.Event() for _ in range(9)]
        ended[8].set()
        taken: list[int] = []

        async def call(number: int) -> int:
            await ended[number + 1].wait()
            ended[number].set()
            return number

        await asyncio.wait_for(run_in_order(iterate([*range(8)]), call, into(taken), 8), PATIENCE)

        assert taken == [*range(8)]

    @pytest.mark.parametrize("jobs", [1, 3])
    async def test_no_more_than_jobs_are_at_work(self, jobs: int) -> None:
        working, most, taken = 0, 0, list[int]()

        async def call(number: int) -> int:
            nonlocal working, most
            working += 1
            most = max(most, working)
            for _ in range(3):
                await asyncio.sleep(0)
            working -= 1
            return number

        await run_in_order(iterate([*range(20)]), call, into(taken), jobs)

        assert (most, taken) == (jobs, [*range(20)])

    async def test_a_slow_first_page_does_not_make_the_rest_pile_up(self) -> None:
        """The source is read no further than the bound, however long it is."""
        asked = 0
        first, idle = asyncio.Event(), asyncio.Event()

        async def sources() -> AsyncIterator[int]:
            nonlocal asked
            while True:
                yield asked
                asked += 1
                idle.clear()

        async def call(number: int) -> int:
            if number == 0:
                await first.wait()
            return number

        taken: list[int] = []
        running = asyncio.create_task(run_in_order(sources(), call, into(taken), 2))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert asked <= 2 * HELD_PER_JOB + 2
        assert taken == []
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def test_what_a_taker_raises_ends_the_others(self) -> None:
        """As when nobody reads the output any more."""
        waiting, cancelled = asyncio.Event(), asyncio.Event()

        async def call(number: int) -> int:
            if number == 0:
                await waiting.wait()
            else:
                waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
            return number

        async def take(number: int) -> None:
            raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            await run_in_order(iterate([0, 1, 2]), call, take, 3)

        assert cancelled.is_set()

    async def test_what_a_source_raises_comes_after_the_results_before_it(self) -> None:
        async def sources() -> AsyncIterator[int]:
            yield 1
            raise OSError("gone")

        async def call(number: int) -> int:
            return number

        taken: list[int] = []
        with pytest.raises(OSError, match="gone"):
            await run_in_order(sources(), call, into(taken), 2)

        assert taken == [1]


class TestCommand:
    def test_texts_stand_in_the_order_of_the_arguments_a_blank_line_apart(self) -> None:
        result, _ = run(pages(1, 2, 3), url(3), url(1), url(2))

        texts = result.stdout.removesuffix("\n").split("\n\n<untrusted_input_")
        found = [
            CUT_OUT.search(text if at == 0 else f"<untrusted_input_{text}") for at, text in enumerate(texts)
        ]
        assert [match is not None and match[1].rpartition("\n")[2] for match in found] == [
            "page 3",
            "page 1",
            "page 2",
        ]
        assert (result.exit_code, result.stderr) == (0, "")

    def test_json_is_a_line_for_each(self) -> None:
        result, _ = run(pages(1, 2), url(2), HARD, url(9), url(1), "--json")

        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [row.get("final_url") for row in rows] == [url(2), None, None, url(1)]
        assert [row["failure"] for row in rows] == [None, "hard", "soft", None]
        assert rows[1]["kind"] == "InvalidArguments"

    def test_an_error_names_its_url_by_number_and_stops_nothing(self) -> None:
        """Not by the URL: it may hold a password."""
        secret = "https://user:secret@a.example/"
        result, _ = run(pages(1, 2), url(1), secret, url(2))

        assert result.exit_code == 2
        assert result.stderr == "Error: URL 2: url must not contain userinfo\n"
        assert "page 1" in result.stdout and "page 2" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            pytest.param([url(1), url(2)], 0, id="all there"),
            pytest.param([url(1), url(9)], 0, id="a soft failure"),
            pytest.param([url(1), url(9), "--fail"], 1, id="a soft failure that counts"),
            pytest.param([HARD, url(9), url(1), "--fail"], 2, id="the worst, wherever it stands"),
        ],
    )
    def test_the_exit_status_is_the_worst(self, arguments: list[str], status: int) -> None:
        result, _ = run(pages(1, 2), *arguments)

        assert result.exit_code == status

    @pytest.mark.parametrize("jobs", ["0", "65", "x"])
    def test_jobs_are_bounded(self, jobs: str) -> None:
        result, transport = run(pages(1), url(1), "--jobs", jobs)

        assert (result.exit_code, transport.sent) == (2, [])

    def test_the_options_hold_for_every_page(self) -> None:
        result, _ = run(pages(1, 2), url(1), url(2), "--max-chars", "1", "--json", "--jobs", "1")

        assert [json.loads(line)["truncated"] for line in result.stdout.splitlines()] == [True, True]


class TestStandardInput:
    def test_a_url_a_line(self) -> None:
        stdin = f"{url(2)}\n\n  \n{HARD}\r\n{url(1)}\r\n{url(3)}".encode()
        result, _ = run(pages(1, 2, 3), "-", "--json", stdin=stdin)

        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [row.get("final_url") for row in rows] == [url(2), None, url(1), url(3)]
        assert result.exit_code == 2

    def test_nothing_to_do_is_done(self) -> None:
        result, transport = run({}, "-", stdin=b"\n")

        assert (result.exit_code, result.stdout, transport.sent) == (0, "", [])

    @pytest.mark.parametrize(
        "line",
        [
            pytest.param(b"https://a.example/\xff", id="not UTF-8"),
            pytest.param(url(1).encode() + b" " * MAX_LINE_BYTES, id="longer than the bound"),
            pytest.param(b"\x00", id="a zero byte"),
        ],
    )
    def test_a_line_that_is_no_url_stops_nothing(self, line: bytes) -> None:
        result, transport = run(pages(1), "-", "--json", stdin=line + b"\n" + url(1).encode() + b"\n")

        rows = [json.loads(row) for row in result.stdout.splitlines()]
        assert [row.get("detail") for row in rows] == ["invalid url", None]
        assert [request.target.href for request in transport.sent] == [url(1)]

    def test_it_stands_alone(self) -> None:
        result, _ = run(pages(1), "-", url(1))

        assert (result.exit_code, result.stderr) == (
            2,
            "Error: - reads the URLs from standard input; it stands alone\n",
        )

    def test_ctrl_c_ends_it_while_it_waits_for_a_line(self, tmp_path: Path) -> None:
        """The thread that reads cannot be interrupted, and must not hold up the exit."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fetchd.faces.fetch_scripted", "-", "--json"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(url(1).encode() + b"\n")
        process.stdin.flush()
        first = json.loads(process.stdout.readline())
        process.send_signal(2)
        process.wait(PATIENCE)
        process.communicate()

        assert first["final_url"] == url(1)


class TestDisplay:
    @staticmethod
    def terminal() -> Console:
        return Console(file=io.StringIO(), force_terminal=True, width=100)

    @staticmethod
    def shown(console: Console) -> str:
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    @pytest.mark.parametrize(("total", "count"), [(3, "1/3"), (None, "1/?")])
    def test_a_terminal_is_shown_how_many_are_done(self, total: int | None, count: str) -> None:
        console = self.terminal()
        with FetchDisplay(console, total) as display:
            display.count(failed=True)

        assert count in self.shown(console) and "1 failed" in self.shown(console)

    def test_of_one_page_it_is_shown_how_far_it_is(self) -> None:
        console = self.terminal()
        with FetchDisplay(console, 1) as display:
            assert display.single is not None
            display.single.bytes = 12_345
            with display.aside():
                pass

        assert "waiting for the server, 12,345 bytes" in self.shown(console)

    def test_a_search_waits_for_no_server_of_a_page(self) -> None:
        console = self.terminal()
        with FetchDisplay(console, 1, Phase.SEARCHING):
            pass

        assert "searching" in self.shown(console) and "waiting" not in self.shown(console)

    def test_what_is_no_terminal_is_shown_nothing(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=False)
        with FetchDisplay(console, 3) as display, display.aside():
            display.count(failed=False)

        assert self.shown(console) == ""
