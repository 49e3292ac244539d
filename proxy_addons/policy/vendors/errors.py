"""A refusal in the words of each vendor's API, so that its SDK raises the error that it has for such a status.

Read out of the SDKs: Anthropic's shows the whole body, OpenAI's the member `error` with its message, type, param and
code; OpenRouter's is OpenAI's with a number for a code. Whoever wants more finds the problem document of every other
refusal in the member `fetchd`.
"""

from collections.abc import Mapping

from .endpoints import ErrorShape

_TYPES = {403: "permission_error", 413: "request_too_large"}
"""Anthropic's names of errors by status."""


def render_error(
    shape: ErrorShape, status: int, message: str, problem: Mapping[str, object]
) -> dict[str, object]:
    """The members of the body. problem: the document that says the same to everybody else."""
    told = f"{message} (fetchd {problem.get('fetch_id')})"
    match shape:
        case ErrorShape.ANTHROPIC:
            kind = _TYPES.get(status, "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": told}, "fetchd": dict(problem)}
        case ErrorShape.OPENAI:
            error = {
                "message": told,
                "type": "invalid_request_error",
                "param": None,
                "code": problem.get("rule"),
            }
            return {"error": error, "fetchd": dict(problem)}
        case ErrorShape.OPENROUTER:
            return {"error": {"code": status, "message": told}, "fetchd": dict(problem)}
