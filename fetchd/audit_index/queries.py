"""A filter as SQL: conditions, their values, and the index to walk. Pure; the values of names are numbers here.

The narrowest thing that is wanted chooses the index. Every index holds what filters look at, in the order of time, so
that a page is read from its newest row on, and rows that do not match cost a look at the index alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .interface import SLOT, Cursor, Filter

END: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter whose names were looked up. hosts: None: any; empty: none that occurs."""

    filter: Filter
    agent: int | None = None
    hosts: Sequence[int] | None = None
    verdict: int | None = None
    rule: int | None = None
    kind: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What stands behind FROM, and its values."""

    source: str
    values: tuple[object, ...]


def select_rows(wanted: Wanted, before: Cursor | None = None, *, whole_slots: bool = False) -> Query:
    """From the rows. whole_slots: times as `tally` rounds them."""
    conditions: list[str] = []
    values: list[object] = []
    index = "by_time"
    for column, number in (("kind", wanted.kind), ("verdict", wanted.verdict), ("agent", wanted.agent)):
        if number is not None:
            conditions.append(f"{column} = ?")
            values.append(number)
    if wanted.agent is not None:
        index = "by_agent"
    if wanted.rule is not None:
        conditions.append("rule = ? AND rule > 0")
        values.append(wanted.rule)
        index = "by_rule"
    if wanted.hosts is not None:
        conditions.append(f"host IN ({', '.join('?' * len(wanted.hosts))})")
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


def select_tally(wanted: Wanted) -> Query | None:
    """From the counts by minute; None where they do not know enough."""
    if wanted.hosts is not None or wanted.filter.fetch_id:
        return None
    conditions, values = ["TRUE"], list[object]()
    for column, number in (
        ("kind", wanted.kind),
        ("agent", wanted.agent),
        ("verdict", wanted.verdict),
        ("rule", wanted.rule),
    ):
        if number is not None:
            conditions.append(f"{column} = ?")
            values.append(number)
    since, until = floor_slot(wanted.filter.since), ceil_slot(wanted.filter.until)
    for condition, bound in (("slot >= ?", since), ("slot < ?", until)):
        if bound is not None:
            conditions.append(condition)
            values.append(bound // SLOT)
    return Query(f"tally WHERE {' AND '.join(conditions)}", tuple(values))


def floor_slot(time: int | None) -> int | None:
    """The beginning of its minute."""
    return None if time is None else time // SLOT * SLOT


def ceil_slot(time: int | None) -> int | None:
    """The end of its minute, itself if it is one."""
    return None if time is None else -(-time // SLOT) * SLOT
