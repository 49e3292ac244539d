"""SPEC 2: the arguments of web_fetch, both sides of each edge."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.arguments import FetchArguments, parse_arguments, read_arguments
from fetchd.core.failures import FailureKind, Message, ToolFailure

URL = "https://docs.rs/"
MISSING, CHARS, RAW = (
    "web_fetch: missing url argument",
    "web_fetch: max_chars must be a positive integer",
    "web_fetch: raw must be a boolean",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"url":"https://docs.rs/"}', FetchArguments(URL, 40_000, False), id="url alone is enough"
        ),
        pytest.param('{"url":""}', FetchArguments(""), id="an empty url is a string; admission refuses it"),
        pytest.param(
            '{"url":" https://docs.rs/ "}', FetchArguments(f" {URL} "), id="url is kept as supplied"
        ),
        pytest.param(
            '{"url":"https://docs.rs/","x":[1]}', FetchArguments(URL), id="unknown keys are ignored"
        ),
        pytest.param(
            '{"url":"https://docs.rs/","max_chars":null,"raw":null}',
            FetchArguments(URL),
            id="null is left out",
        ),
        pytest.param('{"url":"https://docs.rs/","max_chars":1}', FetchArguments(URL, 1), id="1 is the least"),
        pytest.param(
            '{"url":"https://docs.rs/","max_chars":40000}',
            FetchArguments(URL, 40_000),
            id="40,000 is the most",
        ),
        pytest.param(
            '{"url":"https://docs.rs/","max_chars":40001}',
            FetchArguments(URL, 40_000),
            id="40,001 is lowered",
        ),
        pytest.param(
            f'{{"url":"https://docs.rs/","max_chars":{"9" * 200_000}}}',
            FetchArguments(URL, 40_000),
            id="an integer of 200,000 digits is lowered, in no time",
        ),
        pytest.param('{"url":"https://docs.rs/","raw":true}', FetchArguments(URL, raw=True), id="raw true"),
        pytest.param('{"url":"https://docs.rs/","raw":false}', FetchArguments(URL), id="raw false"),
        pytest.param(
            '{"url":"a","url":"https://docs.rs/"}',
            FetchArguments(URL),
            id="the last of a key that stands twice",
        ),
        pytest.param(b'{"url":"https://docs.rs/\xc3\xa9"}', FetchArguments(URL + "é"), id="bytes are UTF-8"),
    ],
)
def test_accepted(text: str | bytes, expected: FetchArguments) -> None:
    assert parse_arguments(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", MISSING, id="nothing"),
        pytest.param("{", MISSING, id="broken JSON"),
        pytest.param("[]", MISSING, id="a list"),
        pytest.param('"https://docs.rs/"', MISSING, id="a string"),
        pytest.param("null", MISSING, id="null"),
        pytest.param("{}", MISSING, id="an empty object"),
        pytest.param('{"url":null}', MISSING, id="url null"),
        pytest.param('{"url":5}', MISSING, id="url a number"),
        pytest.param('{"url":["https://docs.rs/"]}', MISSING, id="url a list"),
        pytest.param('{"URL":"https://docs.rs/"}', MISSING, id="keys are exact"),
        pytest.param("[" * 100_000, MISSING, id="nesting without end"),
        pytest.param(b'{"url":"\xff"}', MISSING, id="bytes that are no UTF-8"),
        pytest.param('{"url":"https://docs.rs/","max_chars":NaN}', MISSING, id="NaN is no JSON"),
        pytest.param('{"url":5,"max_chars":0,"raw":1}', MISSING, id="url comes first"),
        pytest.param('{"url":"u","max_chars":0}', CHARS, id="0"),
        pytest.param('{"url":"u","max_chars":-0}', CHARS, id="-0"),
        pytest.param('{"url":"u","max_chars":-1}', CHARS, id="-1"),
        pytest.param(f'{{"url":"u","max_chars":-{"9" * 5000}}}', CHARS, id="minus a very large integer"),
        pytest.param('{"url":"u","max_chars":5.0}', CHARS, id="5.0"),
        pytest.param('{"url":"u","max_chars":5e0}', CHARS, id="5e0"),
        pytest.param('{"url":"u","max_chars":1e400}', CHARS, id="a float beyond all floats"),
        pytest.param('{"url":"u","max_chars":true}', CHARS, id="true"),
        pytest.param('{"url":"u","max_chars":false}', CHARS, id="false"),
        pytest.param('{"url":"u","max_chars":"5"}', CHARS, id="a string of digits"),
        pytest.param('{"url":"u","max_chars":[5]}', CHARS, id="a list of a number"),
        pytest.param('{"url":"u","max_chars":"","raw":0}', CHARS, id="max_chars comes before raw"),
        pytest.param('{"url":"u","raw":0}', RAW, id="0 is not false"),
        pytest.param('{"url":"u","raw":1}', RAW, id="1 is not true"),
        pytest.param('{"url":"u","raw":"true"}', RAW, id="a string is not true"),
        pytest.param('{"url":"u","raw":{}}', RAW, id="an object is not true"),
    ],
)
def test_refused(text: str | bytes, message: str) -> None:
    failure = parse_arguments(text)

    assert isinstance(failure, ToolFailure)
    assert (failure.text, failure.kind) == (message, FailureKind.INVALID_ARGUMENTS)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["url", "max_chars", "raw", "x"]), inner),
)


@given(_json)
def test_any_json_gives_arguments_in_bounds_or_one_of_three_failures(value: object) -> None:
    result = parse_arguments(json.dumps(value))

    if isinstance(result, ToolFailure):
        assert result.message in (Message.MISSING_URL, Message.MAX_CHARS, Message.RAW)
    else:
        assert 1 <= result.max_chars <= 40_000
        assert result == read_arguments(value)


@given(st.binary() | st.text())
def test_any_text_gives_arguments_or_a_failure(text: str | bytes) -> None:
    assert isinstance(parse_arguments(text), FetchArguments | ToolFailure)
