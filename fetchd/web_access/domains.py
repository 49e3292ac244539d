"""Entries of domain lists: a bare host name, which covers its subdomains, or `*.name`, which covers them alone.

good   docs.rs   *.example.com   xn--bcher-kva.example
bad    https://docs.rs   docs.rs/std   docs.rs:443   *   Docs.RS   10.0.0.1
"""

from collections.abc import Iterable
from typing import Final

from proxy_addons.policy.hosts import HostPattern, HostPatternError, parse_host_pattern

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


def covers(wide: HostPattern, narrow: HostPattern) -> bool:
    """Whether every host of entry `narrow` is one of entry `wide`."""
    if narrow.suffix == wide.suffix:
        return narrow.subdomains or not wide.subdomains
    return narrow.suffix.endswith(f".{wide.suffix}")


def contains(entries: Iterable[HostPattern], host: str) -> bool:
    """Whether a canonical host name falls under any of the entries."""
    return any(
        host.endswith(f".{one.suffix}") or (host == one.suffix and not one.subdomains) for one in entries
    )


def quote_domains(entries: Iterable[str]) -> str:
    """Entries as a message names them."""
    shown = list(entries)
    text = ", ".join(f'"{entry}"' for entry in shown[:5])
    return text if len(shown) <= 5 else f"{text} and {len(shown) - 5} more"
