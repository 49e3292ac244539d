"""The quick helpers against mitmproxy's own: whatever the fields, the same answer."""

import inspect
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import connection, http, options, optmanager
from mitmproxy.coretypes import multidict
from mitmproxy.net.http.http1 import read
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


def test_an_option_is_read_by_its_name_as_in_stock():
    opts = options.Options(ignore_hosts=["a"])
    stock = lean.STOCK[optmanager.OptManager, "__getattr__"]
    for name in opts._options:
        assert lean.option_value(opts, name) == stock(opts, name)
    assert lean.option_value(opts, "ignore_hosts") is not opts._options["ignore_hosts"].value
    with pytest.raises(AttributeError, match="No such option: none"):
        lean.option_value(opts, "none")


@pytest.mark.parametrize("name", ["address", "via", "sni", "state", "error"])
@pytest.mark.parametrize("state", list(connection.ConnectionState))
@pytest.mark.parametrize("same", [True, False])
def test_an_open_connection_keeps_where_it_goes_as_in_stock(name, state, same):
    made = [connection.Server(address=("a.example", 443)) for _ in range(2)]
    outcomes = []
    for one, put in zip(
        made, (lean.set_server_field, lean.STOCK[connection.Server, "__setattr__"]), strict=True
    ):
        one.state = state
        value: Any = getattr(one, name) if same else ("b.example", 1)
        try:
            put(one, name, value)
            outcomes.append(getattr(one, name))
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


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


HEAD_FIELDS = st.lists(
    st.sampled_from(
        [
            (b"Host", b"a.example"),
            (b"Content-Length", b"5"),
            (b"content-length", b"05"),
            (b"Content-Length", b""),
            (b"Content-Length", b"-1"),
            (b"Content-Length", b"1" * 20),
            (b"Transfer-Encoding", b"chunked"),
            (b"transfer-encoding", b""),
            (b"Transfer-Encoding", b"gzip"),
            (b"Transfer-Encoding", b"nonsense"),
            (b"Connection", b"close"),
            (b"connection", b"keep-alive"),
            (b"Connection", b"x, Close"),
            (b"Content-Length", b"5\n"),
            (b"Content-Length", "٣".encode()),
        ]
    ),
    max_size=4,
).map(tuple)


def outcome(function, *arguments):
    """What it returns, or that it raises ValueError."""
    try:
        return function(*arguments)
    except ValueError:
        return ValueError


@given(
    HEAD_FIELDS,
    HEAD_FIELDS,
    st.sampled_from([b"GET", b"HEAD", b"head", b"CONNECT", b"POST", b"H\xffAD"]),
    st.sampled_from([None, 100, 101, 199, 200, 204, 299, 300, 304, 404]),
)
def test_the_size_of_a_body_is_that_of_stock(asked, answered, method, status):
    request = http.Request(
        "a", 80, method, b"http", b"", b"/", b"HTTP/1.1", http.Headers(asked), None, None, 0, 0
    )
    response = None
    if status is not None:
        response = http.Response(b"HTTP/1.1", status, b"", http.Headers(answered), None, None, 0, 0)
    assert outcome(lean.expected_body_size, request, response) == outcome(
        read.expected_http_body_size, request, response
    )


@given(HEAD_FIELDS, st.sampled_from(["HTTP/1.0", "HTTP/1.1", b"HTTP/1.1", "HTTP/2.0", "HTTP/1.2"]))
def test_a_connection_ends_when_stock_says_so(fields, version):
    headers = http.Headers(fields)
    assert lean.closes(version, headers) == read.connection_close(version, headers)


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"Host: a", b"a:b:c", b" folded", b"\tfolded", b":no name", b"no colon", b"a:", b"a : b"]
        ),
        st.binary(min_size=1, max_size=6),
    ),
    max_size=5,
)


@given(LINES)
def test_fields_are_read_as_in_stock(lines):
    stock = lean.STOCK[read, "_read_headers"]
    ours, theirs = outcome(lean.read_fields, lines), outcome(stock, lines)
    assert (ours if ours is ValueError else ours.fields) == (
        theirs if theirs is ValueError else theirs.fields
    )


def test_names_are_indexed_anew_when_the_fields_change():
    headers = http.Headers([(b"A", b"1")])
    assert lean.get_all(headers, "a") == ["1"]
    headers.fields += ((b"a", b"2"),)
    assert lean.get_all(headers, "a") == ["1", "2"]
    fields: Any = [(b"B", b"3")]
    headers.fields = fields
    assert lean.get_all(headers, "b") == ["3"]
    fields.append((b"b", b"4"))
    assert lean.get_all(headers, "b") == ["3", "4"], "a list may change: nothing is kept of it"


def test_numbers_for_identifiers_are_never_given_twice():
    assert len({str(lean.Identifiers.uuid4()) for _ in range(1000)}) == 1000


def test_what_takes_the_place_of_something_is_not_what_stood_there():
    for holder, name, helper in lean.REPLACED:
        assert lean.STOCK[holder, name] is not helper
