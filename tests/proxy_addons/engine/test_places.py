"""Places for clients: how many, and who makes room for whom."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from proxy_addons.engine.places import (
    DESCRIPTORS_A_PLACE,
    KEPT_DESCRIPTORS,
    LEAST_PLACES,
    MAX_PLACES,
    Place,
    Places,
    count_places,
)


@dataclass(eq=False)
class Client:
    """An occupant; `since` None: busy."""

    name: str
    since: float | None = 0.0
    unread: bool = False
    evicted: list[str] = field(default_factory=list)

    def idle_since(self) -> float | None:
        return self.since

    def owes(self) -> bool:
        return self.unread

    def evict(self) -> None:
        self.evicted.append(self.name)


class Stage:
    """Places, and clients that come in by `holder name idle-since`; `-` is busy, `+` owes."""

    def __init__(self, limit: int, rows: str) -> None:
        self.places = Places(lambda: limit)
        self.evicted: list[str] = []
        self.of: dict[str, Place] = {}
        for row in filter(None, map(str.strip, rows.splitlines())):
            holder, name, since = row.split()
            place = self.places.take(holder)
            busy, owes = since == "-", since.endswith("+")
            place.occupant = Client(name, None if busy else float(since.rstrip("+")), owes, self.evicted)
            self.of[name] = place


@pytest.mark.parametrize(
    ("rows", "number", "expected"),
    [
        pytest.param("a one 3\na two 1\na three 2", 1, ["two"], id="the one that is idle for longest"),
        pytest.param("a one 3\na two 2\nb other 1", 1, ["two"], id="of whom holds most, not the longest of all"),
        pytest.param("a one -\na two -\nb other 1", 1, ["other"], id="who holds most has nobody idle: the next"),
        pytest.param("a one -\nb other -", 1, [], id="everybody is busy"),
        pytest.param("a one 1+\na two 2", 1, ["two"], id="who has not read its answer comes last"),
        pytest.param("a one 1+\na two -", 1, ["one"], id="but comes, when there is nobody else"),
        pytest.param("a a1 1\na a2 2\na a3 3\nb b1 0\nb b2 9", 3, ["a1", "b1", "a2"], id="several, counted anew"),
        pytest.param("a one 1", 5, ["one"], id="no more than there are"),
    ],
)  # fmt: skip
def test_who_makes_room(rows: str, number: int, expected: list[str]) -> None:
    stage = Stage(100, rows)
    assert stage.places.make_room(number) is bool(expected)
    assert stage.evicted == expected


def test_a_connection_that_is_being_set_up_is_not_asked_to_leave() -> None:
    places = Places(lambda: 1)
    places.take("a")
    assert not places.make_room()


def test_nobody_else_is_asked_while_somebody_is_leaving() -> None:
    stage = Stage(2, "a one 1\na two 2")
    assert stage.places.make_room() and stage.places.make_room()
    assert stage.evicted == ["one"]
    assert stage.places.is_full()

    called: list[str] = []
    stage.places.when_left(lambda: called.append("resumed"))
    stage.places.leave(stage.of["one"])

    assert called == ["resumed"] and not stage.places.is_full()
    assert stage.places.make_room()
    assert stage.evicted == ["one", "two"]


def test_of_many_some_make_room_at_once() -> None:
    stage = Stage(128, "\n".join(f"a n{number} {number}" for number in range(128)))
    stage.places.make_room()
    assert stage.evicted == ["n0", "n1"]


def test_three_quarters_are_for_one_holder() -> None:
    stage = Stage(8, "\n".join(f"a n{number} -" for number in range(5)))
    assert stage.places.make_share("a")
    stage.places.take("a")
    assert not stage.places.make_share("a")
    assert stage.places.make_share("b")


def test_a_client_that_turns_out_to_be_an_agents_counts_for_it() -> None:
    stage = Stage(8, "\n".join([*(f"agent n{number} -" for number in range(5)), "peer p1 -", "peer p2 -"]))
    assert stage.places.rename(stage.of["p1"], "agent")
    assert not stage.places.rename(stage.of["p2"], "agent"), "a seventh of six, and nobody of it idle"

    stage = Stage(8, "\n".join([*(f"agent n{number} {number}" for number in range(6)), "peer p1 -"]))
    assert stage.places.rename(stage.of["p1"], "agent"), "one of it was idle, and leaves"
    assert stage.evicted == ["n0"]
    assert stage.places.rename(stage.of["n0"], "other"), "who leaves is nobody's any more"


def test_a_limit_that_is_lowered_holds_at_once() -> None:
    limit = 3
    places = Places(lambda: limit)
    places.take("a")
    assert not places.is_full()
    limit = 1
    assert places.is_full()


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        pytest.param(16, LEAST_PLACES, id="next to none: a few all the same"),
        pytest.param(256, 64, id="ulimit -n 256"),
        pytest.param(1024, 320, id="the usual soft limit"),
        pytest.param(
            KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES - 1, MAX_PLACES - 1, id="one too few"
        ),
        pytest.param(KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES, MAX_PLACES, id="just enough"),
        pytest.param(1 << 20, MAX_PLACES, id="more than enough"),
        pytest.param(resource.RLIM_INFINITY, MAX_PLACES, id="no limit"),
    ],
)
def test_as_many_places_as_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert count_places() == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((256, 256), (256, 256), id="no more is to be had"),
        pytest.param((256, 1000), (1000, 1000), id="all there is, where that is too little"),
        pytest.param((256, 8000), (3136, 8000), id="as much as is needed"),
        pytest.param((5000, 8000), (5000, 8000), id="there is enough already"),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_needed(before: tuple[int, int], after: tuple[int, int]) -> None:
    code = (
        "import resource; from proxy_addons.engine.places import raise_descriptor_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, {before}); raise_descriptor_limit();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(after)
