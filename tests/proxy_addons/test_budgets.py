"""The ledger of budgets: one conformance run for both kinds, then what only the files have (SPEC 7)."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from proxy_addons.budget_files import SqliteBudgetLedger, create_scratch_file, prepare_days_file
from proxy_addons.budgets import BudgetLedger, BudgetLedgerError, MemoryBudgetLedger
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile

NOON = 20_000 * 86_400.0 + 43_200


class ManualClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def budgets(**limits: int) -> Profile:
    return replace(DEFAULT_PROFILE, **limits)  # type: ignore[arg-type]


MakeLedger = Callable[[str], BudgetLedger]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(5_000.0)


@pytest.fixture
def utc() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture(params=["memory", "sqlite"])
def worker(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, utc: ManualClock
) -> Iterator[MakeLedger]:
    """The ledger as the worker of this name opens it; all of them share one gateway's."""
    made: list[BudgetLedger] = []
    scratch, days = tmp_path / "scratch.db", tmp_path / "days.db"
    create_scratch_file(scratch)
    prepare_days_file(days)
    first: list[MemoryBudgetLedger] = []

    def open_it(owner: str) -> BudgetLedger:
        ledger: BudgetLedger
        if request.param == "sqlite":
            ledger = SqliteBudgetLedger(scratch, days, owner, clock=clock, utc=utc)
        else:
            ledger = MemoryBudgetLedger(owner, beside=first[0] if first else None, clock=clock, utc=utc)
            first.append(ledger)
        made.append(ledger)
        return ledger

    yield open_it
    for ledger in made:
        ledger.close()


def begin(ledger: BudgetLedger, profile: Profile, agent: str = "alice") -> int | None:
    """None when the hop began, else the seconds until it may."""
    return ledger.begin_hop(agent, profile, ledger.read_day(agent)).retry_after


