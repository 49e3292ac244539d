"""A filter as SQL: conditions, their values, and the index to walk. Pure; the values of names are numbers here.

The narrowest thing that is wanted chooses the index. Every index holds what filters look at, in the order of time, so
that a page is read from its newest row on, and rows that do not match cost a look at the index alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .interface import HOUR_SLOTS, SLOT, Cursor, Filter

END: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter whose names were looked up. hosts: None: any; empty: none that occurs."""

    filter: Filter
    agent: int | None = None
    hosts: Sequence[int] | None = None
    verdicts: Sequence[int] | None = None
    rule: int | None = None
    kind: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What stands behind FROM, and its values."""

    source: str
    values: tuple[object, ...]


def select_rows(
    wanted: Wanted, before: Cursor | None = None, *, whole_slots: bool = False, all_times: str = "by_time"
) -> Query:
    """From the rows. whole_slots: times as `tally` rounds them. all_times: the index to walk where nothing but the
    time is wanted."""
    conditions: list[str] = []
    values: list[object] = []
    index = all_times
    for column, number in (("kind", wanted.kind), ("agent", wanted.agent)):
        if number is not None:
            conditions.append(f"{column} = ?")
            values.append(number)
    if wanted.verdicts is not None:
        conditions.append(_is_one_of("verdict", wanted.verdicts))
        values += wanted.verdicts
    if wanted.agent is not None:
        index = "by_agent"
    if wanted.rule is not None:
        conditions.append("rule = ? AND rule > 0")
        values.append(wanted.rule)
        index = "by_rule"
    if wanted.hosts is not None:
        conditions.append(_is_one_of("host", wanted.hosts))
        values += wanted.hosts
        index = "by_host"
    if wanted.filter.fetch_id:
        conditions.append("fetch_id >= ? AND fetch_id < ? AND fetch_id > ''")
        values += [wanted.filter.fetch_id, wanted.filter.fetch_id + END]
        index = "by_fetch"
    since, until = wanted.filter.since, wanted.filter.until
    if whole_slots:
        since, until = floor_slot(since), ceil_slot(until)
    for condition, bound in (("time >= ?", since), ("time < ?", until)):
        if bound is not None:
            conditions.append(condition)
            values.append(bound)
    if before is not None:
        conditions.append("time <= ? AND (time < ? OR number < ?)")
        values += [before.time, before.time, before.number]
    return Query(f"rows INDEXED BY {index} WHERE {' AND '.join(conditions) or 'TRUE'}", tuple(values))


def select_tally(wanted: Wanted, slots: int) -> Query | None:
    """From the counts; None where they do not know enough. slots: minutes of a stretch of time.

    Where stretches are hours or more, whole hours are taken as such, and minutes at both ends alone.
    """
    if wanted.hosts is not None or wanted.filter.fetch_id:
        return None
    since, until = floor_slot(wanted.filter.since), ceil_slot(wanted.filter.until)
    first = None if since is None else since // SLOT
    last = None if until is None else until // SLOT
    pieces: list[tuple[str, int | None, int | None]] = [("tally", first, last)]
    if slots % HOUR_SLOTS == 0:
        begin = None if first is None else -(-first // HOUR_SLOTS) * HOUR_SLOTS
        end = None if last is None else last // HOUR_SLOTS * HOUR_SLOTS
        if begin is None or end is None or begin < end:
            pieces = [("hours", begin, end)]
            if first is not None and first != begin:
                pieces.append(("tally", first, begin))
            if last is not None and last != end:
                pieces.append(("tally", end, last))
    selected = [_select_counts(wanted, *piece) for piece in pieces]
    return Query(
        f"({' UNION ALL '.join(one.source for one in selected)})",
        tuple(value for one in selected for value in one.values),
    )


def _is_one_of(column: str, numbers: Sequence[int]) -> str:
    return f"{column} IN ({', '.join('?' * len(numbers))})"


def _select_counts(wanted: Wanted, table: str, first: int | None, last: int | None) -> Query:
    conditions, values = ["TRUE"], list[object]()
    for condition, value in (
        ("kind = ?", wanted.kind),
        ("agent = ?", wanted.agent),
        ("rule = ?", wanted.rule),
        ("slot >= ?", first),
        ("slot < ?", last),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if wanted.verdicts is not None:
        conditions.append(_is_one_of("verdict", wanted.verdicts))
        values += wanted.verdicts
    return Query(
        f"SELECT slot, verdict, rule, rows FROM {table} WHERE {' AND '.join(conditions)}",  # noqa: S608 (ours)
        tuple(values),
    )


def floor_slot(time: int | None) -> int | None:
    """The beginning of its minute."""
    return None if time is None else time // SLOT * SLOT


def ceil_slot(time: int | None) -> int | None:
    """The end of its minute, itself if it is one."""
    return None if time is None else -(-time // SLOT) * SLOT
