"""The parts that every operation of the OpenAPI document is made of."""

from typing import Final

from fetchd.core.tool_definitions import Schema
from proxy_addons.policy.verdicts import Rule

from .calls import RETRY_SECONDS

PROBLEM_TYPE: Final = "application/problem+json"

ENVELOPE_PATTERN: Final = r"^<untrusted_input_[0-9a-f]{32,}>\n[\s\S]*\n</untrusted_input_[0-9a-f]{32,}>$"

STRING: Final[Schema] = {"type": "string"}
NULL: Final[Schema] = {"type": "null"}
FETCH_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9a-f]{20}$",
    "description": "Names the call in the audit log.",
}
RULE: Final[Schema] = {
    "enum": [*(rule.value for rule in Rule), None],
    "description": "The rule of the policy that stopped it, where one did.",
}


SECURITY: Final[list[Schema]] = [{"token": []}, {"name_and_token": []}, {}]
"""The empty one: where callers without a name are served."""


def call_responses() -> Schema:
    """What any tool answers where the call was not made."""
    return {
        "401": {
            "description": "The token is missing, or nobody's.",
            "headers": {"WWW-Authenticate": {"schema": STRING, "description": "RFC 6750."}},
            "content": {PROBLEM_TYPE: {"schema": reference("IdentityProblem")}},
        },
        "413": problem("The arguments are too large."),
        "503": {
            **problem("Too many calls are at work and waiting."),
            "headers": {
                "Retry-After": {"schema": {"type": "integer"}, "description": f"{RETRY_SECONDS} seconds."}
            },
        },
        **guard_responses(),
        "403": {
            "description": "The caller's profile does not list the tool, or the request comes from another web"
            " page (Origin).",
            "content": {
                PROBLEM_TYPE: {"schema": {"oneOf": [reference("ToolProblem"), reference("Problem")]}}
            },
        },
    }


def guard_responses() -> Schema:
    """What any path answers to those it is not for."""
    return {
        "403": problem("The request comes from another web page (Origin)."),
        "405": problem("The path is not served by this method."),
        "421": problem("Host does not name this server."),
    }


def problem(description: str) -> Schema:
    """A refusal of the server itself."""
    return {"description": description, "content": {PROBLEM_TYPE: {"schema": reference("Problem")}}}


def closed(*optional: str, **properties: Schema) -> Schema:
    """An object with these properties and no others; all but the optional ones are there."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def reference(name: str) -> Schema:
    """A schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}
