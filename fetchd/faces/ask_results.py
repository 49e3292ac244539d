"""A finished run as JSON, the same on HTTP and the command line, and its events on the way.

The answer is made of what strangers wrote, so a model gets it in the untrusted envelope (SPEC 3). A citation is
what the provider said, and is labelled so wherever it is shown.
"""

from typing import Final

from fetchd.core.envelope import render_envelope
from fetchd.core.failures import FailureKind
from fetchd.fetch import fresh_nonce
from fetchd.store.runs import StoredCitation, StoredToolCall
from fetchd.web_access.run_values import (
    Noted,
    ProviderCall,
    RunEvent,
    RunOutcome,
    RunStatus,
    StepBegan,
    StepEnded,
)
from fetchd.web_access.values import ServerToolUsed, Usage

from .results import KIND_STATUSES, TITLES, TRUST

CLAIM: Final = "what the provider said it drew on; nobody here has checked it"


def render_run(outcome: RunOutcome) -> dict[str, object]:
    """The object of a run that gave an answer, whole or not."""
    return {
        "run_id": outcome.run_id,
        "status": outcome.status.value,
        "spent": outcome.spent,
        "text": render_envelope(outcome.text, fresh_nonce()),
        "trust": TRUST,
        "provider": outcome.provider,
        "model": outcome.model,
        "steps": len(outcome.steps),
        "citations": [
            render_citation(StoredCitation(step.step, one))
            for step in outcome.steps
            for one in step.citations
        ],
        "citations_are": CLAIM,
        "server_tool_calls": [
            render_tool_call(StoredToolCall(step.step, one)) for step in outcome.steps for one in step.tools
        ],
        "dropped_rows": sum(step.dropped_rows for step in outcome.steps),
        "usage": render_usage(outcome.usage),
        "notes": list(outcome.notes),
    }


def render_ask_problem(kind: FailureKind, detail: str, run_id: str | None) -> dict[str, object]:
    """The problem document (RFC 9457) of a run that gave no answer."""
    return {
        "type": f"urn:fetchd:failure:{kind}",
        "title": TITLES[kind],
        "status": KIND_STATUSES[kind],
        "detail": detail,
        "kind": kind.value,
        "failure": "hard",
        "run_id": run_id,
    }


def render_outcome(outcome: RunOutcome) -> tuple[str, dict[str, object]]:
    """Name and data of a run's end: `result` and the object of an answer, or `failed` and a problem document."""
    if outcome.status is RunStatus.FAILED:
        return "failed", render_ask_problem(FailureKind.BACKEND, f"ask: {outcome.error}", outcome.run_id)
    return "result", render_run(outcome)


def render_citation(stored: StoredCitation) -> dict[str, object]:
    """One citation; what the provider did not say is null."""
    one = stored.citation
    return {
        "step": stored.step,
        "url": one.url,
        "title": one.title,
        "cited_text": one.cited_text,
        "outside_declaration": one.outside_declaration,
    }


def render_tool_call(stored: StoredToolCall) -> dict[str, object]:
    call = stored.call
    return {"step": stored.step, "provider": call.provider, "tool": call.tool, "error": call.error}


def render_usage(usage: Usage) -> dict[str, int | None]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "server_tool_requests": usage.server_tool_requests,
    }


def render_provider_call(call: ProviderCall) -> dict[str, object]:
    return {
        "step": call.step,
        "provider": call.provider,
        "model": call.model,
        "dialect": call.dialect,
        "at": call.at,
        "ms": round(call.ms, 3),
        "stop_reason": call.stop_reason,
        "failure": call.code,
        **render_usage(call.usage),
    }


def render_event(event: RunEvent) -> tuple[str, dict[str, object]]:
    """Name and data of an event of a stream."""
    match event:
        case StepBegan():
            return "step", {"step": event.step, "provider": event.provider, "model": event.model}
        case ServerToolUsed():
            return "tool", {"provider": event.provider, "tool": event.tool, "ok": event.ok}
        case StepEnded():
            return "step_ended", {
                "step": event.step,
                "provider": event.provider,
                "stop": event.stop.value if event.stop is not None else None,
                "error": event.error,
                **render_usage(event.usage),
            }
        case Noted():
            return "note", {"text": event.text}


def describe_event(event: RunEvent) -> str:
    """One line for a person."""
    match event:
        case StepBegan():
            return f"step {event.step}: asking {event.provider} ({event.model})"
        case ServerToolUsed():
            return f"  {event.provider} {event.tool}: {'done' if event.ok else f'failed ({event.error})'}"
        case StepEnded():
            if event.error is not None:
                return f"step {event.step}: {event.error}"
            stop = event.stop.value if event.stop is not None else "unknown"
            return f"step {event.step}: {stop}, {describe_usage(event.usage)}"
        case Noted():
            return f"note: {event.text}"


def describe_broken(outcome: RunOutcome) -> list[str]:
    """A line for each web tool that did not once run at the last step: the answer then rests on less than it may seem
    to."""
    tools = outcome.steps[-1].tools if outcome.steps else ()
    ran = {one.tool for one in tools if one.succeeded()}
    broken = {one.tool: one.error for one in tools if one.tool not in ran}
    return [
        f"the provider's {tool} failed ({error}): the answer does not rest on it"
        for tool, error in broken.items()
    ]


def describe_usage(usage: Usage) -> str:
    """Tokens and web requests, as reported."""

    def count(number: int | None) -> str:
        return "not reported" if number is None else f"{number:,}"

    return (
        f"tokens in {count(usage.input_tokens)}, out {count(usage.output_tokens)}, web requests"
        f" {count(usage.server_tool_requests)}"
    )
