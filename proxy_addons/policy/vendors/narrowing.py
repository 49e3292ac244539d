"""One web tool's entry under a profile: what of it has to change, or why no change makes it fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy_addons.policy.limits import Profile

from .domains import DomainFilter, NarrowError, narrow_domains
from .held import HeldError, quoted, spoken, text_of
from .json_text import Change, Changes, Nested
from .tools import CAPPING_ENGINES, WebTool

_UNNAMED_BLOCK = "filters.blocked_domains"
"""OpenAI's API takes it and its types do not know it: an agent's own is read, none is written."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Changes of the entry, and of the body's root."""

    entry: Changes
    root: Changes


def narrow_tool(
    web: WebTool, entry: dict[str, Any], body: dict[str, Any], models: Sequence[str], profile: Profile
) -> Narrowed:
    """Raises HeldError. models: those that may answer."""
    _check_members(web, entry)
    if web.engines:
        _check_engine(web, entry, models)
    lists = _filter(web, entry, profile)
    changes: dict[str, dict[str, object]] = {}
    for path, new in ((web.allow, lists.allow), (web.block, lists.block)):
        now = _at(entry, path)
        if path is not None and new != (tuple(now) if now else None):
            _put(changes, path, Change.REMOVED if new is None else list(new))
    root: dict[str, object] = {}
    _cap(web, entry, body, profile.web_tools_max_uses, changes, root)
    nested: dict[str, object] = {name: Nested(inner) for name, inner in changes.items() if name}
    return Narrowed({**changes.get("", {}), **nested}, root)


def _check_members(web: WebTool, entry: dict[str, Any]) -> None:
    unknown = entry.keys() - web.known
    for name in ("filters", "parameters"):
        inner = entry.get(name)
        if inner is not None and name in web.known:
            if not isinstance(inner, dict):
                raise HeldError(f'"{name}" of {spoken(web)} is no object')
            unknown |= inner.keys() - web.inner
    if unknown:
        raise HeldError(f"{spoken(web)} has a member that is not known here: {quoted(min(unknown))}")


def _check_engine(web: WebTool, entry: dict[str, Any], models: Sequence[str]) -> None:
    """Whether OpenRouter's engine keeps to lists and cap: its own do, a vendor's only for Anthropic's models."""
    engine = _at(entry, "parameters.engine" if "parameters" in web.known else "engine")
    if text_of(engine) in CAPPING_ENGINES:
        return
    own = engine is None or text_of(engine) in ("auto", "native")
    if own and models and all(name.lower().startswith("anthropic/") for name in models):
        return
    raise HeldError(
        f"{spoken(web)} by the engine of this model's vendor does not keep to a number of uses; add"
        ' "engine": "exa", or one of firecrawl, parallel, perplexity'
    )


def _filter(web: WebTool, entry: dict[str, Any], profile: Profile) -> DomainFilter:
    block = web.block if web.block is not None else _UNNAMED_BLOCK
    asked_block = _domains(_at(entry, block), web)
    try:
        lists = narrow_domains(
            profile.hosts,
            _domains(_at(entry, web.allow), web),
            asked_block,
            paths=web.paths,
            wildcards=web.wildcards,
        )
    except NarrowError as error:
        raise HeldError(f"{spoken(web)} cannot be narrowed to the profile: {error}") from None
    if lists.allow is not None and web.allow is None:
        raise HeldError(
            f"{spoken(web)} of this type has no domain list, so it cannot be narrowed to the profile; use"
            ' "web_search"'
        )
    if lists.block is not None and web.block is None and lists.block != tuple(asked_block or ()):
        raise HeldError(
            f"{spoken(web)} cannot block individual domains: its list says what is allowed; state the hosts to"
            " allow instead of the ones to block"
        )
    listed = lists.allow or lists.block or ()
    if web.list_limit is not None and len(listed) > web.list_limit:
        raise HeldError(f"{spoken(web)} takes {web.list_limit} domains, and this needs {len(listed)}")
    return lists


def _cap(
    web: WebTool,
    entry: dict[str, Any],
    body: dict[str, Any],
    cap: int,
    changes: dict[str, dict[str, object]],
    root: dict[str, object],
) -> None:
    asked = body.get(web.root_uses) if web.root_uses is not None else _at(entry, web.uses)
    if asked is not None and (isinstance(asked, bool) or not isinstance(asked, int) or asked < 1):
        raise HeldError(f"the number of uses of {spoken(web)} is no whole number from 1")
    if asked is not None and asked <= cap:
        return
    if web.root_uses is not None:
        root[web.root_uses] = cap
    elif web.uses is not None:
        _put(changes, web.uses, cap)


def _domains(value: object, web: WebTool) -> Sequence[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise HeldError(f"a domain list of {spoken(web)} is no list")
    return value


def _at(entry: dict[str, Any], path: str | None) -> Any:
    if path is None:
        return None
    outer, _, name = path.rpartition(".")
    inner = entry.get(outer) if outer else entry
    return inner.get(name) if isinstance(inner, dict) else None


def _put(changes: dict[str, dict[str, object]], path: str, value: object) -> None:
    outer, _, name = path.rpartition(".")
    changes.setdefault(outer, {})[name] = value
