"""What is asked of `ask`: the JSON object of HTTP, or the options of the command line, as one frozen value. Pure.

What is left out is None and comes from the configuration.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from proxy_addons.policy.config_ask import MAX_DOMAINS, MAX_USES
from proxy_addons.policy.config_forms import nearest
from proxy_addons.policy.vendors.dialects import Vendor

from .errors import DeclarationError, show_foreign

MAX_PROMPT: Final = 200_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A run as it is asked for. model: of the command line alone."""

    prompt: str
    provider: Vendor | None = None
    search: bool | None = None
    fetch: bool | None = None
    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    model: str | None = None


_OF_HTTP: Final = tuple(one.name for one in fields(AskRequest) if one.name != "model")


def parse_ask(data: bytes) -> AskRequest:
    """Of the JSON text of a request. Raises DeclarationError, which says what to write."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        raise DeclarationError('ask: send a JSON object, such as {"prompt": "…"}') from None
    if not isinstance(value, Mapping):
        raise DeclarationError('ask: send a JSON object, such as {"prompt": "…"}')
    for name in value:
        if name not in _OF_HTTP:
            hint = "the operator chooses it" if name == "model" else nearest(name, _OF_HTTP)
            raise DeclarationError(f"ask: no such key {show_foreign(name, 100)!r}; {hint}")
    given = {name: one for name, one in value.items() if one is not None}
    return make_request(given)


def make_request(given: Mapping[str, Any]) -> AskRequest:
    """Of values by name. Raises DeclarationError."""
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise DeclarationError("ask: prompt must not be empty")
    if len(prompt) > MAX_PROMPT:
        raise DeclarationError(f"ask: prompt must be at most {MAX_PROMPT} characters")
    for name in ("search", "fetch"):
        if not isinstance(given.get(name, False), bool):
            raise DeclarationError(f"ask: {name} must be true or false")
    for name, most in (("max_uses", MAX_USES), ("max_steps", 100), ("max_tokens", 1_000_000_000)):
        number = given.get(name, 1)
        if type(number) is not int or not 1 <= number <= most:
            raise DeclarationError(f"ask: {name} must be a whole number from 1 to {most}")
    seconds = given.get("timeout", 1)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= 86_400:
        raise DeclarationError("ask: timeout must be a number of seconds from 1 to 86400")
    lists = {
        name: _read_domains(name, given[name])
        for name in ("allowed_domains", "blocked_domains")
        if name in given
    }
    provider = given.get("provider")
    if provider is not None and provider not in list(Vendor):
        raise DeclarationError(f"ask: provider must be one of {', '.join(Vendor)}")
    return AskRequest(
        **{
            **given,
            **lists,
            "provider": Vendor(provider) if provider is not None else None,
        }
    )


def _read_domains(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise DeclarationError(f"ask: {name} must be a list of host names")
    if len(value) > MAX_DOMAINS:
        raise DeclarationError(f"ask: {name} must have at most {MAX_DOMAINS} entries")
    return tuple(value)