class TestEveryLedger:
    def test_hops_under_way_are_counted_over_all_workers(self, worker: MakeLedger) -> None:
        one, other, profile = worker("gateway-0"), worker("gateway-1"), budgets(concurrent_hops=3)

        assert [begin(one, profile), begin(other, profile), begin(one, profile)] == [None] * 3
        assert [begin(one, profile), begin(other, profile)] == [1, 1]

    def test_a_hop_that_ended_makes_room_for_one_of_any_worker(self, worker: MakeLedger) -> None:
        one, other, profile = worker("gateway-0"), worker("gateway-1"), budgets(concurrent_hops=1)
        begin(one, profile)
        one.end_hop("alice")

        assert [begin(other, profile), begin(one, profile)] == [None, 1]

    def test_more_ends_than_beginnings_give_no_room_ahead(self, worker: MakeLedger) -> None:
        ledger, profile = worker("gateway-0"), budgets(concurrent_hops=1)
        for _ in range(3):
            ledger.end_hop("alice")

        assert [begin(ledger, profile), begin(ledger, profile)] == [None, 1]

    def test_a_worker_that_starts_has_nothing_under_way_and_others_keep_theirs(
        self, worker: MakeLedger
    ) -> None:
        one, other, profile = worker("gateway-0"), worker("gateway-1"), budgets(concurrent_hops=2)
        begin(one, profile)
        begin(other, profile)
        assert begin(other, profile) == 1

        again = worker("gateway-0")

        assert [begin(again, profile), begin(again, profile)] == [None, 1]

    def test_agents_never_share_a_count(self, worker: MakeLedger) -> None:
        ledger, profile = (
            worker("gateway-0"),
            budgets(concurrent_hops=1, requests_per_minute=1, bytes_per_day=9),
        )
        begin(ledger, profile)
        ledger.add_bytes("alice", 9)

        assert begin(ledger, profile, "alice") is not None
        assert [begin(ledger, profile, name) for name in ("bob", "Alice", "alic", "alicee")] == [None] * 4

    def test_never_more_than_the_limit_begin_in_sixty_seconds(
        self, worker: MakeLedger, clock: ManualClock
    ) -> None:
        one, other, profile = worker("gateway-0"), worker("gateway-1"), budgets(requests_per_minute=3)
        clock.now = 5_000.9
        assert [begin(one, profile), begin(other, profile), begin(one, profile)] == [None] * 3
        assert [begin(one, profile), begin(other, profile)] == [61, 61]

        clock.now = 5_060.9  # sixty seconds later to the moment, and still within the second
        assert begin(other, profile) == 1
        clock.now = 5_061.0
        assert [begin(other, profile) for _ in range(4)] == [None, None, None, 61]

    def test_a_refused_hop_is_not_counted(self, worker: MakeLedger, clock: ManualClock) -> None:
        ledger, profile = worker("gateway-0"), budgets(concurrent_hops=1, requests_per_minute=10)
        begin(ledger, profile)
        assert [begin(ledger, profile) for _ in range(20)] == [1] * 20
        ledger.end_hop("alice")

        for _ in range(9):
            assert begin(ledger, profile) is None
            ledger.end_hop("alice")
        assert begin(ledger, profile) == 61

    def test_bytes_are_of_a_day_of_utc(self, worker: MakeLedger, utc: ManualClock) -> None:
        one, other, profile = worker("gateway-0"), worker("gateway-1"), budgets(bytes_per_day=100)
        assert one.add_bytes("alice", 60).bytes == 60
        assert begin(other, profile) is None
        assert other.add_bytes("alice", 40).bytes == 100
        assert begin(one, profile) == 43_200

        utc.now = NOON + 43_200
        assert begin(one, profile) is None
        assert one.add_bytes("alice", 1).bytes == 1

    def test_a_clock_set_back_by_a_day_finds_that_day_as_it_was(
        self, worker: MakeLedger, utc: ManualClock
    ) -> None:
        ledger = worker("gateway-0")
        ledger.add_bytes("alice", 5)
        utc.now += 86_400
        ledger.add_bytes("alice", 7)
        utc.now -= 86_400
        assert ledger.read_day("alice").bytes == 5

    def test_what_a_profile_does_not_limit_is_not_counted(self, worker: MakeLedger) -> None:
        ledger = worker("gateway-0")
        begin(ledger, budgets(requests_per_minute=5))
        begin(ledger, budgets(bytes_per_day=5))

        assert begin(ledger, budgets(concurrent_hops=1)) is None
        assert begin(ledger, budgets(requests_per_minute=2)) is None
        assert begin(ledger, budgets(requests_per_minute=2)) == 61

    @pytest.mark.parametrize(
        "call",
        [
            pytest.param(lambda it: it.begin_hop("alice", budgets(concurrent_hops=1)), id="begin a hop"),
            pytest.param(lambda it: it.begin_hop("alice", budgets(requests_per_minute=1)), id="count a request"),
            pytest.param(lambda it: it.end_hop("alice"), id="end a hop"),
            pytest.param(lambda it: it.read_day("alice"), id="read a day"),
            pytest.param(lambda it: it.add_bytes("alice", 1), id="add bytes"),
        ],
    )  # fmt: skip
    def test_a_closed_ledger_raises(self, worker: MakeLedger, call: Callable[[BudgetLedger], object]) -> None:
        ledger = worker("gateway-0")
        ledger.close()
        ledger.close()

        with pytest.raises(BudgetLedgerError):
            call(ledger)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    scratch, days = tmp_path / "scratch.db", tmp_path / "state" / "budgets.db"
    days.parent.mkdir()
    create_scratch_file(scratch)
    prepare_days_file(days)
    return scratch, days


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_the_owners_alone(files: tuple[Path, Path]) -> None:
    with closing(SqliteBudgetLedger(*files, "gateway-0")) as ledger:
        ledger.begin_hop("alice", budgets(concurrent_hops=1))
        ledger.add_bytes("alice", 1)
        found = [*files[0].parent.glob("*.db*"), *files[1].parent.glob("*.db*")]
        assert len(found) == 6
        assert {mode(path) for path in found} == {0o600}


def test_bytes_outlive_a_start_and_the_rest_does_not(files: tuple[Path, Path]) -> None:
    profile = budgets(concurrent_hops=1, requests_per_minute=1, bytes_per_day=10)
    with closing(SqliteBudgetLedger(*files, "gateway-0")) as before:
        assert begin(before, profile) is None
        before.add_bytes("alice", 9)

    create_scratch_file(files[0])
    prepare_days_file(files[1])

    with closing(SqliteBudgetLedger(*files, "gateway-1")) as after:
        assert after.read_day("alice").bytes == 9
        assert begin(after, profile) is None


