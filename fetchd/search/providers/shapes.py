"""JSON of another party, read strictly: a value of the kind that is due, or `ShapeError` with a reason.

A reason says where and what in our own words; it never repeats what was found. Fields that nobody asks for are passed
over. null is the same as left out, since providers write both.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Never

from fetchd.search.interface import SearchRow
from fetchd.search.results import find_blank_url

type Object = Mapping[str, Any]


class ShapeError(Exception):
    """The text is one line and safe to show."""


def read_document(body: bytes) -> Object:
    """The object that a body is."""
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise ShapeError("body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ShapeError("body is not JSON") from None
    return _require_object(value, "body")


def read_object(source: Object, name: str, where: str = "") -> Object | None:
    """An object; None where there is none."""
    value = source.get(name)
    return None if value is None else _require_object(value, where + name)


def read_objects(source: Object, name: str, where: str = "") -> Iterator[tuple[str, Object]]:
    """The objects of an array, each with what it is called in reasons; the array has to be there."""
    value = source.get(name)
    if value is None:
        raise ShapeError(f"{where}{name} is missing")
    if not isinstance(value, list):
        raise ShapeError(f"{where}{name} is not an array")
    for index, one in enumerate(value):
        label = f"{name.removesuffix('s')} {index}"
        yield f"{label}: ", _require_object(one, label)


def read_rows(
    found: Iterable[tuple[str, Object]], read_row: Callable[[str, Object], SearchRow]
) -> tuple[SearchRow, ...]:
    """The rows of these objects. The first that is wrong is told: those before one of another shape are handed on
    alone where one of them leads nowhere, which fails the search.
    """
    rows: list[SearchRow] = []
    try:
        for where, one in found:
            rows.append(read_row(where, one))
    except ShapeError:
        if find_blank_url(rows) is None:
            raise
    return tuple(rows)


def read_text(source: Object, name: str, where: str) -> str:
    """A string; "" where there is none."""
    value = source.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ShapeError(f"{where}{name} is not a string")
    return value


def read_texts(source: Object, name: str, where: str) -> tuple[str, ...]:
    """An array of strings; () where there is none."""
    value = source.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ShapeError(f"{where}{name} is not an array of strings")
    return tuple(value)


def read_number(source: Object, name: str) -> float | None:
    """A number that is not negative; None where there is none, or something else, which fails nothing."""
    value = source.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12:
        return None
    return float(value)


def _require_object(value: object, what: str) -> Object:
    if not isinstance(value, dict):
        raise ShapeError(f"{what} is not an object")
    return value


def _refuse_constant(name: str) -> Never:
    raise ValueError(name)
