"""docs/tools.md holds to the code: arguments, versions, limits, codes and commands."""

from __future__ import annotations

import re

import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from fetchd.core.envelope import CUT_OUT
from fetchd.core.read_failures import ReadCode
from fetchd.core.tool_definitions import FORMATS, PAGE_READ, TOOLS, WEB_FETCH, WEB_SEARCH
from fetchd.faces.calls import MAX_CALLS, MAX_WAITING
from fetchd.faces.cli import COMMANDS
from fetchd.faces.fetch_cli import fetch
from fetchd.faces.mcp_cli import mcp
from fetchd.faces.mcp_http import MAX_AGENT_SESSIONS, MAX_SESSIONS, SESSION_IDLE_SECONDS
from fetchd.faces.mcp_server import BUSY_CODE
from fetchd.faces.read_cli import read
from fetchd.faces.search_cli import search
from tests.kit.corpora import REPOSITORY

PAGE = (REPOSITORY / "docs" / "tools.md").read_text("utf-8")
READ_PAGE = (REPOSITORY / "docs" / "page-read.md").read_text("utf-8")


def test_every_tool_and_argument_is_there_with_its_words() -> None:
    for tool in TOOLS:
        assert f"| `{tool.name}` | {tool.description} |" in PAGE
    inputs = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", READ_PAGE, re.MULTILINE))
    assert {parameter.name for parameter in PAGE_READ.parameters} <= set(inputs)
    assert {code.value for code in ReadCode} == set(re.findall(r"`(\w+)`", "".join(_codes())))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    for parameter in WEB_SEARCH.parameters:
        assert parameter.description in rows[parameter.name]
        bounds = (parameter.maximum, parameter.longest, parameter.most, *parameter.choices)
        assert all(str(bound) in rows[parameter.name] for bound in bounds if bound is not None)
    for parameter in WEB_FETCH.parameters:
        assert parameter.json_type.value in rows[parameter.name]
        assert str(parameter.maximum or "") in rows[parameter.name]
        assert parameter.description.partition(" for this call")[0] in rows[parameter.name]


def test_every_version_is_there() -> None:
    assert set(re.findall(r"\b20\d\d-\d\d-\d\d\b", PAGE)) == set(KNOWN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize(
    "said",
    [
        f"With {MAX_CALLS} calls at work and {MAX_WAITING} waiting, or half of either by this agent, one more",
        f" is {BUSY_CODE}: try again",
        f"{MAX_SESSIONS:,} sessions, {MAX_AGENT_SESSIONS:,} of one agent, {int(SESSION_IDLE_SECONDS) // 60} minutes",
        f"--format {'|'.join(FORMATS)}",
        CUT_OUT.pattern,
    ],
)
def test_numbers_are_those_of_the_code(said: str) -> None:
    assert said in PAGE


def _codes() -> list[str]:
    """The first cells of the table of failures."""
    table = READ_PAGE.partition("| code | HTTP | when |")[2]
    return re.findall(r"^\| (`.*?) \| \d", table, re.MULTILINE)


def test_commands_and_options_exist() -> None:
    options = {
        option for command in (fetch, mcp, search) for one in command.params for option in one.opts
    } | {"--format"}

    assert set(re.findall(r"`?fetchd (\w+)", PAGE)) <= {*COMMANDS}
    assert set(re.findall(r"(?<!-)--[a-z][a-z-]*", PAGE)) <= options
    read_options = {option for one in read.params for option in one.opts}
    assert set(re.findall(r"(?<!-)--[a-z][a-z-]*", READ_PAGE)) <= read_options
