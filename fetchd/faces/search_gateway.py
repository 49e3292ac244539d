"""POST /v1/search: web_search for the `gateway` provider of another installation (SPEC 4), so that one keeps the key.

    {"query": …, "count": …}   the arguments of web_search, read by the same rules; Bearer: an agent's token
    200  {"query", "results": [{"title", "url", "description", "age"?, …}], "credits"?, "trust": "untrusted"}
    400, 500, 502              the failure as one line of text, which the other side quotes to its caller

Its rows are not in an envelope: what reads them is a program, which puts them into one of its own.
"""

from typing import Final

from fetchd.core.tool_definitions import WEB_SEARCH, Schema
from fetchd.search.interface import SearchFailure
from fetchd.search.results import render_row
from fetchd.search.searching import SearchResult

from .openapi_parts import SECURITY, STRING, call_responses, closed, reference
from .openapi_search import REQUEST_BODY
from .results import KIND_STATUSES, TRUST

SEARCH_GATEWAY_PATH: Final = "/v1/search"


def render_gateway_answer(result: SearchResult) -> dict[str, object]:
    """The object of a search that was answered."""
    cost = {} if result.credits is None else {"credits": result.credits}
    return {
        "query": result.query,
        "results": [render_row(row) for row in result.rows],
        **cost,
        "trust": TRUST,
    }


def render_gateway_failure(failure: SearchFailure) -> tuple[int, str]:
    """Status and text. The caller of the other side reads them after that one's own `web_search: `."""
    return KIND_STATUSES[failure.kind], failure.message.encode("utf-8", "backslashreplace").decode("utf-8")


def search_gateway_operation() -> Schema:
    """In the OpenAPI document."""
    return {
        "operationId": "search",
        "summary": WEB_SEARCH.description,
        "description": (
            "For the `gateway` search provider of another fetchd: the same search as the tool's, its results as plain"
            " JSON. They were written by strangers on the web. A failure is one line of text."
        ),
        "requestBody": REQUEST_BODY,
        "responses": {
            "200": {
                "description": "The results.",
                "content": {"application/json": {"schema": reference("Found")}},
            },
            **{
                str(status): {
                    "description": "The search failed.",
                    "content": {"text/plain": {"schema": STRING}},
                }
                for status in sorted(set(KIND_STATUSES.values()))
            },
            **call_responses(),
        },
        "security": SECURITY,
    }


def found_schema() -> Schema:
    """What the endpoint answers."""
    row = closed(
        "age",
        "site_name",
        "extra_snippets",
        title=STRING,
        url=STRING,
        description=STRING,
        age=STRING,
        site_name=STRING,
        extra_snippets={"type": "array", "items": STRING},
    )
    return closed(
        "credits",
        query={"type": "string", "description": "As it was asked."},
        results={"type": "array", "items": row},
        credits={
            "type": "number",
            "description": "What the search cost, in its provider's own unit; absent where that says nothing.",
        },
        trust={"const": TRUST},
    )
