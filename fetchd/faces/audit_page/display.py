"""Numbers and times as people read them."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from fetchd.audit_index.interface import STOPPED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def show_time(micros: int) -> str:
    """2026-01-31 12:00:00.123, in UTC."""
    return _moment(micros).isoformat(" ", "milliseconds").removesuffix("+00:00")


def show_machine_time(micros: int) -> str:
    """RFC 3339, for the datetime of a time element."""
    return _moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(micros: int) -> datetime:
    """Whole numbers throughout: as a float, the last milliseconds of the year 9999 would be those of the next."""
    return _EPOCH + timedelta(microseconds=micros)


def show_bytes(number: int | None) -> str:
    """1.5 MiB."""
    if number is None:
        return ""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def show_ms(number: float | None) -> str:
    """12.3 ms, or 1.23 s."""
    if number is None:
        return ""
    return f"{number / 1000:.2f} s" if number >= 1000 else f"{number:.1f} ms"


def show_count(number: int) -> str:
    """12,345."""
    return f"{number:,}"


def show_step(micros: int) -> str:
    """15 minutes, 3 hours, 7 days: a whole number of minutes."""
    minutes = micros // 60_000_000
    for size, unit in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size == 0 and minutes >= size:
            number = minutes // size
            return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"
    return f"{minutes} minutes"


def show_verdict(verdict: str) -> str:
    """A verdict as people say it: how a call failed is one word in the log."""
    return _VERDICTS.get(verdict, verdict)


_VERDICTS: Final = {"soft": "soft failure", "hard": "hard failure", STOPPED: "refused or failed"}


def show_log_time(text: str) -> str:
    """A time of a line as the pages have it, in UTC; what is none stays as it is."""
    found = _LOG_TIME.fullmatch(text)
    return f"{found[1]} {found[2]} UTC" if found is not None else text


_LOG_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3})[0-9]*Z")

FILTERS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "time": show_time,
        "machine_time": show_machine_time,
        "bytes": show_bytes,
        "ms": show_ms,
        "count": show_count,
        "step": show_step,
        "verdict": show_verdict,
        "log_time": show_log_time,
    }
)
"""By their names in templates. `count` shadows Jinja's own, which is `length` too."""
