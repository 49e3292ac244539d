"""A deadline that is set and lifted again and again rings when its last setting says so, and then once."""

import pytest

from proxy_addons.engine.deadline import Deadline
from tests.proxy_addons.engine.fakes import Clock


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ([("set", 10)], [10.0]),
        ([("set", 10), ("pass", 9), ("set", 10)], [19.0]),
        ([("set", 10), ("pass", 9), ("set", 10), ("set", 2)], [11.0]),
        ([("set", 10), ("lift", 0)], []),
        ([("set", 10), ("lift", 0), ("pass", 3), ("set", 10)], [13.0]),
        ([("set", 10), ("lift", 0), ("pass", 15), ("set", 10)], [25.0]),
        ([("set", 10), ("pass", 3), ("set", 10), ("pass", 8), ("lift", 0)], []),
        ([("set", 10), ("pass", 3), ("close", 0)], []),
    ],
    ids=[
        "nothing is said",
        "put off",
        "put off, then brought forward",
        "said",
        "said, then the next thing is due before the first timer rings",
        "said, then the next thing is due after it rang",
        "put off past its timer, then said",
        "the connection is over",
    ],
)
def test_a_client_is_late_when_its_last_deadline_says_so(
    steps: list[tuple[str, float]], ends: list[float]
) -> None:
    clock, late = Clock(), list[float]()
    deadline = Deadline(clock, lambda why: late.append(clock.now))
    for what, seconds in steps:
        if what == "set":
            deadline.set(seconds, "late")
        elif what == "lift":
            deadline.lift()
        elif what == "close":
            deadline.close()
        else:
            clock.ring(seconds)
    for _ in range(60):
        clock.ring(0.5)
    clock.close()
    assert late == ends
