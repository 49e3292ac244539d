"""The profile of page reads (SPEC 5): the calling agent's own, with the schemes, ceiling and time of a read.

What narrows stays: host rules, ports, extra ranges, budgets. The caller's allowlist narrows further, on the first URL
and on every redirect target, in the gateway as in the daemon.
"""

from dataclasses import replace
from functools import lru_cache

from .hosts import HostPattern
from .limits import MIB, Profile

PAGE_READ = "page_read"
READ_SECONDS = 120.0
"""The whole of a read, redirects, retries and body included."""
DEFAULT_READ_BYTES = 64 * MIB
MAX_ALLOWLIST = 100
"""Patterns of one allowlist: with 261 characters each they fit a request head."""


@lru_cache(maxsize=256)
def derive_read_profile(
    profile: Profile, max_bytes: int, allowlist: tuple[HostPattern, ...] | None
) -> Profile:
    """What judges a page read of an agent under `profile`. max_bytes: decompressed bytes of a page, at the most."""
    return replace(
        profile,
        name=PAGE_READ,
        schemes=frozenset({"http", "https"}),
        methods=frozenset({"GET"}),
        request_body=False,
        request_cap=0,
        upgrades=frozenset(),
        credential_hosts=(),
        byte_cap=max_bytes,
        total_timeout=READ_SECONDS,
        allowlist=allowlist,
    )
