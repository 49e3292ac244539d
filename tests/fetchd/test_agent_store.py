"""The file of agents: whole or not at all, its owner's alone, one command at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fetchd import agent_store
from fetchd.agent_store import StoredAgents, hold_agents, read_agents, write_agents
from proxy_addons.policy.config import ConfigError
from tests.kit.corpora import REPOSITORY

BOT = {
    "profile": "default",
    "token_sha256": "0" * 64,
    "sources": ["10.0.0.7"],
    "created": "2026-01-01T00:00:00",
}
EDITOR = """
import sys
from pathlib import Path
from fetchd.agent_store import hold_agents, read_agents, write_agents
for number in range(20):
    with hold_agents(Path(sys.argv[1])):
        stored = read_agents(Path(sys.argv[1]))
        write_agents(Path(sys.argv[1]), stored.having(f"{sys.argv[2]}{number}", {}))
"""


def test_what_was_written_is_read_and_is_the_owners_alone(tmp_path: Path) -> None:
    stored = read_agents(tmp_path).having("bot", BOT)
    write_agents(tmp_path, stored)

    assert read_agents(tmp_path) == stored
    assert (tmp_path / "agents.json").stat().st_mode & 0o777 == 0o600
    assert stored.without("bot").tables == {}
    assert stored.configured == {"bot": {key: value for key, value in BOT.items() if key != "created"}}


def test_without_a_file_or_a_directory_there_are_none(tmp_path: Path) -> None:
    assert read_agents(tmp_path).tables == {}
    assert read_agents(tmp_path / "not" / "there").tables == {}
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"bot": 1}',
        '{"bot": []}',
        "[" * 100_000,
        '{"bot": {}, "bot": {}}',
        '{"bot": {"profile": "idle", "profile": "default"}}',
    ],
)
def test_a_damaged_file_is_an_error_and_not_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "agents.json").write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_agents(tmp_path)

    assert str(caught.value) == (
        f"{tmp_path}/agents.json: is damaged; restore it, or remove it and add the agents again: fetchd agent add"
    )


def test_the_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_agents(tmp_path, StoredAgents("", {"bot": BOT}))
    size = (tmp_path / "agents.json").stat().st_size

    monkeypatch.setattr(agent_store, "MAX_BYTES", size)
    assert set(read_agents(tmp_path).tables) == {"bot"}
    monkeypatch.setattr(agent_store, "MAX_BYTES", size - 1)
    with pytest.raises(ConfigError, match="is damaged"):
        read_agents(tmp_path)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agents.json")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_agents(tmp_path)


def test_commands_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    editors = [
        subprocess.Popen([sys.executable, "-c", EDITOR, str(tmp_path), name], cwd=REPOSITORY)
        for name in ("a", "b", "c")
    ]

    assert [editor.wait() for editor in editors] == [0, 0, 0]
    found = json.loads((tmp_path / "agents.json").read_text())
    assert set(found) == {f"{name}{number}" for name in "abc" for number in range(20)}


def test_a_lock_that_is_not_given_back_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_store, "LOCK_SECONDS", 0.0)
    with (
        hold_agents(tmp_path),
        pytest.raises(TimeoutError, match="another command is changing the agents"),
        hold_agents(tmp_path),
    ):
        pytest.fail("held twice")
    with hold_agents(tmp_path):
        pass
