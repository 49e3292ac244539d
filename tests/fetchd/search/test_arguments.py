"""SPEC 4: the arguments of web_search, both stages, both sides of each edge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fetchd.core.failures import FailureKind
from fetchd.search.arguments import (
    INVALID,
    WHITE_SPACE,
    find_broken_bound,
    parse_search_arguments,
    read_search_arguments,
)
from fetchd.search.interface import Freshness, SafeSearch, SearchArguments, SearchFailure

EMPTY = "query must not be empty"
LONG = "query must be at most 400 characters"
COUNT = "count must be between 1 and 20"
TEXT = "{} must be a non-blank string of at most 128 characters"
MANY = "{} must have at most 20 entries"
BARE = "{} entries must be bare hostnames: not blank, at most 128 characters, no /, whitespace or control characters"


def found(**more: Any) -> SearchArguments:
    return SearchArguments(**{"query": "x", **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"query":"x"}', found(), id="a query alone"),
        pytest.param(
            '{"query":" x\\n<b>&q=1#f\\r\\n "}', found(query=" x\n<b>&q=1#f\r\n "), id="a query as written"
        ),
        pytest.param('{"query":"\\u0000"}', found(query="\0"), id="a control character is no white space"),
        pytest.param('{"query":"\\u001c"}', found(query="\x1c"), id="neither is a file separator"),
        pytest.param(f'{{"query":"{"😀" * 400}"}}', found(query="😀" * 400), id="400 characters, not bytes"),
        pytest.param(
            '{"query":"x","count":null,"freshness":null,"country":null,"search_lang":null,"safesearch":null,'
            '"include_domains":null,"exclude_domains":null}',
            found(),
            id="null is left out",
        ),
        pytest.param('{"query":"x","count":1}', found(count=1), id="one result"),
        pytest.param('{"query":"x","count":20}', found(count=20), id="twenty results"),
        *(
            pytest.param(f'{{"query":"x","freshness":"{one}"}}', found(freshness=one), id=f"freshness {one}")
            for one in Freshness
        ),
        *(
            pytest.param(
                f'{{"query":"x","safesearch":"{one}"}}', found(safesearch=one), id=f"safesearch {one}"
            )
            for one in SafeSearch
        ),
        pytest.param('{"query":"x","country":" US "}', found(country=" US "), id="a country as written"),
        pytest.param(
            f'{{"query":"x","search_lang":"{"ü" * 128}"}}', found(search_lang="ü" * 128), id="128 characters"
        ),
        pytest.param('{"query":"x","include_domains":[]}', found(), id="an empty list filters nothing"),
        pytest.param(
            '{"query":"x","include_domains":["EXAMPLE.com","*.a.example","a:80","a&b=c#d?e"]}',
            found(include_domains=("EXAMPLE.com", "*.a.example", "a:80", "a&b=c#d?e")),
            id="entries as written",
        ),
        pytest.param(
            json.dumps({"query": "x", "exclude_domains": ["a" * 128] * 20}),
            found(exclude_domains=("a" * 128,) * 20),
            id="twenty entries of 128 characters",
        ),
        pytest.param('{"query":"a","query":"x"}', found(), id="C071: the last of a key that stands twice"),
        pytest.param(b'{"query":"\xc3\xa9"}', found(query="é"), id="bytes are UTF-8"),
        pytest.param('{"query":"\\ud83d\\ude00"}', found(query="😀"), id="a whole surrogate pair"),
    ],
)
def test_accepted(text: str | bytes, expected: SearchArguments) -> None:
    assert parse_search_arguments(text) == expected


WRONG_COUNTS = (
    "true",
    "false",
    '"3"',
    "-1",
    "[]",
    "{}",
    "1e400",
    "5.0",
    "5e0",
    "0.5",
    "-" + "9" * 5000,
    "NaN",
)
"""Those of case C069 among them."""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="broken JSON"),
        pytest.param('{"query":"x"} {}', id="more than one value"),
        pytest.param('\ufeff{"query":"x"}', id="a byte order mark"),
        pytest.param(b'{"query":"\xff"}', id="bytes that are no UTF-8"),
        pytest.param('{"query":"x"}'.encode("utf-16"), id="UTF-16"),
        pytest.param("[" * 100_000, id="100,000 brackets"),
        *(pytest.param(text, id=f"{text} alone") for text in ("null", "[]", '"x"', "1", "true", "{}")),
        pytest.param('{"query":null}', id="query null"),
        pytest.param('{"query":5}', id="query a number"),
        pytest.param('{"query":["x"]}', id="query a list"),
        pytest.param('{"query":"\\ud800"}', id="half a surrogate pair"),
        pytest.param('{"query":"x","limit":3}', id="C071: an unknown key"),
        pytest.param('{"query":"x","limit":null}', id="an unknown key that is null"),
        pytest.param('{"query":"x","Count":3}', id="a key in other letters"),
        pytest.param('{"query":"x","count ":3}', id="a key with a space"),
        pytest.param('{"query":"x","api_key":"k"}', id="a credential"),
        pytest.param('{"query":"x","\\ud800":1}', id="half a surrogate pair as a key"),
        *(pytest.param(f'{{"query":"x","count":{one}}}', id=f"count {one[:8]}") for one in WRONG_COUNTS),
        *(
            pytest.param(f'{{"query":"x","{key}":{value}}}', id=f"{key} {value}")
            for key in ("freshness", "safesearch")
            for value in ('"PD"', '"strict "', '""', "1", "true", '["pd"]', '"\\ud800"')
        ),
        *(
            pytest.param(f'{{"query":"x","{key}":{value}}}', id=f"{key} {value}")
            for key in ("country", "search_lang")
            for value in ("1", "false", '["us"]', "{}", '"\\udfff"')
        ),
        *(
            pytest.param(f'{{"query":"x","{key}":{value}}}', id=f"{key} {value}")
            for key in ("include_domains", "exclude_domains")
            for value in ('"a.example"', "{}", "[1]", "[null]", '[["a"]]', "true", '["\\udc00"]')
        ),
        pytest.param('{"query":"","count":"3"}', id="a parse failure comes before every bound"),
        pytest.param('{"query":"","x":1}', id="so does an unknown key"),
    ],
)
def test_what_cannot_be_read_is_said_in_two_words(text: str | bytes) -> None:
    assert parse_search_arguments(text) == INVALID
    assert (INVALID.kind, INVALID.message) == (FailureKind.INVALID_ARGUMENTS, "invalid arguments")


BLANKS = [*WHITE_SPACE, WHITE_SPACE]
DOMAINS = ("include_domains", "exclude_domains")
TEXTS = ("country", "search_lang")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"query": ""}, EMPTY, id="an empty query"),
        *(pytest.param({"query": blank}, EMPTY, id=f"a query of {ascii(blank)[:12]}") for blank in BLANKS),
        pytest.param({"query": " " * 401}, EMPTY, id="401 spaces are empty before they are long"),
        pytest.param({"query": "x" * 401}, LONG, id="401 characters"),
        pytest.param({"query": f" {'x' * 399} "}, LONG, id="the length is that of the untrimmed text"),
        pytest.param({"query": "x", "count": 0}, COUNT, id="no result"),
        pytest.param({"query": "x", "count": 21}, COUNT, id="21 results"),
        pytest.param({"query": "x", "count": 2**64}, COUNT, id="a large integer"),
        *(
            pytest.param({"query": "x", name: value}, TEXT.format(name), id=f"{name} of {ascii(value)[:8]}")
            for name in TEXTS
            for value in ("", " ", "\u3000", "a" * 129)
        ),
        *(
            pytest.param({"query": "x", name: ["a"] * 21}, MANY.format(name), id=f"21 entries of {name}")
            for name in DOMAINS
        ),
        *(
            pytest.param({"query": "x", name: ["a", value]}, BARE.format(name), id=f"{name}: {ascii(value)[:14]}")
            for name in DOMAINS
            for value in (
                "", " ", "a b", "a\tb", "a/", "https://a", "a\r\nb", "a\0", "a\x1f", "a\x7f", "a\x85", "a\x9f",
                "\xa0", "a\u2028", "a\u3000b", "a" * 129,
            )
        ),
        pytest.param({"query": "", "count": 0}, EMPTY, id="query before count"),
        pytest.param({"query": "x" * 401, "count": 0}, LONG, id="the query's length before count"),
        pytest.param({"query": "x", "count": 0, "country": ""}, COUNT, id="count before country"),
        pytest.param(
            {"query": "x", "country": "", "search_lang": ""}, TEXT.format("country"), id="country before language"
        ),
        pytest.param(
            {"query": "x", "search_lang": "", "include_domains": ["/"]},
            TEXT.format("search_lang"),
            id="language before domains",
        ),
        pytest.param(
            {"query": "x", "include_domains": ["/"] * 21}, MANY.format("include_domains"), id="size before entries"
        ),
        pytest.param(
            {"query": "x", "include_domains": ["/"], "exclude_domains": ["a"] * 21},
            BARE.format("include_domains"),
            id="all of include before exclude",
        ),
    ],
)  # fmt: skip
def test_the_first_bound_that_does_not_hold_is_named(arguments: dict[str, Any], message: str) -> None:
    failure = parse_search_arguments(json.dumps(arguments))
    assert failure == SearchFailure(FailureKind.INVALID_ARGUMENTS, message)


def test_a_count_of_many_digits_is_read_in_no_time() -> None:
    failure = parse_search_arguments(f'{{"query":"x","count":{"9" * 500_000}}}')
    assert failure == SearchFailure(FailureKind.INVALID_ARGUMENTS, COUNT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
TEXT_VALUES = st.text(alphabet=st.characters(exclude_categories=[]), max_size=410)
NEAR = st.fixed_dictionaries(
    {},
    optional={
        "query": TEXT_VALUES | JSON,
        "count": st.integers(-2, 30) | JSON,
        "freshness": st.sampled_from([*Freshness, "pD"]) | JSON,
        "country": TEXT_VALUES | JSON,
        "search_lang": TEXT_VALUES | JSON,
        "safesearch": st.sampled_from(SafeSearch) | JSON,
        "include_domains": st.lists(TEXT_VALUES, max_size=22) | JSON,
        "exclude_domains": st.lists(TEXT_VALUES, max_size=22) | JSON,
    },
)


def holds(value: object) -> None:
    """Any value is arguments that are exactly what was written and within the bounds, or a named failure."""
    read = read_search_arguments(value)
    if isinstance(read, SearchFailure):
        assert read.kind is FailureKind.INVALID_ARGUMENTS and read.message.isascii()
        return
    assert isinstance(value, dict) and find_broken_bound(read) is None
    for name, given_value in value.items():
        kept = getattr(read, name)
        if given_value is None:
            assert kept in (None, ())
        else:
            assert (list(kept) if isinstance(kept, tuple) else kept) == given_value
            assert isinstance(given_value, bool) is False
    str(read).encode("utf-8")


@given(JSON | NEAR)
@example({"query": "x", "count": True})
@example({"query": "x", "count": 5.0})
def test_any_value_is_arguments_as_written_or_a_named_failure(value: object) -> None:
    holds(value)


@given(st.text() | st.binary() | (JSON | NEAR).map(json.dumps))
def test_any_text_is_arguments_or_a_named_failure(text: str | bytes) -> None:
    read = parse_search_arguments(text)
    assert isinstance(read, SearchArguments) or read.kind is FailureKind.INVALID_ARGUMENTS


def test_white_space_is_unicodes() -> None:
    # PropList.txt of Unicode 15.1; str.isspace() differs by four information separators.
    assert {c for c in map(chr, range(0x110000)) if c.isspace()} - set(WHITE_SPACE) == set("\x1c\x1d\x1e\x1f")
    assert all(c.isspace() for c in WHITE_SPACE)
