"""A profile's host rules and the lists that an agent asked for, to the one list that a vendor takes.

A vendor's entry means a name and all below it, and no list takes both what may and what may not. So:

- A pattern of ours goes out as the smallest entry that covers it. `docs.rs` covers its subdomains there, `*.docs.rs`
  its apex: SPEC 6 accepts that; the answer's addresses are compared with the rules in the log.
- A denied name within an entry is something the vendor cannot express, and refuses; a denied name that covers an
  entry takes it away. A deny alone goes out as a block list, which blocks the apex of `*.name` too.
- Ports are the vendor's own. A pattern for other ports than 80 and 443 allows nothing here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy_addons.policy.hosts import HostPattern, HostPatternError, HostRules, parse_host_pattern

MAX_ENTRY = 512
MAX_ASKED = 200
"""Entries of an agent's list; vendors take 64 to 100."""
MAX_LISTED = 1000
"""Entries that host rules may come to: far above what any vendor takes."""
WEB_PORTS = (None, 80, 443)


class NarrowError(ValueError):
    """What was asked cannot be narrowed. The message follows a colon, and says what to write."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a vendor's list. apex: `host` itself is meant; below: so is all below it."""

    host: str
    path: str = ""
    apex: bool = True
    below: bool = True

    def __str__(self) -> str:
        return ("" if self.apex else "*.") + self.host + self.path


@dataclass(frozen=True, slots=True)
class DomainFilter:
    """What a vendor is told. None: nothing; the vendor then may go anywhere, or anywhere but `block`."""

    allow: tuple[str, ...] | None = None
    block: tuple[str, ...] | None = None


def narrow_domains(
    rules: HostRules,
    asked_allow: Sequence[str] | None,
    asked_block: Sequence[str] | None,
    *,
    paths: bool = False,
    wildcards: bool = False,
) -> DomainFilter:
    """The intersection of `rules` and what was asked; raises NarrowError.

    An empty list asked for is taken for one that was left out where it blocks, and allows nothing where it allows.
    """
    if max(len(asked_allow or ()), len(asked_block or ())) > MAX_ASKED:
        raise NarrowError(f"write at most {MAX_ASKED} domains")
    allowed = None if asked_allow is None else [_parse(one, paths, wildcards) for one in asked_allow]
    blocked = [_parse(one, paths, wildcards) for one in asked_block or ()]
    if any(pattern.suffix == "" and pattern.port in (None, 443) for pattern in rules.deny):
        raise NarrowError("the profile's host rules allow nothing")
    denied = [_entry_of(pattern) for pattern in rules.deny if pattern.suffix]
    own = _own_entries(rules.allow)
    if max(len(own or ()) if allowed is None else 0, len(denied)) > MAX_LISTED:
        raise NarrowError(f"its host rules come to more than {MAX_LISTED} entries")
    if own is None and allowed is None:
        return _only_blocked(denied, blocked, wildcards)
    entries = _meet(own, allowed)
    kept = _without(entries, denied, blocked)
    if not kept:
        raise NarrowError("nothing is left that the profile's host rules and the request both allow")
    return DomainFilter(allow=_texts(kept, wildcards))


def _parse(text: object, paths: bool, wildcards: bool) -> Entry:
    if not isinstance(text, str) or len(text) > MAX_ENTRY:
        raise NarrowError("an entry of a domain list is no host name")
    name, slash, path = text.partition("/")
    path = path.rstrip("/")
    if path and not (paths and path.isascii() and path.isprintable() and not set(path) & set('?#\\"<> ')):
        raise NarrowError(f"write hosts alone in its domain lists, not {_show(text)}")
    try:
        pattern = parse_host_pattern(name.lower() if name.isascii() else name)
    except HostPatternError:
        raise NarrowError(
            f"write bare host names in its domain lists, such as docs.rs, not {_show(text)}"
        ) from None
    if not pattern.suffix or pattern.port is not None or (pattern.subdomains and not wildcards):
        raise NarrowError(f"write bare host names in its domain lists, such as docs.rs, not {_show(text)}")
    return Entry(pattern.suffix, f"{slash}{path}" if path else "", not pattern.subdomains)


def _show(text: str) -> str:
    """An entry as a message may show it: not where it could hold more than a name."""
    shown = text[:80]
    return (
        f'"{shown}"'
        if shown.isascii() and shown.isprintable() and not set(shown) & set('?#@"\\')
        else "this one"
    )


def _entry_of(pattern: HostPattern) -> Entry:
    return Entry(pattern.suffix, apex=not pattern.subdomains, below=pattern.subdomains)


def _own_entries(patterns: Iterable[HostPattern]) -> list[HostPattern] | None:
    """The allow patterns that bear on the web; None: every host."""
    kept = [pattern for pattern in patterns if pattern.port in WEB_PORTS]
    return None if any(pattern.suffix == "" for pattern in kept) else kept


def _meet(own: list[HostPattern] | None, allowed: list[Entry] | None) -> list[Entry]:
    if own is None:
        return allowed or []
    if allowed is None:
        return [_entry_of(pattern) for pattern in own]
    met: list[Entry] = []
    for entry in allowed:
        for pattern in own:
            if pattern.suffix == entry.host:
                met.append(
                    Entry(entry.host, entry.path, entry.apex and not pattern.subdomains, pattern.subdomains)
                )
            elif pattern.subdomains and _is_below(entry.host, pattern.suffix):
                met.append(entry)
            elif _is_below(pattern.suffix, entry.host):
                if entry.path:
                    raise NarrowError(
                        f"a path cannot be kept where {entry.host} is narrowed to {pattern.suffix}"
                    )
                met.append(_entry_of(pattern))
    return met


def _without(entries: list[Entry], denied: list[Entry], blocked: list[Entry]) -> list[Entry]:
    kept = []
    for entry in entries:
        if any(
            not one.path and (one.host == entry.host or _is_below(entry.host, one.host)) for one in blocked
        ):
            continue  # whoever asked means the name and all below it
        if _is_wholly_denied(entry, denied):
            continue
        for one in (*denied, *blocked):
            if one.host == entry.host or _is_below(one.host, entry.host):
                raise NarrowError(
                    f"{one} is denied and lies within {entry.host}, and a domain list holds a name with all below it"
                )
        kept.append(entry)
    return kept


def _is_wholly_denied(entry: Entry, denied: list[Entry]) -> bool:
    below = any(
        not one.apex and (one.host == entry.host or _is_below(entry.host, one.host)) for one in denied
    )
    apex = any(
        (one.apex and one.host == entry.host) or (not one.apex and _is_below(entry.host, one.host))
        for one in denied
    )
    return (below or not entry.below) and (apex or not entry.apex)


def _only_blocked(denied: list[Entry], blocked: list[Entry], wildcards: bool) -> DomainFilter:
    if not denied:
        return DomainFilter(block=_texts(blocked, wildcards) or None)
    return DomainFilter(block=_texts([*(Entry(one.host) for one in denied), *blocked], wildcards))


def _texts(entries: list[Entry], wildcards: bool) -> tuple[str, ...]:
    shown = (str(entry if wildcards else Entry(entry.host, entry.path)) for entry in entries)
    return tuple(dict.fromkeys(shown))


def _is_below(name: str, parent: str) -> bool:
    return name.endswith(f".{parent}")
