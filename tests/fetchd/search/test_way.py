"""The installations that a search has come through: what is read of Via, and where no further one is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.failures import FailureKind
from fetchd.search.way import (
    CIRCLE,
    MAX_INSTALLATIONS,
    TOO_FAR,
    find_circle,
    name_installation,
    read_way,
    render_way,
)

ONE, TWO = name_installation(b"\0" * 8), name_installation(b"\xff" * 8)


@pytest.mark.parametrize(
    ("values", "way"),
    [
        pytest.param([], (), id="no field"),
        pytest.param([""], (), id="an empty one"),
        pytest.param([f"1.1 {ONE}, 1.1 {TWO}"], (ONE, TWO), id="two installations"),
        pytest.param([f"1.1 {ONE}", f" 1.1 {TWO} "], (ONE, TWO), id="in two fields"),
        pytest.param([f"1.1 {ONE},,1.1 nginx (x), 1.1 {TWO}"], (ONE, TWO), id="a proxy between them"),
        pytest.param(
            ["1.1 fetchd", "1.1 fetchd-xyz", f"2 {ONE}", f"1.1 {ONE}0", ONE.upper()], (), id="others"
        ),
    ],
)
def test_what_is_read(values: list[str], way: tuple[str, ...]) -> None:
    assert way == read_way(values)


@given(st.lists(st.binary(min_size=8, max_size=8).map(name_installation), max_size=9))
def test_what_is_written_is_read(way: list[str]) -> None:
    assert tuple(way) == read_way([render_way(way)])


@given(st.lists(st.text()))
def test_anything_is_read(values: list[str]) -> None:
    assert all(len(name) == len(ONE) for name in read_way(values))


def test_an_installation_asks_no_other_for_what_came_from_it() -> None:
    assert find_circle((), ONE) is None
    assert find_circle((TWO,), ONE) is None
    assert CIRCLE is find_circle((TWO, ONE), ONE)
    assert CIRCLE.kind is FailureKind.BACKEND


def test_so_many_installations_and_no_more() -> None:
    way = [name_installation(bytes([number] * 8)) for number in range(1, MAX_INSTALLATIONS + 1)]

    assert find_circle(way[1:], ONE) is None
    assert TOO_FAR is find_circle(way, ONE)
