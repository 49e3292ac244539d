"""A declaration held to what a dialect can carry: a filter to render, or the refusal, before anything is sent.

What a dialect cannot express is refused and never dropped (SPEC 6). The rows that decide are
`proxy_addons.policy.vendors.dialects`; `max_uses` alone is no refusal, and what becomes of it is said.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from proxy_addons.policy.vendors.dialects import Capability, Dialect, Uses

from .declaration import WebAccess
from .domains import NOTHING_SENT, DomainSet, parse_domain
from .errors import DeclarationError

_DEEDS: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        Capability.SEARCH: "search the web",
        Capability.FETCH: "fetch pages",
        Capability.ALLOW: "keep to named domains",
        Capability.BLOCK: "block individual domains",
    }
)


@dataclass(frozen=True, slots=True)
class WebFilter:
    """What is rendered. allow or block, never both. notes: what the user is told of how the vendor reads it."""

    search: bool
    fetch: bool
    cap: int | None = None
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NOTHING: Final = WebFilter(search=False, fetch=False)
"""Nothing declared: the request is what it would be without web access."""


def prepare_filter(declaration: WebAccess, dialect: Dialect, provider: str) -> WebFilter:
    """Raises DeclarationError: names `provider`, what it cannot carry, the way out, and that nothing was sent."""
    if not declaration.enabled():
        return NOTHING
    allow, block = declaration.vendor_filter()
    for capability, wanted in (
        (Capability.SEARCH, declaration.can_search),
        (Capability.FETCH, declaration.can_fetch),
        (Capability.ALLOW, bool(allow)),
        (Capability.BLOCK, bool(block)),
    ):
        if wanted and not dialect.can(capability):
            raise DeclarationError(render_refusal(provider, capability, dialect))
    if not dialect.host_wildcards:
        allow, block = _widen(allow), _spell_out(block, provider)
    for name, entries in (("allowed_domains", allow), ("blocked_domains", block)):
        if dialect.list_limit is not None and len(entries) > dialect.list_limit:
            raise DeclarationError(
                f'provider "{provider}" cannot carry {len(entries)} {name} — it takes {dialect.list_limit} at most;'
                f" state fewer. {NOTHING_SENT}"
            )
    both = declaration.can_search and declaration.can_fetch
    notes = tuple(_note_uses(declaration.cap, dialect, provider, both=both))
    return WebFilter(declaration.can_search, declaration.can_fetch, declaration.cap, allow, block, notes)


def render_refusal(provider: str, capability: Capability, dialect: Dialect) -> str:
    """Why a dialect cannot carry it, and the way out."""
    return f'provider "{provider}" cannot {_DEEDS[capability]} — {dialect.cannot[capability]}. {NOTHING_SENT}'


def _widen(allow: tuple[str, ...]) -> tuple[str, ...]:
    """`*.name` as `name`, which is wider by one host; answers are held to the narrower on our side."""
    return tuple(dict.fromkeys(entry.removeprefix("*.") for entry in allow))


def _spell_out(block: tuple[str, ...], provider: str) -> tuple[str, ...]:
    """`*.name` as `name`, where that is blocked as well."""
    patterns = [parse_domain(entry) for entry in block]
    blocked = DomainSet(patterns)
    spelt: dict[str, None] = {}
    for pattern in patterns:
        if pattern.subdomains:
            apex = parse_domain(pattern.suffix)
            if not blocked.covers(apex):
                raise DeclarationError(
                    f'provider "{provider}" cannot block "{pattern}" alone — it knows no wildcards in a host, and'
                    f' "{apex}" would block that host too; block "{apex}" as well, or leave "{pattern}" out.'
                    f" {NOTHING_SENT}"
                )
        spelt[pattern.suffix] = None
    return tuple(spelt)


def _note_uses(cap: int | None, dialect: Dialect, provider: str, *, both: bool) -> Iterable[str]:
    if cap is None:
        return
    match dialect.uses:
        case Uses.NOT_SENT:
            yield f'max_uses is not sent: provider "{provider}" has no place for it; the budgets of the run hold'
        case Uses.RESULTS:
            yield f'max_uses is sent to provider "{provider}" as a cap on results, not on requests'
        case Uses.ALL_CALLS:
            yield f'max_uses is sent to provider "{provider}" as a cap on all tool calls of an answer'
        case Uses.EACH_TOOL:
            if both:
                yield f'max_uses is for search and fetch each, not shared, at provider "{provider}"'
