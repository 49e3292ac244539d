"""`--since` and `--until`: a part of the log by time.

    good   2h   30m   7d   2026-11-30   2026-11-30T10:00   2026-11-30T10:00:00.5Z   2026-11-30T11:00+01:00
    bad    yesterday   2   -2h   10:00

A time without a zone is UTC, as all times of the log.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str, now: datetime) -> str:
    """The moment as the log writes times; raises ValueError that says what to write."""
    try:
        if (ago := _AGO.fullmatch(text)) is not None:
            moment = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text[:60]!r} is no time; write one such as 2h, 7d or 2026-11-30T10:00 (UTC)"
        ) from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}Z"


def _read(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    if value is None:
        return ""
    try:
        return parse_moment(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


since_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--since", metavar="TIME", callback=_read, help="Only from then on: 2h, 7d, 2026-11-30T10:00 (UTC)."
)
until_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--until", metavar="TIME", callback=_read, help="Only before then."
)