def test_old_days_are_dropped(files: tuple[Path, Path]) -> None:
    utc = ManualClock(NOON)
    with closing(SqliteBudgetLedger(*files, "gateway-0", utc=utc)) as ledger:
        for _ in range(10):
            ledger.add_bytes("alice", 1)
            utc.now += 86_400
    with closing(sqlite3.connect(files[1])) as db:
        assert db.execute("SELECT count(*) FROM day_bytes").fetchone() == (3,)


def test_old_seconds_are_dropped(files: tuple[Path, Path]) -> None:
    clock = ManualClock(1_000.0)
    with closing(SqliteBudgetLedger(*files, "gateway-0", clock=clock)) as ledger:
        for _ in range(200):
            ledger.begin_hop("alice", budgets(requests_per_minute=1_000))
            clock.now += 1
    with closing(sqlite3.connect(files[0])) as db:
        assert db.execute("SELECT count(*) FROM minute").fetchone() == (61,)


@pytest.mark.parametrize(
    ("number", "harm", "said"),
    [
        pytest.param(0, Path.unlink, "cannot be used", id="the scratch file is gone"),
        pytest.param(1, Path.unlink, "cannot be used", id="the file of days is gone"),
        pytest.param(0, create_scratch_file, "replaced while in use", id="another scratch file in its place"),
    ],
)
def test_a_file_that_is_harmed_while_in_use_raises(
    files: tuple[Path, Path], number: int, harm: Callable[[Path], None], said: str
) -> None:
    with closing(SqliteBudgetLedger(*files, "gateway-0")) as ledger:
        harm(files[number])
        with pytest.raises(BudgetLedgerError, match=said):
            begin(ledger, budgets(concurrent_hops=1))


def test_a_lock_that_is_never_let_go_raises(files: tuple[Path, Path]) -> None:
    with (
        closing(sqlite3.connect(files[0], autocommit=True)) as other,
        closing(SqliteBudgetLedger(*files, "gateway-0", busy_seconds=0.01)) as ledger,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BudgetLedgerError, match="locked"):
            ledger.begin_hop("alice", budgets(concurrent_hops=1))
        other.execute("ROLLBACK")
        assert begin(ledger, budgets(concurrent_hops=1)) is None


def test_a_worker_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(BudgetLedgerError):
        SqliteBudgetLedger(tmp_path / "a.db", tmp_path / "b.db", "gateway-0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"no database at all, but text", "not a database.*remove it", id="something else"),
        pytest.param(b"", "", id="empty, as after a crash while it was made: made whole"),
    ],
)
def test_a_days_file_is_used_or_complained_of(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "budgets.db"
    path.write_bytes(content * 100)
    if said:
        with pytest.raises(BudgetLedgerError, match=said):
            prepare_days_file(path)
    else:
        prepare_days_file(path)
        prepare_days_file(path)


def test_a_file_of_another_version_is_not_used(files: tuple[Path, Path]) -> None:
    with closing(sqlite3.connect(files[1], autocommit=True)) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(BudgetLedgerError, match="version 2, not 1"):
        prepare_days_file(files[1])
    with pytest.raises(BudgetLedgerError, match="version 2, not 1"):
        SqliteBudgetLedger(*files, "gateway-0")


_COUNT = """
import sys
from dataclasses import replace
from pathlib import Path
from proxy_addons.budget_files import SqliteBudgetLedger
from proxy_addons.policy.limits import DEFAULT_PROFILE

scratch, days, owner = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
ledger = SqliteBudgetLedger(scratch, days, owner)
profile = replace(DEFAULT_PROFILE, concurrent_hops=300)
begun = 0
for _ in range(300):
    begun += not ledger.begin_hop("alice", profile).refused
    ledger.add_bytes("alice", 3)
print(begun)
"""


def test_processes_side_by_side_share_the_last_place_and_lose_no_byte(files: tuple[Path, Path]) -> None:
    arguments = [sys.executable, "-c", _COUNT, *map(os.fspath, files)]
    running = [
        subprocess.Popen([*arguments, f"gateway-{n}"], stdout=subprocess.PIPE, text=True) for n in range(3)
    ]
    begun = [int(process.communicate()[0]) for process in running]

    assert sum(begun) == 300
    with closing(SqliteBudgetLedger(*files, "gateway-9")) as ledger:
        assert ledger.read_day("alice").bytes == 3 * 3 * 300
