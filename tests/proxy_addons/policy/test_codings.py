"""The Content-Encoding field: SPEC 1.8, RFC 9110 8.4."""

import string
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy.codings import (
    MAX_LAYERS,
    BodyError,
    BrokenBodyError,
    Coding,
    OverCapError,
    UnsupportedCodingError,
    parse_content_encoding,
)

GZIP, DEFLATE, BR, ZSTD = Coding.GZIP, Coding.DEFLATE, Coding.BR, Coding.ZSTD


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], (), id="no field: no coding"),
        pytest.param([""], (), id="an empty field names no coding"),
        pytest.param([" ,\t, "], (), id="empty elements name no coding"),
        pytest.param(["gzip"], (GZIP,), id="gzip"),
        pytest.param(["x-gzip"], (GZIP,), id="x-gzip is gzip"),
        pytest.param(["deflate"], (DEFLATE,), id="deflate"),
        pytest.param(["br"], (BR,), id="br"),
        pytest.param(["zstd"], (ZSTD,), id="zstd"),
        pytest.param(["GZip"], (GZIP,), id="any letter case"),
        pytest.param([b"gzip"], (GZIP,), id="bytes are read like text"),
        pytest.param(["\t gzip \t"], (GZIP,), id="spaces and tabs around a name are dropped"),
        pytest.param(["identity"], (), id="identity is dropped"),
        pytest.param(
            ["identity, gzip, IDENTITY, identity"], (GZIP,), id="identity does not count as a layer"
        ),
        pytest.param(["gzip, br"], (GZIP, BR), id="two layers keep the order they were applied in"),
        pytest.param(["br,gzip"], (BR, GZIP), id="two layers the other way round"),
        pytest.param([",gzip,,br,"], (GZIP, BR), id="empty elements between names are dropped"),
        pytest.param(["gzip", b"br"], (GZIP, BR), id="two field lines are one list"),
        pytest.param(["gzip", "", "gzip"], (GZIP, GZIP), id="the same coding twice is two layers"),
    ],
)
def test_codings_are_read_in_the_order_applied(
    values: list[str | bytes], expected: tuple[Coding, ...]
) -> None:
    assert parse_content_encoding(values) == expected


@pytest.mark.parametrize(
    ("values", "why"),
    [
        pytest.param(["compress"], "unknown content coding: compress", id="compress is not decoded"),
        pytest.param(["x-compress"], "unknown content coding: x-compress", id="nor x-compress"),
        pytest.param(
            ["aws-chunked"], "unknown content coding: aws-chunked", id="a storage service's own coding"
        ),
        pytest.param(
            ["rot13"], "unknown content coding: rot13", id="a codec of the language is no content coding"
        ),
        pytest.param(
            ["gzip, UTF-8"], "unknown content coding: utf-8", id="one unknown name refuses the list"
        ),
        pytest.param(["*"], "unknown content coding: *", id="the wildcard of Accept-Encoding"),
        pytest.param(
            ["gzip;q=1"], "unknown content coding", id="a parameter makes it another name, not shown"
        ),
        pytest.param(["gzip br"], "unknown content coding", id="a space does not separate names"),
        pytest.param(["gzip\x0b"], "unknown content coding", id="a vertical tab is not trimmed"),
        pytest.param(["\r\nX: y"], "unknown content coding", id="line breaks are not shown"),
        pytest.param([b"gzip\x00"], "unknown content coding", id="NUL is not shown"),
        pytest.param([b"g\xffzip"], "unknown content coding", id="non-ASCII is not shown"),
        pytest.param(["a" * 32], "unknown content coding: " + "a" * 32, id="32 characters are shown"),
        pytest.param(["a" * 33], "unknown content coding", id="33 characters are not"),
        pytest.param(["gzip, gzip, gzip"], "3 content codings, at most 2 are decoded", id="a third layer"),
        pytest.param(
            ["gzip", "br", "zstd"], "3 content codings, at most 2 are decoded", id="over three lines"
        ),
        pytest.param(["gzip, gzip", "nope"], "unknown content coding: nope", id="an unknown third name"),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_the_reason(values: list[str | bytes], why: str) -> None:
    with pytest.raises(UnsupportedCodingError) as caught:
        parse_content_encoding(values)

    assert caught.value.why == why
    assert str(caught.value) == why


def test_errors_are_one_tree_of_three() -> None:
    assert set(BodyError.__subclasses__()) == {UnsupportedCodingError, BrokenBodyError, OverCapError}


NAMES = st.sampled_from(["gzip", "X-GZIP", "deflate", "br", "zstd", "identity", "", " ", "nope"])
VALUES = st.one_of(st.text(), st.binary(), st.lists(NAMES).map(",".join))


def read(values: Sequence[str | bytes]) -> tuple[tuple[Coding, ...], str]:
    """The codings, or the reason for none. Any other error goes through."""
    try:
        return parse_content_encoding(values), ""
    except UnsupportedCodingError as error:
        return (), error.why


@given(st.lists(VALUES, max_size=6))
def test_any_field_gives_at_most_two_codings_or_a_reason_fit_for_a_log(values: list[str | bytes]) -> None:
    codings, why = read(values)

    assert len(codings) <= MAX_LAYERS
    assert all(isinstance(coding, Coding) for coding in codings)
    assert len(why) <= 64
    assert set(why) <= set(string.ascii_letters + string.digits + "!#$%&'*+.^_`|~- :,")


@given(st.lists(NAMES.filter(lambda name: name != "nope"), max_size=4), st.data())
def test_how_the_list_is_spread_over_field_lines_changes_nothing(
    names: list[str], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(names)))

    assert read([",".join(names)]) == read([",".join(names[:cut]), ",".join(names[cut:])]) == read(names)
