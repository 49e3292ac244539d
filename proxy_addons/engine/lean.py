"""mitmproxy's own small helpers in fewer steps: the same results, asked for some hundred times a hop.

Headers   a look-up converted and compared every name anew through four calls; here names are indexed once
framing   the size of a body, and whether a connection stays open, were worked out six times a hop
options   a value was copied deeply each time it was read; plain values cannot change
hooks     the argument's name was looked up in the dataclass machinery for each event
identity  connections were compared by their identifiers, through an abstract base class; none is ever copied here.
          An identifier was 16 random octets, as text
contexts  a fork made a whole server connection, identifier and all, and threw it away

Together a fifth of a kept-alive hop. Equality with stock: tests/proxy_addons/engine/test_lean.py.
"""

import copy
import itertools
import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache, lru_cache
from inspect import getattr_static
from typing import Any

from mitmproxy import connection, flow, hooks, http, optmanager
from mitmproxy.net.http import http1
from mitmproxy.net.http.http1 import read
from mitmproxy.proxy import commands, context, events, layer

from proxy_addons.engine import lean_layers

_INDEX = "fetchd.index"
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values cannot change: what a deep copy of them is, is the value itself."""


def values_by_name(headers: http.Headers) -> dict[bytes, list[bytes]]:
    """The values of each field by its name in lower case: made once for a tuple of fields, which cannot change."""
    fields = headers.fields
    known: tuple[Any, dict[bytes, list[bytes]]] | None = headers.__dict__.get(_INDEX)
    if known is not None and known[0] is fields:
        return known[1]
    index: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        index.setdefault(name.lower(), []).append(value)
    if type(fields) is tuple:
        headers.__dict__[_INDEX] = (fields, index)
    return index


def get_all(self: http.Headers, name: str | bytes) -> list[str]:
    """`Headers.get_all`: every value of a field, decoded."""
    found = values_by_name(self).get(_key(name))
    return [value.decode("utf-8", "surrogateescape") for value in found] if found else []


def get_folded(self: http.Headers, name: str | bytes) -> str:
    """`Headers[name]`: all values of a field in one (RFC 9110, 5.2); raises KeyError when there is none."""
    values = get_all(self, name)
    if not values:
        raise KeyError(name)
    return values[0] if len(values) == 1 else ", ".join(values)


def get_or_default(self: http.Headers, name: str | bytes, default: Any = None) -> Any:
    """`Headers.get`."""
    values = get_all(self, name)
    if not values:
        return default
    return values[0] if len(values) == 1 else ", ".join(values)


def has_field(self: http.Headers, name: object) -> bool:
    """`name in headers`."""
    return _key(name) in values_by_name(self)  # any other type raises, as in stock


@lru_cache(maxsize=256)  # of the few names that code asks for
def _key(name: str | bytes) -> bytes:
    return (name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")).lower()


def expected_body_size(request: http.Request, response: http.Response | None = None) -> int | None:
    """`expected_http_body_size`, the two commonest shapes first: no framing fields, and one plain length."""
    index = values_by_name((response or request).headers)
    lengths = index.get(b"content-length")
    if b"transfer-encoding" in index or (lengths and not (len(lengths) == 1 and is_plain_length(lengths[0]))):
        return read.expected_http_body_size(request, response)
    if response is not None:
        method, status = request.data.method.upper(), response.status_code
        if method == b"HEAD" or 100 <= status <= 199 or status in (204, 304):
            return 0
        if 200 <= status <= 299 and method == b"CONNECT":
            return 0
    if lengths:
        return int(lengths[0])
    return 0 if response is None else -1


def closes(http_version: str | bytes, headers: http.Headers) -> bool:
    """`connection_close`: whether a message is the last on its connection."""
    if b"connection" in values_by_name(headers):
        return bool(read.connection_close(http_version, headers))
    return http_version not in _PERSISTENT


def read_fields(lines: list[bytes]) -> http.Headers:
    """`_read_headers`: the fields of a head. What is folded or malformed is stock's to judge."""
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or line[0] in b" \t":
            return _stock_read_fields(lines)
        fields.append((name, value.strip()))
    return headers_of(fields)


