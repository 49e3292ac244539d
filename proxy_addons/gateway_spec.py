"""What a gateway is told when it starts: one JSON line on standard input."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy_addons.policy.config import Config, parse_config


class SupervisorError(Exception):
    """The gateway cannot start; the text is for the operator. `in_use` names a taken address."""

    def __init__(self, message: str, in_use: str | None = None) -> None:
        super().__init__(message)
        self.in_use = in_use


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """What the supervisor is told.

    own: further addresses of the installation that must never be dialled. private: a gateway for one command's
    life; it shares keys and log with the main one, but not the state directory's lock.
    """

    config: Config
    state_dir: Path
    secret: str
    own: tuple[tuple[str, int], ...]
    private: bool


def parse_gateway_spec(text: str) -> GatewaySpec:
    """The JSON line of standard input; raises SupervisorError."""
    try:
        told: Mapping[str, Any] = json.loads(text)
        return GatewaySpec(
            config=parse_config(told["config"], source=told.get("source", "configuration")),
            state_dir=Path(told["state_dir"]),
            secret=told.get("secret") or secrets.token_hex(32),
            own=tuple((host, port) for host, port in told.get("own", ())),
            private=bool(told.get("private", False)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SupervisorError(f"the gateway was told nonsense: {error}") from error
