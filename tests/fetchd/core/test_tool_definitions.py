"""SPEC 2: what is published of the tools, word for word, in each vendor's shape."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from fetchd.core.arguments import FetchArguments, read_arguments
from fetchd.core.read_arguments import INPUTS, ReadArguments, read_read_arguments
from fetchd.core.tool_definitions import FORMATS, PAGE_READ, TOOLS, WEB_FETCH, WEB_SEARCH
from fetchd.faces.tools_cli import tools
from fetchd.search.arguments import read_search_arguments
from fetchd.search.interface import Argument, SearchArguments
from proxy_addons.policy import limits

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

READ_DESCRIPTION = (
    "Read one public web page whole and return the part asked for, bound to a digest of the page's body, with its "
    "redirects and a signed receipt, so that it can be cited and checked later."
)
READ_SCHEMA = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "The single public HTTP(S) URL to read."},
        "allowlist": {
            "type": "array",
            "description": "Host patterns (docs.rs, *.docs.rs, each with optional :port) for the URL and every "
            "redirect target. Left out: any public host. Empty: none.",
            "items": {"type": "string"},
            "maxItems": 100,
        },
        "extract": {
            "type": "string",
            "description": "What to return: readable text, metadata, absolute links, or the body as one JSON "
            "document.",
            "enum": ["text", "metadata", "links", "json"],
        },
        "link_text": {"type": "boolean", "description": "With links: return each with its text."},
        "known_digest": {
            "type": "string",
            "description": "Digest of an earlier read; where the page still has it, nothing is extracted again.",
            "pattern": "^sha256:[0-9a-f]{64}$",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}
READ = {
    "mcp": {
        "name": "page_read",
        "description": READ_DESCRIPTION,
        "inputSchema": READ_SCHEMA,
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    "anthropic": {"name": "page_read", "description": READ_DESCRIPTION, "input_schema": READ_SCHEMA},
    "openai": {
        "type": "function",
        "function": {"name": "page_read", "description": READ_DESCRIPTION, "parameters": READ_SCHEMA},
    },
}
SEARCH_DESCRIPTION = "Search the web and return a list of results (title, url, description)."
SEARCH_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to search for.", "minLength": 1, "maxLength": 400},
        "count": {
            "type": "integer",
            "description": "Maximum number of results.",
            "minimum": 1,
            "maximum": 20,
        },
        "freshness": {
            "type": "string",
            "description": "Only results from the past day (pd), week (pw), month (pm) or year (py).",
            "enum": ["pd", "pw", "pm", "py"],
        },
        "country": {
            "type": "string",
            "description": "Country code to target, such as us.",
            "minLength": 1,
            "maxLength": 128,
        },
        "search_lang": {
            "type": "string",
            "description": "Language code, such as en.",
            "minLength": 1,
            "maxLength": 128,
        },
        "safesearch": {
            "type": "string",
            "description": "SafeSearch level.",
            "enum": ["off", "moderate", "strict"],
        },
        "include_domains": {
            "type": "array",
            "description": "Keep only results from these hostnames.",
            "items": {"type": "string"},
            "maxItems": 20,
        },
        "exclude_domains": {
            "type": "array",
            "description": "Drop results from these hostnames.",
            "items": {"type": "string"},
            "maxItems": 20,
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
SEARCH = {
    "mcp": {
        "name": "web_search",
        "description": SEARCH_DESCRIPTION,
        "inputSchema": SEARCH_SCHEMA,
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    "anthropic": {
        "name": "web_search",
        "description": SEARCH_DESCRIPTION,
        "input_schema": SEARCH_SCHEMA,
    },
    "openai": {
        "type": "function",
        "function": {
            "name": "web_search",
            "description": SEARCH_DESCRIPTION,
            "parameters": SEARCH_SCHEMA,
        },
    },
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
    assert json.loads(result.stdout) == [RENDERED[name], READ[name], SEARCH[name]]


def test_mcp_is_the_default() -> None:
    assert json.loads(CliRunner().invoke(tools).stdout) == [RENDERED["mcp"], READ["mcp"], SEARCH["mcp"]]


def test_another_format_is_an_error_that_names_those_there_are() -> None:
    result = CliRunner().invoke(tools, ["--format", "cohere"])

    assert result.exit_code == 2
    assert all(name in result.stderr for name in FORMATS)


def test_the_table_names_what_the_parser_reads() -> None:
    """A parameter added on one side only is published and ignored, or read and never published."""
    assert [parameter.name for parameter in WEB_FETCH.parameters] == list(FetchArguments.__dataclass_fields__)
    assert [parameter.name for parameter in PAGE_READ.parameters] == list(INPUTS)
    assert [parameter.name for parameter in WEB_SEARCH.parameters] == list(Argument)
    assert TOOLS == (WEB_FETCH, PAGE_READ, WEB_SEARCH)
    assert [tool.name for tool in TOOLS] == list(limits.TOOLS)


D64 = "0" * 64


@pytest.mark.parametrize(
    ("inputs", "accepted"),
    [
        ({"url": "u"}, True),
        ({"url": "u", "allowlist": None, "extract": None, "link_text": None, "known_digest": None}, True),
        ({"url": "u", "allowlist": [], "extract": "links", "link_text": True}, True),
        ({"url": "u", "known_digest": f"sha256:{D64}"}, True),
        ({"url": "u", "known_digest": f"sha256:{D64}0"}, False),
        ({"url": "u", "allowlist": "a.example"}, False),
        ({"url": "u", "allowlist": ["a.example"] * 101}, False),
        ({"url": "u", "extract": "html"}, False),
        ({"url": "u", "link_text": 1}, False),
        ({"url": "u", "headers": {}}, False),
        ({"url": None}, False),
        ({}, False),
    ],
)
def test_the_accepted_schema_of_page_read_says_what_its_parser_does(
    inputs: dict[str, object], accepted: bool
) -> None:
    from jsonschema import Draft202012Validator

    assert Draft202012Validator(PAGE_READ.accepted_schema()).is_valid(inputs) is accepted
    assert isinstance(read_read_arguments(inputs), ReadArguments) is accepted


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


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ({"query": "q"}, True),
        ({"query": "q"} | {name.value: None for name in list(Argument)[1:]}, True),
        ({"query": "q" * 400, "count": 20, "country": "c" * 128, "include_domains": ["a"] * 20}, True),
        ({"query": "q", "freshness": "pd", "safesearch": "off", "search_lang": "e", "count": 1}, True),
        ({"query": ""}, False),
        ({"query": "q" * 401}, False),
        ({"query": "q", "count": 0}, False),
        ({"query": "q", "count": 21}, False),
        ({"query": "q", "count": "1"}, False),
        ({"query": "q", "country": ""}, False),
        ({"query": "q", "search_lang": "e" * 129}, False),
        ({"query": "q", "freshness": "pD"}, False),
        ({"query": "q", "safesearch": True}, False),
        ({"query": "q", "exclude_domains": ["a"] * 21}, False),
        ({"query": "q", "exclude_domains": "a"}, False),
        ({"query": "q", "limit": 1}, False),
        ({"query": None}, False),
        ({}, False),
    ],
)
def test_the_accepted_schema_of_web_search_says_what_its_parser_does(
    arguments: dict[str, object], accepted: bool
) -> None:
    from jsonschema import Draft202012Validator

    assert Draft202012Validator(WEB_SEARCH.accepted_schema()).is_valid(arguments) is accepted
    assert isinstance(read_search_arguments(arguments), SearchArguments) is accepted
