"""ask in the OpenAPI document."""

from typing import Final

from fetchd.core.tool_definitions import Schema
from fetchd.web_access.requests import MAX_PROMPT
from fetchd.web_access.run_values import RunStatus
from proxy_addons.policy.config_ask import MAX_DOMAINS, MAX_USES
from proxy_addons.policy.vendors.dialects import Vendor

from .openapi_parts import (
    ENVELOPE_PATTERN,
    PROBLEM_TYPE,
    SECURITY,
    STRING,
    call_responses,
    closed,
    reference,
)
from .results import TRUST

ASK_PATH: Final = "/v1/ask"
EVENT_STREAM: Final = "text/event-stream"
DESCRIPTION: Final = (
    "A run of completions by a vendor's model, on the operator's key, for callers whose profile lists the tool `ask`."
    " The vendor searches and opens pages, not this gateway: what the operator's [web] declares, narrowed by the"
    " request and by the host rules of the caller's profile, is handed to the vendor, and its answers are held to it"
    " again. What the vendor cannot carry is refused before anything is sent. With `Accept: text/event-stream` events"
    " come as things happen: `step`, `tool`, `step_ended`, `note`, at the end `result` or `failed`."
)
_COUNT: Final[Schema] = {"type": ["integer", "null"], "minimum": 0, "description": "null: not reported."}
_MAYBE: Final[Schema] = {"type": ["string", "null"]}
_RUN_ID: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{20}$", "description": "Names the run."}


def ask_operation() -> Schema:
    return {
        "operationId": "ask",
        "summary": "Ask a vendor's model that searches the web for its answer.",
        "description": DESCRIPTION,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": reference("AskArguments"),
                    "examples": {"ask": {"value": {"prompt": "What is new in Rust?", "search": True}}},
                }
            },
        },
        "responses": {
            "200": {
                "description": "The answer, whole or cut short by a budget.",
                "content": {
                    "application/json": {"schema": reference("Run")},
                    EVENT_STREAM: {"schema": {"type": "string", "description": "Server-sent events."}},
                },
            },
            "400": _failure("What was asked for is wrong, or cannot be carried. Nothing was sent."),
            "502": _failure("The vendor failed."),
            **call_responses(),
        },
        "security": SECURITY,
    }


def ask_arguments_schema() -> Schema:
    """Null stands for "left out", and every key but the prompt can be."""

    def whole(most: int) -> Schema:
        return {"type": ["integer", "null"], "minimum": 1, "maximum": most}

    domains: Schema = {"type": ["array", "null"], "items": STRING, "maxItems": MAX_DOMAINS}
    switch: Schema = {"type": ["boolean", "null"]}
    names = ("provider", "search", "fetch", "max_uses", "allowed_domains", "blocked_domains")
    return closed(
        *names,
        "max_steps",
        "max_tokens",
        "timeout",
        prompt={"type": "string", "minLength": 1, "maxLength": MAX_PROMPT, "pattern": r"\S"},
        provider={"enum": [*(one.value for one in Vendor), None]},
        search=switch,
        fetch=switch,
        max_uses=whole(MAX_USES),
        allowed_domains=domains,
        blocked_domains=domains,
        max_steps=whole(100),
        max_tokens=whole(1_000_000_000),
        timeout={"type": ["number", "null"], "minimum": 1, "maximum": 86_400},
    )


def run_schema() -> Schema:
    """What a run that gave an answer returns."""
    citation = closed(
        step={"type": "integer"},
        url={"type": "string", "description": "As the vendor wrote it."},
        title=_MAYBE,
        cited_text=_MAYBE,
        outside_declaration={"type": "boolean"},
    )
    tool_call = closed(step={"type": "integer"}, provider=STRING, tool=STRING, error=_MAYBE)
    return closed(
        run_id=_RUN_ID,
        status={"enum": [one.value for one in RunStatus]},
        spent={"enum": ["steps", "tokens", "time", None], "description": "The budget that ended it."},
        text={
            "type": "string",
            "pattern": ENVELOPE_PATTERN,
            "description": "The vendor's answer, in the untrusted envelope.",
        },
        trust={"const": TRUST},
        provider=STRING,
        model=STRING,
        steps={"type": "integer"},
        citations={"type": "array", "items": citation},
        citations_are=STRING,
        server_tool_calls={"type": "array", "items": tool_call},
        dropped_rows={"type": "integer", "description": "Results outside the declaration, taken out."},
        usage=closed(input_tokens=_COUNT, output_tokens=_COUNT, server_tool_requests=_COUNT),
        notes={"type": "array", "items": STRING},
    )


def ask_failure_schema() -> Schema:
    """The problem document of a run that gave no answer."""
    return closed(
        type={"type": "string", "format": "uri"},
        title=STRING,
        status={"enum": [400, 502]},
        detail={"type": "string", "description": "The message, not in an envelope."},
        kind={"enum": ["InvalidArguments", "Backend"]},
        failure={"const": "hard"},
        run_id={**_RUN_ID, "type": ["string", "null"]},
    )


def _failure(description: str) -> Schema:
    return {"description": description, "content": {PROBLEM_TYPE: {"schema": reference("AskFailure")}}}
