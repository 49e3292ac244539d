"""A run in the audit log: each completion has its own tools and counters, the run has all of them."""

from __future__ import annotations

from fetchd.core.caller import Caller
from fetchd.web_access.audit_log import AuditedRun
from fetchd.web_access.errors import RefusalError
from fetchd.web_access.recording import CarefulLog
from fetchd.web_access.running import Runner, prepare_vendors
from fetchd.web_access.values import ServerToolCall, Stop, Usage
from proxy_addons.audit import AskRecord, CallOutcome, MemoryAuditLog
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.vendors.dialects import DIALECTS
from tests.fetchd.web_access.kit import SPEC, ScriptedVendor, completion


async def test_what_a_vendor_did_before_it_failed_is_on_its_own_line() -> None:
    ran, broke = (
        ServerToolCall.ok("anthropic", "web_search"),
        ServerToolCall.failed("anthropic", "web_fetch", "x"),
    )
    first = ScriptedVendor([RefusalError("x", "overloaded_error")], tells=[Usage(7, 1), ran, broke])
    searched = completion("Done.", Stop.END, ServerToolCall.ok("openrouter", "web_search"))
    then = ScriptedVendor([searched], name="openrouter", dialect=DIALECTS["openrouter"])
    log = MemoryAuditLog()
    sink = CarefulLog([AuditedRun(log, Caller("bot", DEFAULT_PROFILE))])
    await Runner(prepare_vendors(SPEC.web, [first, then]), sink).run(SPEC)
    lines = [line for line in log.records if isinstance(line, AskRecord)]
    assert [(line.step, line.provider, line.failure, line.outcome) for line in lines] == [
        (1, "anthropic", "overloaded_error", CallOutcome.HARD),
        (1, "openrouter", None, CallOutcome.SUCCESS),
        (0, "openrouter", None, CallOutcome.SUCCESS),
    ]
    assert [list(line.tools) for line in lines] == [
        ["web_search", "web_fetch:x"], ["web_search"], ["web_search", "web_fetch:x", "web_search"],
    ]  # fmt: skip
    assert [line.input_tokens for line in lines] == [7, 100, 107]
