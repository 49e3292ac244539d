"""Audit lines of a gateway that runs: a close line may be written a moment after the client has its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.kit.gateway import GatewayProcess
from tests.kit.sync import PATIENCE

_POLL_SECONDS = 0.01


def wait_until[T](find: Callable[[], T], is_enough: Callable[[T], bool], what: str) -> T:
    """What `find` gives, as soon as that is enough."""
    end = time.monotonic() + PATIENCE
    while not is_enough(found := find()):
        if time.monotonic() > end:
            raise TimeoutError(f"never came: {what}; there is {found}")
        time.sleep(_POLL_SECONDS)
    return found


def wait_lines(gateway: GatewayProcess, kind: str, number: int = 1, **wanted: Any) -> list[dict[str, Any]]:
    """The lines of a kind whose members have these values, as soon as there are `number` of them."""
    return wait_until(
        lambda: gateway.lines(kind, **wanted),
        lambda found: len(found) >= number,
        f"{number} {kind} lines with {wanted}",
    )


def wait_line(gateway: GatewayProcess, kind: str, **wanted: Any) -> dict[str, Any]:
    """The one such line; a second is an error."""
    (line,) = wait_lines(gateway, kind, **wanted)
    return line
