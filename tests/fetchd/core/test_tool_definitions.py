"""SPEC 2: what is published of the tools, word for word, in each vendor's shape."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from fetchd.core.arguments import FetchArguments, read_arguments
from fetchd.core.tool_definitions import FORMATS, TOOLS, WEB_FETCH
from fetchd.faces.tools_cli import tools

DESCRIPTION = "Fetch a web page and return its main content as markdown."
SCHEMA = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "The URL to fetch."},
        "max_chars": {
            "type": "integer",
            "description": "Maximum number of characters of text to return for this call. Clamped to the "
            "configured ceiling. Longer text is truncated on a character boundary and the result is flagged as "
            "truncated.",
            "minimum": 1,
            "maximum": 40000,
        },
        "raw": {"type": "boolean", "description": "Render the whole page instead of its main article."},
    },
    "required": ["url"],
}

RENDERED = {
    "mcp": {
        "name": "web_fetch",
        "description": DESCRIPTION,
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    "anthropic": {"name": "web_fetch", "description": DESCRIPTION, "input_schema": SCHEMA},
    "openai": {
        "type": "function",
        "function": {"name": "web_fetch", "description": DESCRIPTION, "parameters": SCHEMA},
    },
}


@pytest.mark.parametrize("name", [*FORMATS])
def test_the_command_prints_a_list_in_each_format(name: str) -> None:
    result = CliRunner().invoke(tools, ["--format", name])

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == [RENDERED[name]]


def test_mcp_is_the_default() -> None:
    assert json.loads(CliRunner().invoke(tools).stdout) == [RENDERED["mcp"]]


def test_another_format_is_an_error_that_names_those_there_are() -> None:
    result = CliRunner().invoke(tools, ["--format", "cohere"])

    assert result.exit_code == 2
    assert all(name in result.stderr for name in FORMATS)


def test_the_table_names_what_the_parser_reads() -> None:
    """A parameter added on one side only is published and ignored, or read and never published."""
    assert [parameter.name for parameter in WEB_FETCH.parameters] == list(FetchArguments.__dataclass_fields__)
    assert TOOLS == (WEB_FETCH,)


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ({"url": "u"}, True),
        ({"url": "u", "max_chars": None, "raw": None, "other": 1}, True),
        ({"url": "u", "max_chars": 10**30}, True),
        ({"url": "u", "max_chars": 1, "raw": True}, True),
        ({"url": "u", "max_chars": 0}, False),
        ({"url": "u", "max_chars": "1"}, False),
        ({"url": "u", "raw": 0}, False),
        ({"url": None}, False),
        ({}, False),
    ],
)
def test_the_accepted_schema_says_what_the_parser_does(arguments: dict[str, object], accepted: bool) -> None:
    from jsonschema import Draft202012Validator

    schema = WEB_FETCH.accepted_schema()

    assert Draft202012Validator(schema).is_valid(arguments) is accepted
    assert isinstance(read_arguments(arguments), FetchArguments) is accepted
