"""A run in the audit log: a line for each provider call, and one for the run when it has ended."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fetchd.core.caller import Caller
from proxy_addons.audit import AskRecord, CallOutcome
from proxy_addons.policy.wire import policy_name

from .run_values import RunOutcome, RunSpec, RunStatus, StepResult
from .values import ServerToolCall

_ENDED: Final[Mapping[RunStatus, CallOutcome]] = {
    RunStatus.FAILED: CallOutcome.HARD,
    RunStatus.ABORTED: CallOutcome.ABORTED,
}


class AskLog(Protocol):
    """What is asked of the audit log; the whole interface is `proxy_addons.audit.AuditSink`."""

    def append(self, record: AskRecord) -> int:
        """Write one line; raises AuditUnavailableError."""
        ...


class AuditedRun:
    """A RunSink over the audit log, for one run."""

    def __init__(self, log: AskLog, caller: Caller) -> None:
        self._log: Final = log
        self._caller: Final = caller
        self._spec: RunSpec | None = None

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None:
        """See RunSink."""
        self._spec = spec

    async def add_step(self, spec: RunSpec, step: StepResult) -> None:
        """See RunSink."""
        for call in step.calls:
            answered = call.code is None
            self._log.append(
                AskRecord(
                    step=step.step,
                    provider=call.provider,
                    model=call.model,
                    dialect=call.dialect,
                    outcome=CallOutcome.SUCCESS if answered else _failed(call.code),
                    failure=call.code,
                    stop=call.stop_reason,
                    # A vendor is asked once a step.
                    tools=[render_tool(one) for one in step.tools if one.provider == call.provider],
                    citations=len(step.citations) if answered else None,
                    outside=sum(one.outside_declaration for one in step.citations) if answered else None,
                    dropped=step.dropped_rows if answered else None,
                    input_tokens=call.usage.input_tokens,
                    output_tokens=call.usage.output_tokens,
                    server_tool_requests=call.usage.server_tool_requests,
                    ms=call.ms,
                    **self._about(spec),
                )
            )

    async def end(self, outcome: RunOutcome) -> None:
        """See RunSink."""
        if self._spec is None:
            return
        citations = [one for step in outcome.steps for one in step.citations]
        usage = outcome.usage
        self._log.append(
            AskRecord(
                step=0,
                provider=outcome.provider,
                model=outcome.model,
                outcome=_ENDED.get(outcome.status, CallOutcome.SUCCESS),
                failure=outcome.spent,
                stop=outcome.status.value,
                tools=[render_tool(one) for step in outcome.steps for one in step.tools],
                citations=len(citations),
                outside=sum(one.outside_declaration for one in citations),
                dropped=sum(step.dropped_rows for step in outcome.steps),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                server_tool_requests=usage.server_tool_requests,
                ms=sum(call.ms for step in outcome.steps for call in step.calls),
                **self._about(self._spec),
            )
        )

    def _about(self, spec: RunSpec) -> dict[str, Any]:
        web, profile = spec.web, self._caller.profile
        return {
            "run_id": spec.run_id,
            "agent": spec.agent,
            "profile": profile.name,
            "policy": policy_name(profile),
            "parent": spec.parent,
            "search": web.can_search,
            "fetch": web.can_fetch,
            "max_uses": web.cap,
            "allowed_domains": web.allowed_domains,
            "blocked_domains": web.blocked_domains,
        }


def render_tool(call: ServerToolCall) -> str:
    """`web_search`, or `web_search:max_uses_exceeded` where it failed."""
    return call.tool if call.error is None else f"{call.tool}:{call.error}"


def _failed(code: str | None) -> CallOutcome:
    return CallOutcome.ABORTED if code == "aborted" else CallOutcome.HARD
