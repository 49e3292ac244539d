"""The quick helpers against mitmproxy's own: whatever the fields, the same answer."""

import inspect
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import connection, http, options, optmanager
from mitmproxy.coretypes import multidict
from mitmproxy.proxy import context
from mitmproxy.proxy.layers.http import HttpRequestHook
from mitmproxy.utils import strutils

from proxy_addons.engine import lean

NAMES = st.sampled_from([b"Host", b"host", b"HOST", b"Cookie", b"cookie", b"x-\xff", b"", b"content-length"])
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=8)), max_size=8).map(tuple)
ASKED = st.one_of(NAMES, st.sampled_from(["host", "HoSt", "cookie", "x-\udcff", "", "transfer-encoding"]))


def stock_get_all(headers: http.Headers, name: str | bytes) -> list[str]:
    """As mitmproxy 12.3.1 has it, through its generic multi-dictionary."""
    key = strutils.always_bytes(name, "utf-8", "surrogateescape")
    found = multidict._MultiDict.get_all(headers, key)
    return [value.decode("utf-8", "surrogateescape") for value in found]


@given(FIELDS, ASKED)
def test_headers_answer_as_stock_does(fields, name):
    headers = http.Headers(fields)
    values = stock_get_all(headers, name)
    assert lean.get_all(headers, name) == values
    assert lean.has_field(headers, name) is bool(values)
    assert lean.get_or_default(headers, name) == (", ".join(values) if values else None)
    assert lean.get_or_default(headers, name, "other") == (", ".join(values) if values else "other")
    if values:
        assert lean.get_folded(headers, name) == ", ".join(values)
    else:
        with pytest.raises(KeyError):
            lean.get_folded(headers, name)


@pytest.mark.parametrize("name", [7, None], ids=["a number is no name", "nothing is no name"])
def test_a_name_of_another_type_raises(name):
    with pytest.raises((TypeError, AttributeError)):
        lean.has_field(http.Headers(), name)


def test_options_read_as_in_stock_and_a_changeable_value_is_a_copy():
    opts = options.Options(ignore_hosts=["a"])
    for option in opts._options.values():
        assert lean.current_value(option) == (
            option.default if option.value is optmanager.unset else option.value
        )
    copied = lean.current_value(opts._options["ignore_hosts"])
    copied.append("b")
    assert lean.current_value(opts._options["ignore_hosts"]) == ["a"]


def test_a_hook_gives_its_argument():
    flow: Any = object()
    assert lean.hook_arguments(HttpRequestHook(flow)) == [flow]


def test_a_forked_context_shares_all_but_the_list_of_layers():
    client = connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0.0)
    origin = context.Context(client, options.Options())
    origin.layers.append(cast(Any, object()))
    forked = lean.fork_context(origin)
    assert (forked.client, forked.server, forked.options) == (origin.client, origin.server, origin.options)
    assert forked.layers == origin.layers and forked.layers is not origin.layers
    made = set(inspect.getsource(context.Context.__init__).split("self.")[1:])
    assert {line.split()[0] for line in made} == {"client", "options", "server", "layers"}


def test_two_connections_never_share_an_identifier_so_identity_tells_them_apart():
    made = [connection.Server(address=("a.example", 443)) for _ in range(100)]
    assert len({one.id for one in made}) == 100
    assert {type(one).__eq__ for one in made} <= {connection.Connection.__eq__}
    assert made[0] == made[0] and made[0] != made[1] and made[1] in {made[0]: 0, made[1]: 1}
