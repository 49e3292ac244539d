"""A provider's rows to the text that a model reads (SPEC 4): compact JSON, its keys in one order."""

import json
from collections.abc import Sequence

from fetchd.core.failures import FailureKind

from .arguments import is_blank
from .interface import SearchFailure, SearchRow

NOT_RENDERED = SearchFailure(FailureKind.BACKEND, "the results could not be rendered")


def find_blank_url(rows: Sequence[SearchRow]) -> SearchFailure | None:
    """The failure of the first row that leads nowhere."""
    for index, row in enumerate(rows):
        if is_blank(row.url):
            message = f"malformed search response: result {index} has an empty url"
            return SearchFailure(FailureKind.BACKEND, message)
    return None


def render_results(query: str, rows: Sequence[SearchRow]) -> str | SearchFailure:
    """The text, not in its envelope yet. Half a surrogate pair, which JSON may hold, has no UTF-8."""
    document = {"query": query, "results": [render_row(row) for row in rows]}
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (ValueError, TypeError, RecursionError):
        return NOT_RENDERED
    return text


def render_row(row: SearchRow) -> dict[str, object]:
    optional = {"age": row.age, "site_name": row.site_name, "extra_snippets": list(row.extra_snippets)}
    return {
        "title": row.title,
        "url": row.url,
        "description": row.description,
        **{name: value for name, value in optional.items() if value},
    }
