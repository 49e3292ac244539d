"""JSON of another party, member by member: what is there in its form, or None. Pure.

Texts come out as UTF-8 can carry them: half a surrogate pair, which JSON may hold as an escape, is replaced.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from proxy_addons.policy.config_forms import Json

from .errors import AnswerError, RefusalError, show_foreign

MOST: Final = 1 << 53
"""Above it a count is no count."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")

type Object = Mapping[str, Json]


def read_json(data: bytes | str) -> Json:
    """Any JSON value. Raises AnswerError."""
    try:
        value: Json = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise AnswerError("the answer's JSON is nested too deeply") from None
    except ValueError:  # among them UnicodeDecodeError, and int() on thousands of digits
        raise AnswerError("the answer is not JSON") from None
    return value


def read_object(data: bytes | str) -> Object:
    """A JSON object. Raises AnswerError."""
    found = as_object(read_json(data))
    if found is None:
        raise AnswerError("the answer is not a JSON object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def as_object(value: object) -> Object | None:
    return value if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[Any] | None:
    return value if isinstance(value, list) else None


def objects(value: object) -> list[Object]:
    """The objects of a list; what is none of either is passed over."""
    return [one for one in as_list(value) or () if isinstance(one, Mapping)]


def as_text(value: object) -> str | None:
    return _HALF_PAIR.sub("\ufffd", value) if isinstance(value, str) else None


def as_filled(value: object) -> str | None:
    """A text that is not blank."""
    text = as_text(value)
    return text if text and not text.isspace() else None


def as_count(value: object) -> int | None:
    """A whole number that can count something."""
    return value if type(value) is int and 0 <= value <= MOST else None


def total(*counts: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def raise_refusal(error: object, status: int | None = None) -> NoReturn:
    """A vendor's own error, from the `error` member of its answer: an object or a text. Raises RefusalError."""
    found = as_object(error) or {}
    code = next((text for name in ("code", "type") if (text := _as_code(found.get(name)))), "")
    message = as_filled(found.get("message")) or as_filled(error) or ""
    said = ": ".join(show_foreign(part) for part in (code, message) if part)
    where = f"HTTP {status}" if status is not None else "an error inside a 200"
    raise RefusalError(f"answered with {where}{': ' if said else ''}{said}", show_foreign(code, 100), status)


def _as_code(value: object) -> str | None:
    count = as_count(value)
    return str(count) if count is not None else as_filled(value)
