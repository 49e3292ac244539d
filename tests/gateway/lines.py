"""Audit lines of a gateway that runs: a close line may be written a moment after the client has its answer."""

from __future__ import annotations

import time
from typing import Any

from tests.kit.gateway import GatewayProcess
from tests.kit.sync import PATIENCE

_POLL_SECONDS = 0.01


def wait_lines(gateway: GatewayProcess, kind: str, number: int = 1, **wanted: Any) -> list[dict[str, Any]]:
    """The lines of a kind whose members have these values, as soon as there are `number` of them."""
    end = time.monotonic() + PATIENCE
    while True:
        found = gateway.lines(kind, **wanted)
        if len(found) >= number:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"never written: {number} {kind} lines with {wanted}; there are {found}")
        time.sleep(_POLL_SECONDS)


def wait_line(gateway: GatewayProcess, kind: str, **wanted: Any) -> dict[str, Any]:
    """The one such line; a second is an error."""
    (line,) = wait_lines(gateway, kind, **wanted)
    return line