_stock_read_fields = read._read_headers


def headers_of(fields: Iterable[tuple[bytes, bytes]]) -> http.Headers:
    """`http.Headers(fields)`, which looks at the type of each name and value."""
    headers = http.Headers.__new__(http.Headers)
    headers.fields = tuple(fields)
    return headers


def is_plain_length(value: bytes) -> bool:
    """Whether a Content-Length value is a number as it should be written, of at most 18 digits."""
    return _LENGTH.fullmatch(value) is not None


_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_PERSISTENT = ("HTTP/1.1", b"HTTP/1.1", "HTTP/2.0", b"HTTP/2.0")


class Identifiers:
    """In place of the module `uuid` in mitmproxy: flows and connections are told apart within this process only."""

    _numbers = itertools.count(1)

    @classmethod
    def uuid4(cls) -> int:
        """The next number; mitmproxy makes a text of it. A random one costs 8 µs, five of them a new connection."""
        return next(cls._numbers)


def current_value(self: Any) -> Any:
    """`_Option.current`: the value, copied if it could be changed."""
    value = self._default if self.value is optmanager.unset else self.value
    return value if type(value) in _PLAIN else copy.deepcopy(value)


def option_value(self: optmanager.OptManager, name: str) -> Any:
    """`OptManager.__getattr__`: an option's value."""
    option = self._options.get(name)
    if option is None:
        raise AttributeError(f"No such option: {name}")
    value = option._default if option.value is optmanager.unset else option.value
    return value if type(value) in _PLAIN else copy.deepcopy(value)


def set_server_field(self: connection.Server, name: str, value: Any) -> None:
    """`Server.__setattr__`: only these two are looked at."""
    if name in ("address", "via"):
        _stock_set_server_field(self, name, value)
    else:
        object.__setattr__(self, name, value)


_stock_set_server_field = connection.Server.__setattr__


def hook_arguments(self: hooks.Hook) -> list[Any]:
    """`Hook.args`: what the hook's functions are called with."""
    return [getattr(self, name) for name in _field_names(self.name)]


@cache
def _field_names(hook: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(hooks.all_hooks[hook]))  # type: ignore[arg-type]


def fork_context(self: context.Context) -> context.Context:
    """`Context.fork`: the same client, server and options, layers of its own."""
    forked = context.Context.__new__(context.Context)
    forked.client, forked.server, forked.options = self.client, self.server, self.options
    forked.layers = self.layers.copy()
    return forked


def _new(cls: type[Any], *_: Any, **__: Any) -> Any:
    return object.__new__(cls)


REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (http.Headers, "get_all", get_all),
    (http.Headers, "get", get_or_default),
    (http.Headers, "__getitem__", get_folded),
    (http.Headers, "__contains__", has_field),
    (optmanager._Option, "current", current_value),
    (optmanager.OptManager, "__getattr__", option_value),
    (connection.Server, "__setattr__", set_server_field),
    (hooks.Hook, "args", hook_arguments),
    # These two only told authors of new hooks and events that they had forgotten a decorator.
    (commands.StartHook, "__new__", _new),
    (events.CommandCompleted, "__new__", _new),
    (connection.Connection, "__hash__", object.__hash__),
    (connection.Connection, "__eq__", object.__eq__),
    (context.Context, "fork", fork_context),
    (layer.Layer, "handle_event", lean_layers.handle_event),
    (http1, "expected_http_body_size", expected_body_size),
    (http1, "connection_close", closes),
    (read, "_read_headers", read_fields),
    (flow, "uuid", Identifiers),
    (connection, "uuid", Identifiers),
)
"""(class or module of mitmproxy, name, what takes its place)."""


STOCK = {(holder, name): getattr_static(holder, name) for holder, name, _ in REPLACED}
"""What stood there, as long as this module is imported before anything is put in place: equality is tested on it."""


def install_lean_helpers() -> None:
    """Put them in place. Idempotent."""
    for holder, name, helper in REPLACED:
        setattr(holder, name, helper)
