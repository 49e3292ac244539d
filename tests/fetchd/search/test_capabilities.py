"""What a provider cannot honour is refused by name; what is not given is never in the way."""

from __future__ import annotations

from typing import Any

import pytest

from fetchd.core.failures import FailureKind
from fetchd.search.capabilities import find_refused, given_arguments
from fetchd.search.fake import ALL_NATIVE
from fetchd.search.interface import Argument, Capability, SearchArguments, SearchFailure, Support

GIVEN: dict[Argument, Any] = {
    Argument.COUNT: 1,
    Argument.FRESHNESS: "pd",
    Argument.COUNTRY: "us",
    Argument.SEARCH_LANG: "en",
    Argument.SAFESEARCH: "off",
    Argument.INCLUDE_DOMAINS: ("a.example",),
    Argument.EXCLUDE_DOMAINS: ("a.example",),
}


@pytest.mark.parametrize("argument", GIVEN)
@pytest.mark.parametrize("support", Support)
def test_an_argument_that_is_given(argument: Argument, support: Support) -> None:
    table = {**ALL_NATIVE, argument: Capability(support, "do without")}
    failure = find_refused("brave", table, SearchArguments("x", **{argument: GIVEN[argument]}))
    if support is Support.REFUSED:
        message = f'provider "brave" cannot honour {argument}; do without'
        assert failure == SearchFailure(FailureKind.BACKEND, message)
    else:
        assert failure is None


@pytest.mark.parametrize("argument", GIVEN)
def test_an_argument_that_is_not_given(argument: Argument) -> None:
    table = {**ALL_NATIVE, argument: Capability(Support.REFUSED, "do without")}
    assert find_refused("brave", table, SearchArguments("x")) is None


def test_the_first_in_the_order_of_the_arguments_is_named() -> None:
    table = {one: Capability(Support.REFUSED, "do without") for one in reversed(GIVEN)} | {
        Argument.QUERY: Capability(Support.NATIVE)
    }
    arguments = SearchArguments("x", country="us", exclude_domains=("a.example",))
    failure = find_refused("a", table, arguments)
    assert failure is not None and failure.message == 'provider "a" cannot honour country; do without'
    assert given_arguments(arguments) == (Argument.QUERY, Argument.COUNTRY, Argument.EXCLUDE_DOMAINS)


def test_a_table_that_does_not_speak_of_an_argument_refuses_it() -> None:
    failure = find_refused("a", {Argument.QUERY: Capability(Support.NATIVE)}, SearchArguments("x", count=1))
    assert failure is not None and failure.message == 'provider "a" cannot honour count; leave it out'
