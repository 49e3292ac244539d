"""OpenAI's tools that run in a container at the vendor: it may be one that the request makes, and has no network."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .held import HeldError, text_of
from .json_text import Changes, Nested

NO_NETWORK: Mapping[str, str] = MappingProxyType({"type": "disabled"})
MADE_HERE = ("auto", "container_auto")
"""Containers of the request's own."""
LOCAL = "local"
"""The agent runs it."""

_MEMBERS = MappingProxyType({"code_interpreter": "container", "shell": "environment"})
"""Where each tool says in what it runs."""


def check_container(entry: dict[str, Any]) -> None:
    """Raises HeldError for one that was made elsewhere, or has a network."""
    container = entry.get(_MEMBERS[text_of(entry.get("type"))])
    if container is None:
        return
    kind = text_of(container.get("type")) if isinstance(container, dict) else ""
    if kind not in (*MADE_HERE, LOCAL):
        raise HeldError(
            "a container made elsewhere may have a network, which is not seen here; let the request make one"
            ' ("type": "auto")'
        )
    if container.get("network_policy") not in (None, NO_NETWORK):
        raise HeldError(
            'a container with a network reaches the web; write "network_policy": {"type": "disabled"}'
        )


def close_container(entry: dict[str, Any]) -> Changes:
    """One that says nothing of a network is told to have none, whatever the vendor's default may become."""
    name = _MEMBERS.get(text_of(entry.get("type")), "")
    container = entry.get(name)
    if (
        isinstance(container, dict)
        and text_of(container.get("type")) in MADE_HERE
        and container.get("network_policy") is None
    ):
        return {name: Nested({"network_policy": dict(NO_NETWORK)})}
    return {}
