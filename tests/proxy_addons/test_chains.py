"""The redirect ledger: one conformance run for both kinds, then what only the shared file has (SPEC 1.4)."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy_addons.chains import (
    LIFETIME_NS,
    MAX_ENTRIES,
    ChainLedger,
    LedgerError,
    MemoryLedger,
    SqliteLedger,
    create_ledger_file,
)
from proxy_addons.shared_file import BUSY_SECONDS

SECOND = 1_000_000_000
PAGE = "https://a.example/page?x=1"


class ManualClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds


MakeLedger = Callable[..., ChainLedger]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def make_ledger(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[MakeLedger]:
    made: list[ChainLedger] = []

    def make(**limits: int) -> ChainLedger:
        ledger: ChainLedger
        if request.param == "memory":
            ledger = MemoryLedger(clock=clock, **limits)
        else:
            path = tmp_path / f"chains-{len(made)}.db"
            create_ledger_file(path)
            ledger = SqliteLedger(path, clock=clock, **limits)
        made.append(ledger)
        return ledger

    yield make
    for ledger in made:
        ledger.close()


@pytest.fixture
def ledger(make_ledger: MakeLedger) -> ChainLedger:
    return make_ledger()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chains.db"
    create_ledger_file(path)
    return path


OpenLedger = Callable[..., SqliteLedger]


@pytest.fixture
def open_ledger() -> Iterator[OpenLedger]:
    """Opens an existing file, as a worker does."""
    opened: list[SqliteLedger] = []

    def open_it(
        path: Path, *, busy_seconds: float = BUSY_SECONDS, lifetime_ns: int = LIFETIME_NS
    ) -> SqliteLedger:
        ledger = SqliteLedger(path, busy_seconds=busy_seconds, lifetime_ns=lifetime_ns)
        opened.append(ledger)
        return ledger

    yield open_it
    for ledger in opened:
        ledger.close()


def run_sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, autocommit=True)) as db:
        db.execute(statement)


class TestEveryLedger:
    def test_a_request_nobody_redirected_starts_a_chain(self, ledger: ChainLedger) -> None:
        assert ledger.take("agent", PAGE) == 0

    def test_an_entry_serves_the_first_matching_request_and_no_second(self, ledger: ChainLedger) -> None:
        ledger.remember("agent", PAGE, 3)

        assert [ledger.take("agent", PAGE), ledger.take("agent", PAGE)] == [3, 0]

    @pytest.mark.parametrize(
        ("agent", "target", "hop"),
        [
            pytest.param("agent", PAGE, 2, id="the same agent and target match"),
            pytest.param("agent", f"{PAGE}#part", 2, id="a fragment in the request is no part of the target"),
            pytest.param("agent", f"{PAGE}#", 2, id="an empty fragment is no part of the target either"),
            pytest.param("other", PAGE, 0, id="another agent does not continue this agent's chain"),
            pytest.param("Agent", PAGE, 0, id="agent names are told apart by letter case"),
            pytest.param("agent", "https://a.example/page?x=2", 0, id="another query is another target"),
            pytest.param("agent", "https://a.example/page", 0, id="no query is another target"),
            pytest.param("agent", "http://a.example/page?x=1", 0, id="another scheme is another target"),
            pytest.param("agent", "https://b.example/page?x=1", 0, id="another host is another target"),
            pytest.param("agenth", "ttps://a.example/page?x=1", 0, id="agent and target do not run together"),
            pytest.param("", PAGE, 0, id="no agent name is a name of its own"),
            pytest.param("\udcff", PAGE, 0, id="a name that is not valid text is a name like any other"),
        ],
    )
    def test_match(self, ledger: ChainLedger, agent: str, target: str, hop: int) -> None:
        ledger.remember("agent", PAGE, 2)

        assert ledger.take(agent, target) == hop

    def test_a_fragment_in_the_redirect_is_no_part_of_the_target(self, ledger: ChainLedger) -> None:
        ledger.remember("agent", f"{PAGE}#part", 2)

        assert ledger.take("agent", PAGE) == 2

    @pytest.mark.parametrize(
        ("age_ns", "hop"),
        [
            pytest.param(0, 1, id="an entry counts at once"),
            pytest.param(30 * SECOND - 1, 1, id="one nanosecond before 30 s it still counts"),
            pytest.param(30 * SECOND, 0, id="at exactly 30 s it is gone"),
            pytest.param(31 * SECOND, 0, id="after 30 s it stays gone"),
        ],
    )
    def test_lifetime(self, ledger: ChainLedger, clock: ManualClock, age_ns: int, hop: int) -> None:
        ledger.remember("agent", PAGE, 1)
        clock.advance(age_ns)

        assert ledger.take("agent", PAGE) == hop

    def test_the_highest_hop_goes_first_so_that_a_side_request_cannot_shorten_a_chain(
        self, ledger: ChainLedger
    ) -> None:
        for hop in (1, 5, 2, 5):
            ledger.remember("agent", PAGE, hop)

        assert [ledger.take("agent", PAGE) for _ in range(5)] == [5, 5, 2, 1, 0]

    def test_an_expired_higher_hop_does_not_hide_a_live_lower_one(
        self, ledger: ChainLedger, clock: ManualClock
    ) -> None:
        ledger.remember("agent", PAGE, 5)
        clock.advance(20 * SECOND)
        ledger.remember("agent", PAGE, 1)
        clock.advance(10 * SECOND)

        assert [ledger.take("agent", PAGE), ledger.take("agent", PAGE)] == [1, 0]

    def test_of_equal_hops_the_oldest_goes_first(self, ledger: ChainLedger, clock: ManualClock) -> None:
        ledger.remember("agent", PAGE, 1)
        clock.advance(20 * SECOND)
        ledger.remember("agent", PAGE, 1)
        assert ledger.take("agent", PAGE) == 1
        clock.advance(10 * SECOND)

        assert ledger.take("agent", PAGE) == 1

    def test_at_the_bound_nothing_is_lost_and_one_more_drops_the_oldest(
        self, make_ledger: MakeLedger
    ) -> None:
        ledger = make_ledger(max_entries=3)
        for number in range(3):
            ledger.remember("agent", f"https://a.example/{number}", 1)
        assert ledger.take("agent", "https://a.example/0") == 1
        ledger.remember("agent", "https://a.example/0", 2)  # now the newest; 1 is the oldest
        ledger.remember("agent", "https://a.example/3", 3)

        assert [ledger.take("agent", f"https://a.example/{number}") for number in range(4)] == [2, 0, 1, 3]

    def test_the_built_in_bound_is_ten_thousand(self, ledger: ChainLedger) -> None:
        for number in range(MAX_ENTRIES + 1):
            ledger.remember("agent", f"https://a.example/{number}", 1)

        assert MAX_ENTRIES == 10_000
        assert ledger.take("agent", "https://a.example/0") == 0
        assert ledger.take("agent", "https://a.example/1") == 1
        assert ledger.take("agent", f"https://a.example/{MAX_ENTRIES}") == 1

    def test_expired_entries_do_not_count_towards_the_bound(
        self, make_ledger: MakeLedger, clock: ManualClock
    ) -> None:
        ledger = make_ledger(max_entries=2)
        ledger.remember("agent", "https://a.example/0", 1)
        clock.advance(LIFETIME_NS - 1)
        ledger.remember("agent", "https://a.example/1", 1)
        clock.advance(1)
        ledger.remember("agent", "https://a.example/2", 1)

        assert [ledger.take("agent", f"https://a.example/{number}") for number in range(3)] == [0, 1, 1]

    @pytest.mark.parametrize("hop", [0, -1])
    def test_only_a_redirected_request_is_noted(self, ledger: ChainLedger, hop: int) -> None:
        with pytest.raises(ValueError, match="hop must be 1 or more"):
            ledger.remember("agent", PAGE, hop)

    def test_a_closed_ledger_knows_nothing_and_says_so(self, ledger: ChainLedger) -> None:
        ledger.close()
        ledger.close()

        with pytest.raises(LedgerError):
            ledger.take("agent", PAGE)
        with pytest.raises(LedgerError):
            ledger.remember("agent", PAGE, 1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.sampled_from(["/a", "/b"]), st.integers(1, 5)),
        st.tuples(st.just("take"), st.sampled_from(["/a", "/b"]), st.just(0)),
        st.tuples(st.just("advance"), st.just(""), st.integers(1, 4)),
    ),
    max_size=40,
)


@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_both_ledgers_give_the_answers_of_a_plain_list(
    tmp_path: Path, steps: list[tuple[str, str, int]]
) -> None:
    """Whatever is noted, taken and waited for: both kinds agree with a list that is searched whole."""
    clock = ManualClock()
    create_ledger_file(tmp_path / "chains.db")
    shared = SqliteLedger(tmp_path / "chains.db", clock=clock, lifetime_ns=6, max_entries=4)
    memory = MemoryLedger(clock=clock, lifetime_ns=6, max_entries=4)
    model: list[tuple[str, int, int]] = []
    for verb, target, number in steps:
        model = [entry for entry in model if entry[2] > clock()]
        if verb == "advance":
            clock.advance(number)
        elif verb == "remember":
            memory.remember("agent", target, number)
            shared.remember("agent", target, number)
            model = [*model, (target, number, clock() + 6)][-4:]
        else:
            found = max(
                (entry for entry in model if entry[0] == target), key=lambda entry: entry[1], default=None
            )
            if found is not None:
                model.remove(found)
            expected = 0 if found is None else found[1]
            assert (memory.take("agent", target), shared.take("agent", target)) == (expected, expected)
    shared.close()


class TestLedgerFile:
    def test_what_one_worker_notes_another_takes(self, open_ledger: OpenLedger, path: Path) -> None:
        first, second = open_ledger(path), open_ledger(path)
        first.remember("agent", PAGE, 4)

        assert [second.take("agent", PAGE), first.take("agent", PAGE)] == [4, 0]

    def test_a_new_file_has_none_of_the_old_entries(self, open_ledger: OpenLedger, path: Path) -> None:
        open_ledger(path).remember("agent", PAGE, 4)
        create_ledger_file(path)

        assert open_ledger(path).take("agent", PAGE) == 0

    def test_expired_entries_leave_the_file_with_the_next_one_noted(
        self, path: Path, clock: ManualClock
    ) -> None:
        with closing(SqliteLedger(path, clock=clock)) as ledger:
            for target in ("https://a.example/1", "https://a.example/2"):
                ledger.remember("agent", target, 1)
            clock.advance(LIFETIME_NS)
            ledger.remember("agent", PAGE, 1)
            with closing(sqlite3.connect(path)) as db:
                (count,) = db.execute("SELECT count(*) FROM entry").fetchone()

        assert count == 1

    def test_no_url_and_no_agent_name_is_on_disk(self, open_ledger: OpenLedger, path: Path) -> None:
        ledger = open_ledger(path)
        ledger.remember("agent-seven", "https://a.example/reset?token=hunter2", 1)
        files = list(path.parent.iterdir())

        assert {file.name for file in files} == {"chains.db", "chains.db-wal", "chains.db-shm"}
        for secret in (b"agent-seven", b"a.example", b"hunter2"):
            assert not any(secret in file.read_bytes() for file in files)

    def test_every_file_is_the_owners_alone_whatever_the_umask(
        self, open_ledger: OpenLedger, tmp_path: Path
    ) -> None:
        path = tmp_path / "chains.db"
        umask = os.umask(0)
        try:
            create_ledger_file(path)
            open_ledger(path).remember("agent", PAGE, 1)
        finally:
            os.umask(umask)

        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}

    def test_a_name_with_marks_that_uris_give_a_meaning_is_a_plain_name(
        self, open_ledger: OpenLedger, tmp_path: Path
    ) -> None:
        path = tmp_path / "state?mode=memory#50%25 of it.db"
        create_ledger_file(path)
        open_ledger(path).remember("agent", PAGE, 1)

        assert open_ledger(path).take("agent", PAGE) == 1


class TestFailsClosed:
    """A ledger that cannot answer raises; 0 would turn every redirect into the start of a chain."""

    def test_a_missing_file_is_not_made_by_a_worker(self, open_ledger: OpenLedger, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match=r"chains\.db cannot be used .*restart the gateway"):
            open_ledger(tmp_path / "chains.db")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"no database, just some text\n" * 200, id="a text file is no ledger"),
            pytest.param(b"", id="an empty file is no ledger"),
        ],
    )
    def test_a_file_of_another_kind_is_refused(
        self, open_ledger: OpenLedger, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "chains.db"
        path.write_bytes(content)

        with pytest.raises(LedgerError, match="cannot be used"):
            open_ledger(path)

    def test_a_ledger_of_another_version_is_refused(self, open_ledger: OpenLedger, path: Path) -> None:
        run_sql(path, "PRAGMA user_version = 99")

        with pytest.raises(LedgerError, match="version 99, not 1"):
            open_ledger(path)

    def test_a_directory_that_is_missing_is_named_when_the_file_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match="see that its directory exists"):
            create_ledger_file(tmp_path / "missing" / "chains.db")

    @pytest.mark.parametrize("harm", ["removed", "replaced", "emptied of its table"])
    def test_a_file_lost_while_in_use_stops_both_calls(
        self, open_ledger: OpenLedger, path: Path, harm: str
    ) -> None:
        ledger = open_ledger(path)
        ledger.remember("agent", PAGE, 5)
        if harm == "removed":
            path.unlink()
        elif harm == "replaced":
            create_ledger_file(path)
        else:
            run_sql(path, "DROP TABLE entry")

        with pytest.raises(LedgerError):
            ledger.take("agent", PAGE)
        with pytest.raises(LedgerError):
            ledger.remember("agent", PAGE, 5)

    def test_a_writer_that_never_ends_stops_who_has_to_write_but_no_first_request(
        self, open_ledger: OpenLedger, path: Path
    ) -> None:
        ledger = open_ledger(path, busy_seconds=0.001)
        ledger.remember("agent", PAGE, 1)
        stuck = sqlite3.connect(path, autocommit=True)
        stuck.execute("BEGIN IMMEDIATE")

        with pytest.raises(LedgerError, match="locked"):
            ledger.remember("agent", PAGE, 2)
        with pytest.raises(LedgerError, match="locked"):
            ledger.take("agent", PAGE)
        assert ledger.take("agent", "https://a.example/first") == 0

        stuck.execute("ROLLBACK")
        stuck.close()
        assert [ledger.take("agent", PAGE), ledger.take("agent", PAGE)] == [1, 0]

    def test_an_entry_that_could_not_be_kept_leaves_no_transaction_open(
        self, open_ledger: OpenLedger, path: Path
    ) -> None:
        ledger, other = open_ledger(path), open_ledger(path, busy_seconds=0.001)
        run_sql(path, "CREATE TRIGGER full BEFORE INSERT ON entry BEGIN SELECT RAISE(FAIL, 'no room'); END")

        with pytest.raises(LedgerError, match="no room"):
            ledger.remember("agent", PAGE, 1)
        run_sql(path, "DROP TRIGGER full")
        other.remember("agent", PAGE, 2)
        assert ledger.take("agent", PAGE) == 2


WORKER = """
import sys
from pathlib import Path
from proxy_addons.chains import SqliteLedger

path, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
# The two do nothing but write, which no gateway does: far more waiting than the built-in time is for.
ledger = SqliteLedger(path, busy_seconds=60, lifetime_ns=3_600 * 10**9)
print("ready", flush=True)
sys.stdin.readline()
for hop in range(first, first + count):
    ledger.remember("agent", "https://a.example/", hop)
    for taken in (ledger.take("agent", "https://a.example/"), ledger.take("agent", "https://b.example/")):
        if taken:
            print(taken)
"""


def test_two_processes_consume_each_entry_exactly_once(path: Path, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(path, lifetime_ns=3_600 * SECOND)
    for hop in range(1, 401):
        ledger.remember("agent", "https://b.example/", hop)
    root = Path(__file__).parents[2]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(first), "400"],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (1_001, 2_001)
    ]
    taken: list[int] = []
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        output, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        taken += map(int, output.split())
    for target in ("https://a.example/", "https://b.example/"):
        while hop := ledger.take("agent", target):
            taken.append(hop)

    assert Counter(taken) == Counter([*range(1, 401), *range(1_001, 1_401), *range(2_001, 2_401)])
