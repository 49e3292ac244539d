"""OpenAI's tools that run in a container at the vendor: it may be one that the request makes, and has no network."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .held import HeldError, quoted, text_of
from .json_text import Changes, Nested
from .tools import CONTAINER_MEMBERS, CONTAINER_TOOLS

NO_NETWORK: Mapping[str, str] = MappingProxyType({"type": "disabled"})
MADE_HERE = ("auto", "container_auto")
"""Containers of the request's own."""
LOCAL = "local"
"""The agent runs it."""


def check_container(entry: dict[str, Any]) -> None:
    """Raises HeldError for one that was made elsewhere, or has a network."""
    name = CONTAINER_TOOLS[text_of(entry.get("type"))]
    container = entry.get(name)
    if container is None:
        return
    if not isinstance(container, dict) or text_of(container.get("type")) not in (*MADE_HERE, LOCAL):
        raise HeldError(
            "a container made elsewhere may have a network, which is not seen here; let the request make one"
            ' ("type": "auto")'
        )
    unknown = container.keys() - CONTAINER_MEMBERS
    if unknown:
        raise HeldError(f'"{name}" has a member that is not known here: {quoted(min(unknown))}')
    if container.get("network_policy") not in (None, NO_NETWORK):
        raise HeldError(
            'a container with a network reaches the web; write "network_policy": {"type": "disabled"}'
        )


def close_container(entry: dict[str, Any]) -> Changes:
    """One that says nothing of a network is told to have none, whatever the vendor's default may become."""
    name = CONTAINER_TOOLS.get(text_of(entry.get("type")), "")
    container = entry.get(name)
    if (
        isinstance(container, dict)
        and text_of(container.get("type")) in MADE_HERE
        and container.get("network_policy") is None
    ):
        return {name: Nested({"network_policy": dict(NO_NETWORK)})}
    return {}
