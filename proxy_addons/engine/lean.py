"""mitmproxy's own small helpers in fewer steps: the same results, asked for some hundred times a hop.

Headers   a look-up converted and compared every name anew through four calls; here it is one pass over the fields
options   a value was copied deeply each time it was read; plain values cannot change
hooks     the argument's name was looked up in the dataclass machinery for each event
identity  connections were compared by their identifiers, through an abstract base class; none is ever copied here
contexts  a fork made a whole server connection, identifier and all, and threw it away

Together a fifth of a kept-alive hop. Equality with stock: tests/proxy_addons/engine/test_lean.py.
"""

import copy
from collections.abc import Callable
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any

from mitmproxy import connection, hooks, http, optmanager
from mitmproxy.proxy import commands, context, events, layer

from proxy_addons.engine import lean_layers

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values cannot change: what a deep copy of them is, is the value itself."""


def get_all(self: http.Headers, name: str | bytes) -> list[str]:
    """`Headers.get_all`: every value of a field, decoded."""
    key = _key(name)
    size = len(key)
    return [
        value.decode("utf-8", "surrogateescape")
        for field, value in self.fields
        if len(field) == size and field.lower() == key
    ]


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
    key = _key(name)  # any other type raises, as in stock
    size = len(key)
    return any(len(field) == size and field.lower() == key for field, _ in self.fields)


@lru_cache(maxsize=256)  # of the few names that code asks for
def _key(name: str | bytes) -> bytes:
    return (name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")).lower()


def current_value(self: Any) -> Any:
    """`_Option.current`: the value, copied if it could be changed."""
    value = self._default if self.value is optmanager.unset else self.value
    return value if type(value) in _PLAIN else copy.deepcopy(value)


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


REPLACED: tuple[tuple[type[Any], str, Callable[..., Any]], ...] = (
    (http.Headers, "get_all", get_all),
    (http.Headers, "get", get_or_default),
    (http.Headers, "__getitem__", get_folded),
    (http.Headers, "__contains__", has_field),
    (optmanager._Option, "current", current_value),
    (hooks.Hook, "args", hook_arguments),
    # These two only told authors of new hooks and events that they had forgotten a decorator.
    (commands.StartHook, "__new__", _new),
    (events.CommandCompleted, "__new__", _new),
    (connection.Connection, "__hash__", object.__hash__),
    (connection.Connection, "__eq__", object.__eq__),
    (context.Context, "fork", fork_context),
    (layer.Layer, "handle_event", lean_layers.handle_event),
)
"""(class of mitmproxy, name, what takes its place)."""


def install_lean_helpers() -> None:
    """Put them in place. Idempotent."""
    for holder, name, helper in REPLACED:
        setattr(holder, name, helper)
