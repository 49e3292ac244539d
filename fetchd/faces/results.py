"""A finished call as JSON, the same on HTTP and the command line (SPEC 3, last paragraph)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fetchd.core.failures import FailureKind, ToolFailure
from fetchd.fetch import FetchResult
from proxy_addons.policy.wire import PROBLEM_URI

TRUST: Final = "untrusted"

KIND_STATUSES: Final[Mapping[FailureKind, int]] = MappingProxyType(
    {
        FailureKind.INVALID_ARGUMENTS: 400,
        FailureKind.TRANSPORT: 502,
        FailureKind.BACKEND: 502,
        FailureKind.OTHER: 500,
    }
)
"""SPEC 3: the HTTP status of a hard failure."""

TITLES: Final[Mapping[FailureKind, str]] = MappingProxyType(
    {
        FailureKind.INVALID_ARGUMENTS: "Invalid arguments",
        FailureKind.TRANSPORT: "Transport failed",
        FailureKind.BACKEND: "Backend failed",
        FailureKind.OTHER: "Call did not finish",
    }
)


def render_result(result: FetchResult) -> dict[str, object]:
    """The object of a success or a soft failure."""
    failure = result.failure
    return {
        "text": result.text,
        "trust": TRUST,
        "failure": failure.failure.value if failure is not None else None,
        "rule": failure.rule.value if failure is not None and failure.rule is not None else None,
        "final_url": result.final_url,
        "truncated": result.truncated,
        "extraction": result.extraction.value if result.extraction is not None else None,
        "fetch_id": result.fetch_id,
    }


def render_problem(failure: ToolFailure, fetch_id: str) -> dict[str, object]:
    """The problem document (RFC 9457) of a hard failure."""
    kind = failure.kind
    if kind is None:
        raise ValueError("a soft failure is a result, not a problem")
    uri = f"{PROBLEM_URI}{failure.rule.value}" if failure.rule is not None else f"urn:fetchd:failure:{kind}"
    return {
        "type": uri,
        "title": TITLES[kind],
        "status": KIND_STATUSES[kind],
        "detail": failure.text,
        "kind": kind.value,
        "failure": failure.failure.value,
        "rule": failure.rule.value if failure.rule is not None else None,
        "fetch_id": fetch_id,
    }
