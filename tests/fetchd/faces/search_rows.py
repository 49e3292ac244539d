"""SPEC 4 as one table that every face is held to."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from fetchd.core.failures import FailureKind
from fetchd.search.fake import ALL_NATIVE, Script, ScriptedProvider
from fetchd.search.interface import Argument, Capability, SearchAnswer, SearchFailure, SearchRow, Support

ROW = SearchRow(
    "https://www.rust-lang.org/", "Rust é <b>", "A language", "2 days ago", "www.rust-lang.org", ("Fast.",)
)
FOUND = SearchAnswer((ROW, SearchRow("http://10.0.0.1/admin")))
TEXT = (
    '{"query":"x","results":[{"title":"Rust é &lt;b>","url":"https://www.rust-lang.org/",'
    '"description":"A language","age":"2 days ago","site_name":"www.rust-lang.org","extra_snippets":["Fast."]},'
    '{"title":"","url":"http://10.0.0.1/admin","description":""}]}'
)
"""What stands in the envelope of FOUND."""

INVALID, TRANSPORT, BACKEND, OTHER = FailureKind
QUERY_LONG = "web_search: query must be at most 400 characters"
COUNT = "web_search: count must be between 1 and 20"
BLANK = "web_search: {} must be a non-blank string of at most 128 characters"
MANY = "web_search: {} must have at most 20 entries"
BARE = (
    "web_search: {} entries must be bare hostnames: not blank, at most 128 characters, no /, whitespace or control"
    " characters"
)
BROKEN = "web_search: invalid arguments"
REFUSING = {**ALL_NATIVE, Argument.COUNTRY: Capability(Support.REFUSED, "leave country out")}


@dataclass(frozen=True)
class SearchCase:
    """A call and how it fails. arguments: JSON text. asked: whether the provider is."""

    arguments: str
    kind: FailureKind
    message: str
    script: Script = FOUND
    refusing: bool = False

    @property
    def asked(self) -> bool:
        return self.kind is not INVALID and not self.refusing

    def make_provider(self) -> ScriptedProvider:
        return ScriptedProvider([self.script], "local", REFUSING if self.refusing else ALL_NATIVE)


def _given(**arguments: object) -> str:
    return json.dumps({"query": "x", **arguments})


def _fails(script: Script, kind: FailureKind, message: str) -> SearchCase:
    return SearchCase('{"query":"x"}', kind, f"web_search: {message}", script)


CASES = {
    "no argument": SearchCase("{}", INVALID, BROKEN),
    "query null": SearchCase('{"query":null}', INVALID, BROKEN),
    "query a number": SearchCase('{"query":1}', INVALID, BROKEN),
    "an unknown key": SearchCase(_given(limit=3), INVALID, BROKEN),
    "a key in other letters": SearchCase('{"Query":"x"}', INVALID, BROKEN),
    **{
        f"count {value}": SearchCase(f'{{"query":"x","count":{value}}}', INVALID, BROKEN)
        for value in ("true", "false", '"3"', "-1", "[]", "5.0", "5e0", "0.5", "1e400")
    },
    "freshness in capitals": SearchCase(_given(freshness="PD"), INVALID, BROKEN),
    "safesearch a boolean": SearchCase(_given(safesearch=True), INVALID, BROKEN),
    "a domain list that is text": SearchCase(_given(include_domains="a.example"), INVALID, BROKEN),
    "half a surrogate pair": SearchCase('{"query":"\\ud800"}', INVALID, BROKEN),
    "an empty query": SearchCase('{"query":""}', INVALID, "web_search: query must not be empty"),
    "a blank query": SearchCase('{"query":" \\n\\u3000"}', INVALID, "web_search: query must not be empty"),
    "a query of 401 characters": SearchCase(json.dumps({"query": "é" * 401}), INVALID, QUERY_LONG),
    "count 0": SearchCase(_given(count=0), INVALID, COUNT),
    "count 21": SearchCase(_given(count=21), INVALID, COUNT),
    "a count of 5,000 digits": SearchCase(f'{{"query":"x","count":{"9" * 5000}}}', INVALID, COUNT),
    "a blank country": SearchCase(_given(country=" "), INVALID, BLANK.format("country")),
    "a long language": SearchCase(_given(search_lang="e" * 129), INVALID, BLANK.format("search_lang")),
    "21 domains": SearchCase(_given(include_domains=["a"] * 21), INVALID, MANY.format("include_domains")),
    "a URL as a domain": SearchCase(
        _given(exclude_domains=["https://a.example"]), INVALID, BARE.format("exclude_domains")
    ),
    "a domain with CR and LF": SearchCase(
        _given(include_domains=["a.example\r\nX: y"]), INVALID, BARE.format("include_domains")
    ),
    "a transport failure": _fails(SearchFailure(TRANSPORT, "request failed"), TRANSPORT, "request failed"),
    "a backend's failure": _fails(
        SearchFailure(BACKEND, "backend returned 502: upstream\\ndown <b>"),
        BACKEND,
        "backend returned 502: upstream\\ndown <b>",
    ),
    "a blank url": _fails(
        SearchAnswer((ROW, SearchRow("\t"))), BACKEND, "malformed search response: result 1 has an empty url"
    ),
    "rows that have no UTF-8": _fails(
        SearchAnswer((SearchRow("u", "\ud800"),)), BACKEND, "the results could not be rendered"
    ),
    "an argument that cannot be honoured": SearchCase(
        _given(country="us"),
        BACKEND,
        'web_search: provider "local" cannot honour country; leave country out',
        refusing=True,
    ),
    "a provider that raises": _fails(RuntimeError("boom"), OTHER, "the search task did not finish"),
}

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
