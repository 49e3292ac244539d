"""Times as they stand in a line: RFC 3339, UTC, microseconds, so that text order is the order of time."""

import time
from functools import lru_cache

NANOSECONDS = 1_000_000_000


def render_time(nanoseconds: int) -> str:
    """Nanoseconds since 1970 → RFC 3339 in UTC with microseconds, ``2026-01-31T09:00:00.000001Z``."""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    return f"{_render_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=1)
def _render_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
