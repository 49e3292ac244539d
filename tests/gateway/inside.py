"""Places inside that nobody may be led to: loopback listeners that count, and a gateway whose DNS can name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.gateway import World
from tests.kit.listener import CountingListener

INSIDE = "127.0.0.66"
"""Answered by DNS in place of an origin; a listener counts there, and on ::1, on the same port."""


class InsideWorld(World):
    """Allows the listeners' port, denies `*.denied.example`, and blocks what the shipped profiles block beside."""

    def __init__(self, folder: Path, listeners: Sequence[CountingListener], **options: Any) -> None:
        super().__init__(folder, **options)
        self.inside = tuple(listeners)

    @property
    def inside_port(self) -> int:
        return self.inside[0].port

    @property
    def inside_connects(self) -> int:
        """Connections that were made to the places inside; never more than none."""
        return sum(one.accepts for one in self.inside)

    def config(self) -> dict[str, Any]:
        config = super().config()
        for profile in config["profiles"].values():
            profile["ports"] = [*profile["ports"], self.inside_port]
            profile["deny_hosts"] = ["denied.example", "*.denied.example"]
            profile["blocked_extra"] = ["168.63.129.16/32", "5f00::/16", "100:0:0:1::/64", "::ffff:0:0:0/96"]
        return config


@contextmanager
def inside_world(folder: Path, **options: Any) -> Iterator[InsideWorld]:
    """A world with its listeners inside."""
    with (
        CountingListener(INSIDE) as first,
        CountingListener("::1", first.port) as second,
        InsideWorld(folder, (first, second), **options) as world,
    ):
        yield world
