"""Which part of a host name somebody could have registered, by the Public Suffix List that its package holds.

Nothing is downloaded. The list's private part counts: `*.github.io` has as many owners as names.
"""

from functools import lru_cache

from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=1)
def _load() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=True)


def registrable_domain(host: str) -> str | None:
    """`example.co.uk` of `a.example.co.uk`; None where `host` is itself a suffix, or has no name below one."""
    found = _load().privatesuffix(host)
    return found if isinstance(found, str) else None
