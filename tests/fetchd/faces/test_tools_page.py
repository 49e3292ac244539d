"""docs/tools.md holds to the code: arguments, versions, limits, codes and commands."""

from __future__ import annotations

import re

import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from fetchd.core.envelope import CUT_OUT
from fetchd.core.tool_definitions import FORMATS, TOOLS, WEB_FETCH
from fetchd.faces.calls import MAX_CALLS, MAX_WAITING
from fetchd.faces.cli import COMMANDS
from fetchd.faces.fetch_cli import fetch
from fetchd.faces.mcp_cli import mcp
from fetchd.faces.mcp_http import MAX_SESSIONS, SESSION_IDLE_SECONDS
from fetchd.faces.mcp_server import BUSY_CODE
from tests.kit.corpora import REPOSITORY

PAGE = (REPOSITORY / "docs" / "tools.md").read_text("utf-8")


def test_every_tool_and_argument_is_there_with_its_words() -> None:
    for tool in TOOLS:
        assert f"| `{tool.name}` | {tool.description} |" in PAGE
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    for parameter in WEB_FETCH.parameters:
        assert parameter.json_type.value in rows[parameter.name]
        assert str(parameter.maximum or "") in rows[parameter.name]
        assert parameter.description.partition(" for this call")[0] in rows[parameter.name]


def test_every_version_is_there() -> None:
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d\b", PAGE)) == set(KNOWN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize(
    "said",
    [
        f"With {MAX_CALLS} calls at work and {MAX_WAITING} waiting, one more is {BUSY_CODE}",
        f"{MAX_SESSIONS:,} sessions, {int(SESSION_IDLE_SECONDS) // 60} minutes",
        f"--format {'|'.join(FORMATS)}",
        CUT_OUT.pattern,
    ],
)
def test_numbers_are_those_of_the_code(said: str) -> None:
    assert said in PAGE


def test_commands_and_options_exist() -> None:
    options = {option for command in (fetch, mcp) for one in command.params for option in one.opts} | {
        "--format"
    }

    assert set(re.findall(r"`?fetchd (\w+)", PAGE)) <= {*COMMANDS}
    assert set(re.findall(r"(?<!-)--[a-z][a-z-]*", PAGE)) <= options
