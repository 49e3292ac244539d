"""`fetchd index status | clear | rebuild` as a person and a script meet them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fetchd.faces import index_cli
from tests.fetchd.search.local.kit import open_index, read_text, urls


async def fill(state: Path) -> None:
    async with open_index(state) as index:
        await index.texts.add([read_text("alpha"), read_text("beta", 2), read_text("alpha", agent="bob")])
        assert len(await urls(index, "alpha")) == 1


async def find(state: Path, agent: str = "alice") -> int:
    async with open_index(state) as index:
        return len(await urls(index, "alpha", agent))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two agents' pages, the index of one of them."""
    asyncio.run(fill(tmp_path / "state"))
    return tmp_path / "state"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(index_cli.group, [str(argument) for argument in arguments])


def test_status_says_what_is_there(state: Path) -> None:
    result = run("status", "--state-dir", state)
    found = json.loads(result.output)

    assert [(row["agent"], row["pages"]) for row in found["agents"]] == [("alice", 2), ("bob", 1)]
    (index,) = found["indexes"]
    assert (index["index"], index["pages"], index["behind"]) == ("alice", 2, False)
    assert index["file_bytes"] == (state / "index" / "agent-alice.db").stat().st_size


def test_status_on_a_terminal_is_a_table(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cli, "_on_terminal", lambda: True)
    lines = [line.split() for line in run("status", "--state-dir", state).output.splitlines()]

    assert lines[0] == ["agent", "pages", "bytes"]
    assert [line[:2] for line in lines[1:3]] == [["alice", "2"], ["bob", "1"]]
    assert lines[4] == ["index", "pages", "file", "bytes"]
    assert lines[5][:5] == ["alice", "2", "up", "to", "date"]
    assert run("clear", "--state-dir", state).exit_code == 0
    assert "no pages yet" in run("status", "--state-dir", state).output


def test_clear_forgets_one_agents_pages_or_all(state: Path) -> None:
    assert run("clear", "--agent", "alice", "--state-dir", state).output == "2 pages are not found any more\n"
    assert asyncio.run(find(state)) == 0
    assert asyncio.run(find(state, "bob")) == 1
    assert run("clear", "--state-dir", state).output == "1 pages are not found any more\n"
    assert asyncio.run(find(state, "bob")) == 0


def test_rebuild_makes_files_anew(state: Path) -> None:
    path = state / "index" / "agent-alice.db"
    path.write_bytes(b"no database")

    assert run("rebuild", "--state-dir", state).output == "alice\t2\n"
    assert run("rebuild", "--agent", "bob", "--state-dir", state).output == "bob\t1\n"
    assert asyncio.run(find(state)) == 1


def test_nobodys_index_is_an_error(state: Path) -> None:
    result = run("rebuild", "--agent", "\x1b[31mx", "--state-dir", state)

    assert result.exit_code == 2
    assert "nothing is kept of an agent" in result.output and "\x1b" not in result.output


def test_looking_makes_no_store(tmp_path: Path) -> None:
    result = run("status", "--state-dir", tmp_path / "none")

    assert result.exit_code == 2 and "no pages kept in" in result.output
    assert not (tmp_path / "none").exists()
