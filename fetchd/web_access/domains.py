"""Entries of domain lists: a bare host name, which covers its subdomains, or `*.name`, which covers them alone.

good   docs.rs   *.example.com   xn--bcher-kva.example
bad    https://docs.rs   docs.rs/std   docs.rs:443   *   Docs.RS   10.0.0.1
"""

from collections.abc import Iterable, Iterator
from typing import Final

from proxy_addons.policy.hosts import HostPattern, HostPatternError, parse_host_pattern, walk_suffixes

from .errors import DeclarationError, show_foreign

NOTHING_SENT: Final = "No request was sent."


def parse_domain(text: str) -> HostPattern:
    """One entry. Raises DeclarationError."""
    try:
        pattern = parse_host_pattern(text)
    except HostPatternError as error:
        # Where it names the canonical form, that says more than an example.
        form = str(error).partition('": write ')[2]
        raise DeclarationError(
            _complain(text, show_foreign(form) if form else "docs.rs or *.docs.rs")
        ) from None
    if not pattern.suffix:
        raise DeclarationError(
            f'domain "{show_foreign(text, 300)}" is every host; to allow every host, leave the list empty.'
            f" {NOTHING_SENT}"
        )
    if pattern.port is not None:
        raise DeclarationError(_complain(text, str(HostPattern(pattern.suffix, pattern.subdomains, None))))
    return pattern


def _complain(text: str, form: str) -> str:
    return (
        f'domain "{show_foreign(text, 300)}" is not a bare host name; write {form}, without scheme, port and path.'
        f" {NOTHING_SENT}"
    )


class DomainSet:
    """Entries, found by the labels of what is looked up: lists come from outside, and a thousand held to a thousand
    one by one would hold everybody up."""

    def __init__(self, entries: Iterable[HostPattern]) -> None:
        self._entries: Final = {(one.suffix, one.subdomains): one for one in entries}

    def find_covers(self, one: HostPattern) -> Iterator[HostPattern]:
        """The entries that every host of entry `one` is among, itself too."""
        if not one.subdomains and (same := self._entries.get((one.suffix, False))):
            yield same
        elif one.subdomains:
            yield from self._find(one.suffix)
        for parent in walk_suffixes(one.suffix):
            if parent != one.suffix:
                yield from self._find(parent)

    def covers(self, one: HostPattern) -> bool:
        """Whether every host of entry `one` is one of some entry."""
        return next(self.find_covers(one), None) is not None

    def contains(self, host: str) -> bool:
        """Whether a canonical host name falls under any of the entries."""
        return self.covers(HostPattern(host, False, None))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def _find(self, suffix: str) -> Iterator[HostPattern]:
        for subdomains in (False, True):
            if (found := self._entries.get((suffix, subdomains))) is not None:
                yield found


def quote_domains(entries: Iterable[str]) -> str:
    """Entries as a message names them."""
    shown = list(entries)
    text = ", ".join(f'"{entry}"' for entry in shown[:5])
    return text if len(shown) <= 5 else f"{text} and {len(shown) - 5} more"
