"""The loop: what makes it go on, what ends it, what is charged, said and recorded."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import AnswerError, DeclarationError, RefusalError, UnreachableError
from fetchd.web_access.run_values import Noted, RunStatus, StepBegan, StepEnded
from fetchd.web_access.running import MAX_CONTINUATIONS, prepare_vendors
from fetchd.web_access.values import Citation, ServerToolCall, ServerToolUsed, Stop, Told, Usage, WebRow
from proxy_addons.policy.vendors.dialects import DIALECTS
from tests.fetchd.web_access.kit import BUDGET, SPEC, ListLog, ScriptedVendor, completion, run

OK = ServerToolCall.ok("anthropic", "web_search")
FETCHED = ServerToolCall.ok("anthropic", "web_fetch")
BROKE = ServerToolCall.failed("anthropic", "web_search", "unavailable")
CAPPED = ServerToolCall.failed("anthropic", "web_search", "max_uses_exceeded")
SOURCE = DIALECTS["anthropic-2025"]


async def test_an_answer_that_is_one_ends_the_run() -> None:
    vendor, log = ScriptedVendor([completion("Done.", Stop.END, OK)]), ListLog()
    outcome, events = await run(vendor, log=log)
    assert (outcome.status, outcome.text, outcome.usage) == (RunStatus.DONE, "Done.", Usage(100, 20, 1))
    assert events == [
        StepBegan(1, "anthropic", "model"),
        ServerToolUsed("anthropic", "web_search"),
        StepEnded(1, "anthropic", Stop.END, Usage(100, 20, 1)),
    ]
    assert (log.begun, log.ended) == ([(SPEC, "anthropic", "model")], [outcome])
    assert [step.tools for step in log.steps] == [(OK,)]


@pytest.mark.parametrize("on_the_way", [True, False], ids=["as it happens", "with the answer"])
async def test_each_use_of_a_tool_is_an_event_once_failed_ones_too(on_the_way: bool) -> None:
    vendor = ScriptedVendor([completion("x", Stop.END, OK, OK, FETCHED)], on_the_way=on_the_way)
    _, events = await run(vendor)
    assert [one.tool for one in events if isinstance(one, ServerToolUsed)] == [
        "web_search", "web_search", "web_fetch",
    ]  # fmt: skip


async def test_a_failed_tool_is_what_the_model_reads_at_its_next_completion() -> None:
    vendor = ScriptedVendor([completion("It is empty.", Stop.END, BROKE), completion("I could not look.")])
    outcome, events = await run(vendor)
    assert outcome.text == "I could not look."
    assert list(vendor.texts) == [
        "What is new?",
        "What is new?\n\n[step 1] provider web tool: web_search failed (unavailable)",
    ]
    assert ServerToolUsed("anthropic", "web_search", "unavailable") in events


async def test_a_tool_that_stays_broken_is_not_tried_for_ever() -> None:
    vendor = ScriptedVendor([completion("I could not look.", Stop.END, BROKE)])
    outcome, _ = await run(vendor)
    assert (outcome.status, len(vendor.asked)) == (RunStatus.DONE, 2)


FAILURES = [
    # what it says, calls, completions
    ("a search that ran and found nothing says nothing", [OK], 1),
    ("a cap reached after searches that ran is what was asked for", [OK, CAPPED], 1),
    ("a cap before any search is a failure", [CAPPED], 2),
    ("a cap of another tool than the one that ran is a failure", [FETCHED, CAPPED], 2),
    ("one that broke beside one that ran is a failure", [OK, BROKE], 2),
]


@pytest.mark.parametrize(("what", "calls", "count"), FAILURES, ids=[row[0] for row in FAILURES])
async def test_what_makes_for_another_completion(what: str, calls: list[ServerToolCall], count: int) -> None:
    vendor = ScriptedVendor([completion("x", Stop.END, *calls), completion("y")])
    await run(vendor)
    assert len(vendor.asked) == count


# ------------------------------------------------------------------------------------------------------ pauses

BLOCKS = ({"type": "text", "text": "Half."},)


def paused(text: str = "Half. ", *calls: ServerToolCall):
    return completion(text, Stop.PAUSE, *calls, blocks=BLOCKS, pending={"id": "web_search"})


async def test_today_s_pause_is_continued_with_what_was_said() -> None:
    vendor, log = ScriptedVendor([paused(), paused("More. "), completion("Done.")]), ListLog()
    outcome, _ = await run(vendor, log=log)
    assert (outcome.status, outcome.text) == (RunStatus.DONE, "Half. More. Done.")
    assert [asked[1].echo for asked in vendor.asked] == [(), BLOCKS, BLOCKS * 2]
    assert [asked[2] for asked in vendor.asked] == [{}, {"id": "web_search"}, {"id": "web_search"}]
    assert set(vendor.texts) == {"What is new?"}
    assert outcome.usage == Usage(300, 60, 3)
    assert [call.stop_reason for step in log.steps for call in step.calls] == ["pause", "pause", "end"]


async def test_a_pause_is_continued_five_times_and_no_more() -> None:
    vendor = ScriptedVendor([paused("x")])
    outcome, _ = await run(vendor)
    assert (outcome.status, outcome.text) == (RunStatus.PAUSED, "x" * (MAX_CONTINUATIONS + 1))
    assert len(vendor.asked) == MAX_CONTINUATIONS + 1


async def test_the_source_s_pause_is_a_fresh_request_with_the_partial_text() -> None:
    vendor = ScriptedVendor([paused(), completion("Done.")], dialect=SOURCE)
    outcome, _ = await run(vendor)
    assert (outcome.status, outcome.text) == (RunStatus.DONE, "Done.")
    assert list(vendor.texts)[1] == (
        "What is new?\n\n[step 1] the provider paused; partial answer so far: Half. "
    )
    assert [asked[1].echo for asked in vendor.asked] == [(), ()]
    assert outcome.usage == Usage(200, 40, 2)


async def test_a_run_that_ends_in_a_pause_has_what_was_said_until_then() -> None:
    spec = replace(SPEC, budget=replace(BUDGET, steps=2))
    outcome, _ = await run(ScriptedVendor([paused("Half. ")]), spec=spec)
    assert (outcome.status, outcome.spent, outcome.text) == (RunStatus.SPENT, "steps", "Half. Half. ")


# ----------------------------------------------------------------------------------------------------- budgets


async def test_steps_are_bounded() -> None:
    spec = replace(SPEC, budget=replace(BUDGET, steps=3))
    vendor = ScriptedVendor([paused()], dialect=SOURCE)
    outcome, _ = await run(vendor, spec=spec)
    assert (outcome.status, outcome.spent, len(vendor.asked)) == (RunStatus.SPENT, "steps", 3)


async def test_tokens_are_bounded_and_the_answer_that_passes_the_bound_is_the_last() -> None:
    spec = replace(SPEC, budget=replace(BUDGET, tokens=250))
    vendor = ScriptedVendor([paused()], dialect=SOURCE)
    outcome, _ = await run(vendor, spec=spec)
    assert (outcome.status, outcome.spent, len(vendor.asked)) == (RunStatus.SPENT, "tokens", 2)
    assert [asked[1].max_tokens for asked in vendor.asked] == [250, 130]


async def test_tokens_that_are_not_reported_count_as_the_most_they_may_be() -> None:
    spec = replace(SPEC, budget=replace(BUDGET, tokens=2500))
    vendor = ScriptedVendor([completion("x", Stop.PAUSE, usage=Usage())], dialect=SOURCE)
    outcome, _ = await run(vendor, spec=spec)
    assert (outcome.spent, len(vendor.asked)) == ("tokens", 3)
    assert outcome.usage == Usage()


async def test_time_is_bounded_between_completions() -> None:
    times = iter(range(0, 1000, 20))
    vendor = ScriptedVendor([paused()], dialect=SOURCE)
    outcome, _ = await run(vendor, now=lambda: float(next(times)))
    assert (outcome.status, outcome.spent) == (RunStatus.SPENT, "time")


async def test_time_is_bounded_within_a_completion_which_is_charged_and_recorded() -> None:
    spec, log = replace(SPEC, budget=replace(BUDGET, seconds=0.01)), ListLog()
    outcome, _ = await run(ScriptedVendor([], hangs=asyncio.Event()), spec=spec, log=log)
    assert (outcome.status, outcome.spent) == (RunStatus.SPENT, "time")
    assert [call.code for step in log.steps for call in step.calls] == ["timed_out"]
    assert log.ended == [outcome]


async def test_a_run_that_is_dropped_says_so_in_its_records() -> None:
    hanging, log = asyncio.Event(), ListLog()
    task = asyncio.create_task(run(ScriptedVendor([], hangs=hanging), log=log))
    await hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.status for one in log.ended] == [RunStatus.ABORTED]
    assert [call.code for step in log.steps for call in step.calls] == ["aborted"]


async def test_what_was_told_of_a_completion_that_failed_is_recorded_and_charged() -> None:
    tells: list[Told] = [Usage(100, 1), OK, BROKE, Usage(None, 40, 2)]
    first = ScriptedVendor([UnreachableError("broke off")], tells=tells)
    spec, log = replace(SPEC, budget=replace(BUDGET, answer_tokens=10_000)), ListLog()
    then = second(completion("Done.", Stop.END, ServerToolCall.ok("openrouter", "web_search")))
    outcome, events = await run(first, then, spec=spec, log=log)
    (step,) = log.steps
    assert [call.usage for call in step.calls] == [Usage(100, 40, 2), Usage(100, 20, 1)]
    assert step.tools == (OK, BROKE, ServerToolCall.ok("openrouter", "web_search"))
    assert outcome.usage == Usage(200, 60, 3)
    assert StepEnded(1, "anthropic", None, Usage(100, 40, 2), "broke off") in events
    assert then.asked[0][1].max_tokens == 10_000 - 140


async def test_a_run_that_is_dropped_while_its_beginning_is_recorded_has_an_end() -> None:
    class SlowLog(ListLog):
        async def begin(self, *about) -> None:
            await ListLog.begin(self, *about)
            began.set()
            await asyncio.Event().wait()

    began, log = asyncio.Event(), SlowLog()
    task = asyncio.create_task(run(ScriptedVendor([]), log=log))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.status for one in log.ended] == [RunStatus.ABORTED]


async def test_a_completion_that_failed_and_took_all_tokens_is_followed_by_none() -> None:
    first, then = ScriptedVendor([RETRIED[0]], tells=[Usage(9_990, 5)]), second(completion("Done."))
    outcome, _ = await run(first, then)
    assert (outcome.status, outcome.error, then.asked) == (
        RunStatus.FAILED,
        'provider "anthropic" timed out',
        [],
    )


async def test_so_is_what_was_told_before_a_run_was_dropped() -> None:
    hanging, log = asyncio.Event(), ListLog()
    vendor = ScriptedVendor([], hangs=hanging, tells=[Usage(100, 1), OK])
    task = asyncio.create_task(run(vendor, log=log))
    await hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (step,) = log.steps
    assert ([call.usage for call in step.calls], step.tools) == ([Usage(100, 1)], (OK,))


# --------------------------------------------------------------------------------------------------- fallbacks


def second(*replies, **more) -> ScriptedVendor:
    return ScriptedVendor(replies, name="openrouter", dialect=DIALECTS["openrouter"], **more)


RETRIED = [
    UnreachableError("timed out"),
    AnswerError("no"),
    RefusalError("x", "rate_limit_error", 429),
    RefusalError("x", "", 529),
    RefusalError("x", "overloaded_error"),
    RefusalError("x", "502"),
]
FINAL = [
    RefusalError("x", "authentication_error", 401),
    RefusalError("x", "invalid_request_error", 400),
    RefusalError("x", "invalid_request_error"),
    RefusalError("x", "402"),
]


@pytest.mark.parametrize(
    "error",
    RETRIED,
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'code', '')} {getattr(error, 'status', '')}",
)
async def test_a_vendor_that_is_not_well_is_followed_by_the_next(error: Exception) -> None:
    first, then, log = ScriptedVendor([error]), second(completion("Done.")), ListLog()  # type: ignore[list-item]
    outcome, events = await run(first, then, log=log)
    assert (outcome.status, outcome.provider) == (RunStatus.DONE, "openrouter")
    assert any(isinstance(one, Noted) and "instead" in one.text for one in events)
    (step,) = log.steps
    assert [(call.provider, call.code is None) for call in step.calls] == [
        ("anthropic", False), ("openrouter", True),
    ]  # fmt: skip
    assert step.calls[0].usage == Usage()


@pytest.mark.parametrize(
    "error",
    FINAL,
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'code', '')} {getattr(error, 'status', '')}",
)
async def test_a_vendor_that_refuses_the_request_is_not(error: Exception) -> None:
    then = second(completion("Done."))
    outcome, _ = await run(ScriptedVendor([error]), then)  # type: ignore[list-item]
    assert (outcome.status, outcome.error, then.asked) == (RunStatus.FAILED, 'provider "anthropic" x', [])


async def test_the_last_vendor_s_failure_is_the_run_s() -> None:
    outcome, _ = await run(ScriptedVendor([RETRIED[0]]), second(RETRIED[1]))
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, 'provider "openrouter": no')


async def test_what_one_vendor_paused_in_another_is_told_of() -> None:
    first, then = ScriptedVendor([paused("Half."), RETRIED[0]]), second(completion("Done."))
    outcome, _ = await run(first, then)
    assert outcome.text == "Done."
    assert list(then.texts) == ["What is new?\n\n[step 1] the provider paused; partial answer so far: Half."]
    assert then.asked[0][1].echo == ()


def test_a_list_of_which_one_cannot_carry_the_declaration_is_refused_at_the_start() -> None:
    first, then = ScriptedVendor([]), second()
    then.dialect = DIALECTS["openrouter-2025"]
    with pytest.raises(DeclarationError, match='provider "openrouter" cannot keep to named domains'):
        prepare_vendors(WebAccess.search().allow("docs.rs"), [first, then])
    assert first.asked == []


# ------------------------------------------------------------------------------------------- held and recorded


async def test_rows_and_citations_are_held_to_the_declaration_and_recorded_once_a_url() -> None:
    inside, outside = Citation("https://docs.rs/1", None, "a"), Citation("https://evil.test/")
    found = completion(
        citations=(
            inside,
            outside,
            replace(inside, cited_text="b", title="B"),
            replace(outside, cited_text="c"),
        ),
        rows=(WebRow(inside.url), WebRow(outside.url)),
    )
    log = ListLog()
    await run(ScriptedVendor([found]), spec=replace(SPEC, web=WebAccess.search().allow("docs.rs")), log=log)
    (step,) = log.steps
    # The first of each, and of the others what it leaves out.
    assert step.citations == (
        replace(inside, title="B"), replace(outside, cited_text="c", outside_declaration=True),
    )  # fmt: skip
    assert step.dropped_rows == 1


async def test_what_becomes_of_a_cap_is_said() -> None:
    spec = replace(SPEC, web=WebAccess.search().max_uses(3))
    vendor = ScriptedVendor([completion()], dialect=DIALECTS["openai-chat"], name="openai")
    outcome, events = await run(vendor, spec=spec)
    note = 'max_uses is not sent: provider "openai" has no place for it; the budgets of the run hold'
    assert (events[0], outcome.notes) == (Noted(note), (note,))


@pytest.mark.parametrize(
    ("stop", "status"),
    [(Stop.LENGTH, RunStatus.LENGTH), (Stop.REFUSED, RunStatus.REFUSED), (Stop.OTHER, RunStatus.STOPPED)],
)
async def test_how_an_answer_ended_is_how_the_run_did(stop: Stop, status: RunStatus) -> None:
    outcome, _ = await run(ScriptedVendor([completion("x", stop)]))
    assert outcome.status is status


async def test_a_fault_of_ours_fails_closed() -> None:
    def fault():
        raise ZeroDivisionError

    outcome, _ = await run(ScriptedVendor([fault]))
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "the run did not finish")
