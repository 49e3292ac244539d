"""web_search in the OpenAPI document."""

from typing import Final

from fetchd.core.failures import FailureKind
from fetchd.core.tool_definitions import WEB_SEARCH, Schema
from proxy_addons.policy.config_search import SearchProviderName

from .openapi_parts import (
    ENVELOPE_PATTERN,
    FETCH_ID,
    NULL,
    PROBLEM_TYPE,
    RULE,
    SECURITY,
    STRING,
    call_responses,
    closed,
    reference,
)
from .results import KIND_STATUSES, TRUST

WEB_SEARCH_PATH: Final = "/v1/tools/web_search"
DESCRIPTION: Final = (
    "The body is read as JSON whatever its Content-Type says. Unknown keys are refused; of a key that stands twice"
    " the last counts. An integer is written without fraction or exponent: `5.0` is refused. Every failure is a"
    " problem document; that nothing was found is none. `text` holds `{query, results}` as compact JSON in the"
    " untrusted envelope; `urls` says of each result, in the same order, whether the gateway would let this caller"
    " fetch it."
)
REQUEST_BODY: Final[Schema] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": reference("SearchArguments"),
            "examples": {"search": {"value": {"query": "rust async runtime", "count": 5}}},
        }
    },
}
"""Of every operation that searches."""
_PROVIDER: Final[Schema] = {"enum": [name.value for name in SearchProviderName]}


def web_search_operation() -> Schema:
    return {
        "operationId": "web_search",
        "summary": WEB_SEARCH.description,
        "description": DESCRIPTION,
        "requestBody": REQUEST_BODY,
        "responses": {
            "200": {
                "description": "The results.",
                "content": {"application/json": {"schema": reference("Search")}},
            },
            **{str(status): _failure(status) for status in sorted(set(KIND_STATUSES.values()))},
            **call_responses(),
        },
        "security": SECURITY,
    }


def search_schema() -> Schema:
    """What a search that was answered returns."""
    vetted = closed(
        url={"type": "string", "description": "As in the text; written by strangers."},
        admitted={"type": "boolean", "description": "Whether the caller's profile admits it."},
        rule=RULE,
    )
    return closed(
        text={
            "type": "string",
            "pattern": ENVELOPE_PATTERN,
            "description": "The results as JSON, in the untrusted envelope.",
        },
        trust={"const": TRUST},
        failure=NULL,
        rule=NULL,
        provider={**_PROVIDER, "description": "Who answered."},
        dropped={"type": "integer", "description": "Results outside the domain lists, taken out."},
        urls={"type": "array", "items": vetted},
        fetch_id=FETCH_ID,
    )


def search_failure_schema() -> Schema:
    """The problem document of a search that failed."""
    return closed(
        type={"type": "string", "format": "uri"},
        title=STRING,
        status={"enum": sorted(set(KIND_STATUSES.values()))},
        detail={"type": "string", "description": "The message, not in an envelope."},
        kind={"enum": [kind.value for kind in FailureKind]},
        failure={"const": "hard"},
        rule=NULL,
        provider={
            "enum": [*(name.value for name in SearchProviderName), None],
            "description": "Who was asked last; `null`: nobody was.",
        },
        fetch_id=FETCH_ID,
    )


def _failure(status: int) -> Schema:
    kinds = ", ".join(kind for kind, found in KIND_STATUSES.items() if found == status)
    return {
        "description": f"A failure of kind {kinds}.",
        "content": {PROBLEM_TYPE: {"schema": reference("SearchFailure")}},
    }
