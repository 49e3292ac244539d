"""When a budget is spent and when it is free again: both sides of each edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy_addons.policy.budgets import (
    DAY_SECONDS,
    Day,
    Minute,
    day_of,
    decide_budgets,
    decide_stream,
    first_second,
)
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from proxy_addons.policy.verdicts import Failure, Rule, Verdict

NOON = 19_000 * DAY_SECONDS + DAY_SECONDS / 2


def budgets(**limits: int) -> Profile:
    return replace(DEFAULT_PROFILE, **limits)  # type: ignore[arg-type]


def told(verdict: Verdict) -> tuple[str, int] | None:
    """Which budget is spent and for how long; None when the hop may begin."""
    if not verdict.refused:
        return None
    assert (verdict.rule, verdict.failure) == (Rule.BUDGET, Failure.SOFT)
    seconds = verdict.retry_after
    assert seconds is not None and seconds >= 1
    assert verdict.message == f"budget {verdict.subject} spent; free again in {seconds} s"
    return verdict.subject, seconds


def test_a_profile_without_budgets_lets_everything_begin() -> None:
    usage = Minute(100.0, 10**9)
    assert told(decide_budgets(DEFAULT_PROFILE, open_hops=10**9, minute=usage, day=Day(NOON, 10**15))) is None


@pytest.mark.parametrize(
    ("open_hops", "expected"),
    [
        pytest.param(0, None, id="nothing under way"),
        pytest.param(2, None, id="one below the limit: the third may begin"),
        pytest.param(
            3, ("concurrent_hops", 1), id="at the limit: nobody knows when one ends, so ask again soon"
        ),
        pytest.param(4, ("concurrent_hops", 1), id="above it, as after a limit was lowered"),
    ],
)
def test_concurrent_hops(open_hops: int, expected: tuple[str, int] | None) -> None:
    assert told(decide_budgets(budgets(concurrent_hops=3), open_hops=open_hops)) == expected


@pytest.mark.parametrize(
    ("now", "by_second", "expected"),
    [
        pytest.param(100.0, [(100, 2)], None, id="one below the limit"),
        pytest.param(100.0, [(100, 3)], 61, id="all in this very second: it counts until 60 s do not touch it"),
        pytest.param(100.9, [(100, 3)], 61, id="late in the second: 60.1 s, told as whole ones"),
        pytest.param(160.0, [(100, 1), (101, 2)], 1, id="the oldest leaves in a second, and one is enough"),
        pytest.param(160.5, [(100, 1), (101, 2)], 1, id="in half a second, told as one"),
        pytest.param(160.0, [(100, 1), (101, 3)], 2, id="one too many: two seconds must pass"),
        pytest.param(130.0, [(100, 1), (110, 1), (120, 1)], 31, id="spread out: the oldest decides"),
        pytest.param(130.0, [(100, 1), (110, 1), (120, 4)], 51, id="above the limit, as after it was lowered"),
    ],
)  # fmt: skip
def test_requests_per_minute(now: float, by_second: list[tuple[int, int]], expected: int | None) -> None:
    minute = Minute(now, sum(n for _, n in by_second), tuple(by_second))
    spent = told(decide_budgets(budgets(requests_per_minute=3), minute=minute))
    assert spent == (("requests_per_minute", expected) if expected is not None else None)


def test_no_request_of_the_last_sixty_seconds_is_left_out_of_the_count() -> None:
    for now in (100.0, 100.001, 100.5, 100.999):
        assert first_second(now) <= now - 60 < first_second(now) + 1


@pytest.mark.parametrize(
    ("now", "counted", "expected"),
    [
        pytest.param(NOON, 999, None, id="one byte left"),
        pytest.param(NOON, 1000, 43_200, id="none left, at noon"),
        pytest.param(NOON, 5000, 43_200, id="more than the limit"),
        pytest.param(20_000 * DAY_SECONDS - 0.2, 1000, 1, id="a moment before midnight"),
        pytest.param(20_000 * DAY_SECONDS + 0.0, 1000, 86_400, id="at midnight of the new day"),
    ],
)
def test_bytes_per_day(now: float, counted: int, expected: int | None) -> None:
    spent = told(decide_budgets(budgets(bytes_per_day=1000), day=Day(now, counted)))
    assert spent == (("bytes_per_day", expected) if expected is not None else None)


@pytest.mark.parametrize(
    ("limit", "counted", "expected"),
    [
        pytest.param(1000, 1000, None, id="the last byte may pass"),
        pytest.param(1000, 1001, ("bytes_per_day", 43_200), id="not one more"),
        pytest.param(None, 10**15, None, id="no limit"),
    ],
)
def test_a_stream(limit: int | None, counted: int, expected: tuple[str, int] | None) -> None:
    profile = replace(DEFAULT_PROFILE, bytes_per_day=limit)
    assert told(decide_stream(profile, Day(NOON, counted))) == expected


def test_of_several_spent_budgets_the_one_that_is_free_last_is_told() -> None:
    """Else a client would come back in time and be refused again."""
    profile = budgets(concurrent_hops=1, requests_per_minute=1, bytes_per_day=1)
    minute = Minute(100.0, 1, ((90, 1),))
    assert told(decide_budgets(profile, open_hops=1, minute=minute, day=Day(NOON, 1))) == (
        "bytes_per_day",
        43_200,
    )
    assert told(decide_budgets(profile, open_hops=1, minute=minute, day=Day(NOON, 0))) == (
        "requests_per_minute",
        51,
    )


def test_days_change_at_midnight_of_utc() -> None:
    assert (day_of(0.0), day_of(86_399.999), day_of(86_400.0)) == (0, 0, 1)
