"""The writer: one chain, whole lines, checkpoints when due, and what a full or failing disk does."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy_addons.audit import AuditLog, AuditUnavailableError
from proxy_addons.audit.moments import render_time
from tests.proxy_addons.audit.kit import (
    KEYS,
    SERIES,
    Monotonic,
    close,
    decision,
    event,
    file_size_limit,
    members,
    open_log,
    raw_lines,
    series_paths,
    verify,
    write_chain,
)


def kinds(directory: Path) -> list[str]:
    return [m.get("event") or m.get("reason") or m["kind"] for m in members(directory)]


def test_a_chain_begins_signed_and_ends_signed(tmp_path: Path) -> None:
    write_chain(tmp_path, 2)

    assert kinds(tmp_path) == ["opened", "start", "decision", "decision", "stop"]
    assert [m["seq"] for m in members(tmp_path)] == [1, 2, 3, 4, 5]
    assert verify(tmp_path).ok


def test_append_returns_the_number_of_its_line(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    numbers = [log.append(decision()), log.append(close(3)), log.append(event())]
    log.close()

    assert numbers == [3, 4, 5]
    assert [m["kind"] for m in members(tmp_path)[2:5]] == ["decision", "close", "event"]


def test_a_line_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(decision(url="https://example.com/now"))

    assert members(tmp_path)[-1]["url"] == "https://example.com/now"
    log.close()


def test_the_directory_and_its_files_are_closed_to_others(tmp_path: Path) -> None:
    write_chain(tmp_path / "audit", 1)

    assert (tmp_path / "audit").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "audit").iterdir() if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    "name", ["", "Gateway", "a/b", "../x", "a_b", "-a", "a-", "0a", "a--b", "a" * 65, "a\n"]
)
def test_a_bad_series_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a series name"):
        open_log(tmp_path, name)

    assert list(tmp_path.iterdir()) == []


# ---- checkpoints


@pytest.mark.parametrize(
    ("lines", "signed"), [(9, False), (10, True)], ids=["one line short", "at the count"]
)
def test_a_checkpoint_is_signed_at_the_line_count(tmp_path: Path, lines: int, signed: bool) -> None:
    log = open_log(tmp_path, checkpoint_lines=10)
    for _ in range(lines):
        log.append(decision())

    assert ("lines" in kinds(tmp_path)) is signed
    log.close()


@pytest.mark.parametrize(
    ("seconds", "lines", "signed"),
    [(59.9, 1, False), (60.0, 1, True), (600.0, 0, False)],
    ids=["before a minute", "after a minute", "never without new lines"],
)
def test_a_checkpoint_is_signed_each_minute(tmp_path: Path, seconds: float, lines: int, signed: bool) -> None:
    monotonic = Monotonic()
    log = open_log(tmp_path, monotonic=monotonic)
    for _ in range(lines):
        log.append(decision())
    monotonic.now = seconds
    log.flush()

    assert ("time" in kinds(tmp_path)) is signed
    log.close()


def test_the_head_file_follows_only_after_the_lines_are_durable(tmp_path: Path) -> None:
    """A head ahead of the disk would make a power cut look like a theft."""
    order: list[str] = []

    def log_head() -> str:
        path = tmp_path / f"{SERIES}.head"
        return path.read_text() if path.exists() else ""

    log = open_log(tmp_path, checkpoint_lines=2, fsync=lambda fd: order.append(log_head()))
    first = log_head()
    log.append(decision())
    log.append(decision())
    log.flush()

    assert order == ["", first]
    assert log_head() != first and log_head().encode() == raw_lines(tmp_path)[-1]
    log.close()


def test_rotation_signs_the_old_file_and_links_the_new_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, rotate_bytes=1500)
    while len(series_paths(tmp_path)) < 2:
        log.append(decision())
    log.close()

    first, second = (path.read_bytes().splitlines() for path in series_paths(tmp_path))
    assert b'"reason":"rotation"' in first[-1]
    assert b'"event":"file-begun"' in second[0]
    assert second[0].split(b'"prev":"')[1][:64] == first[-1].split(b'"hash":"')[1][:64]
    assert verify(tmp_path).ok


# ---- run


async def test_run_makes_lines_durable_and_ends_when_cancelled(tmp_path: Path) -> None:
    synced = asyncio.Event()
    loop = asyncio.get_running_loop()
    log = open_log(tmp_path, fsync_seconds=0.002, fsync=lambda fd: loop.call_soon_threadsafe(synced.set))
    task = asyncio.create_task(log.run())
    synced.clear()
    log.append(decision())
    async with asyncio.timeout(30):
        await synced.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    log.close()

    assert verify(tmp_path).ok


async def test_run_keeps_the_loop_free_while_the_disk_is_slow(tmp_path: Path) -> None:
    entered, leave = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    slow = threading.Event()

    def fsync(fd: int) -> None:
        if slow.is_set():
            loop.call_soon_threadsafe(entered.set)
            leave.wait(30)

    log = open_log(tmp_path, fsync_seconds=0.002, fsync=fsync)
    slow.set()
    log.append(decision())
    task = asyncio.create_task(log.run())
    async with asyncio.timeout(30):
        await entered.wait()
    log.append(decision())  # neither the loop nor append waits for the disk
    slow.clear()
    leave.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    log.close()

    assert verify(tmp_path).ok


# ---- refused writes


def test_a_line_the_system_takes_half_of_is_cut_back_and_the_chain_goes_on(tmp_path: Path) -> None:
    """EFBIG in the midst of a line: real refusal by the system, at every place within a line."""
    log = open_log(tmp_path)
    for extra in (0, 1, 100, 300):
        whole = series_paths(tmp_path)[0].read_bytes()
        with file_size_limit(len(whole) + extra):
            with pytest.raises(
                AuditUnavailableError, match=r"audit log gateway-0 cannot be written: File too large"
            ):
                log.append(decision())
            assert not log.available
        assert series_paths(tmp_path)[0].read_bytes() == whole
        log.append(decision())
        assert log.available
    log.close()

    assert verify(tmp_path).ok
    assert [m["facts"]["lost"] for m in members(tmp_path) if m.get("event") == "writing-resumed"] == [1] * 4


def test_lost_lines_are_counted_before_the_first_that_works(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with file_size_limit(series_paths(tmp_path)[0].stat().st_size):
        for _ in range(3):
            with pytest.raises(AuditUnavailableError):
                log.append(decision())
    log.append(decision(url="https://example.com/after"))
    log.close()

    note, line = members(tmp_path)[2:4]
    assert (note["event"], note["detail"]) == (
        "writing-resumed",
        "the log could not be written; lines lost: 3",
    )
    assert line["url"] == "https://example.com/after"


def test_flush_finds_out_that_there_is_room_again(tmp_path: Path) -> None:
    """Whoever asks `available` before appending must not wait for ever."""
    log = open_log(tmp_path)
    with file_size_limit(series_paths(tmp_path)[0].stat().st_size):
        with pytest.raises(AuditUnavailableError):
            log.append(decision())
        log.flush()
        assert not log.available
    log.flush()

    assert log.available
    log.close()
    assert verify(tmp_path).ok


def test_a_checkpoint_that_finds_no_room_is_made_up_for(tmp_path: Path) -> None:
    log = open_log(tmp_path, checkpoint_lines=2)
    log.append(decision())
    size = series_paths(tmp_path)[0].stat().st_size
    line = len(raw_lines(tmp_path)[-1])
    with file_size_limit(size + line + 50):
        assert log.append(decision()) == 4
        assert not log.available
    log.flush()
    assert log.available and "lines" not in kinds(tmp_path)[:4]
    log.close()

    assert verify(tmp_path).ok and "time" in kinds(tmp_path)


def test_no_room_at_rotation_refuses_and_recovers(tmp_path: Path) -> None:
    log = open_log(tmp_path, rotate_bytes=1)
    log.flush()
    with file_size_limit(10):
        for _ in range(2):
            with pytest.raises(AuditUnavailableError):
                log.append(decision())
    log.append(decision())
    log.close()

    assert verify(tmp_path).ok


class FailingSync:
    """fsync that fails while told to, as for a disk that reports errors."""

    def __init__(self) -> None:
        self.failing = False

    def __call__(self, fd: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)


def test_a_failing_fsync_makes_the_log_unavailable_until_one_works(tmp_path: Path) -> None:
    sync = FailingSync()
    log = open_log(tmp_path, fsync=sync)
    log.append(decision())
    sync.failing = True
    log.flush()
    assert not log.available
    with pytest.raises(AuditUnavailableError, match="Input/output error"):
        log.append(decision())
    log.flush()
    assert not log.available

    sync.failing = False
    log.flush()
    assert log.available
    log.append(decision())
    log.close()
    assert verify(tmp_path).ok
    assert [m["facts"]["lost"] for m in members(tmp_path) if m.get("event") == "writing-resumed"] == [1]


def test_lines_in_doubt_are_written_again_before_the_next_fsync(tmp_path: Path) -> None:
    """After a failed fsync the system takes the pages for clean, so only a fresh write makes them go."""
    sync = FailingSync()
    log = open_log(tmp_path, fsync=sync)
    log.append(decision())
    sync.failing = True
    log.flush()
    before = series_paths(tmp_path)[0].stat().st_mtime_ns
    os.utime(series_paths(tmp_path)[0], ns=(0, 0))
    sync.failing = False
    log.flush()

    assert series_paths(tmp_path)[0].stat().st_mtime_ns >= before  # written to, though no line was added
    log.close()
    assert verify(tmp_path).ok


def test_close_on_a_failing_disk_says_so_and_lets_go(tmp_path: Path) -> None:
    sync = FailingSync()
    log = open_log(tmp_path, fsync=sync)
    log.append(decision())
    sync.failing = True
    with pytest.raises(AuditUnavailableError, match="Input/output error"):
        log.close()
    log.close()  # a second time is nothing
    with pytest.raises(AuditUnavailableError, match="is closed"):
        log.append(decision())

    write_chain(tmp_path, 1)
    assert verify(tmp_path).ok


FULL_DISK = """
import sys
from pathlib import Path
from proxy_addons.audit import AuditUnavailableError
from tests.proxy_addons.audit.kit import KEYS, decision, open_log, verify

directory = Path(sys.argv[1])
log = open_log(directory / "audit", rotate_bytes=20_000, checkpoint_lines=10)
ballast = directory / "ballast"
ballast.write_bytes(bytes(64 << 10))
refused = 0
for turn in range(3):
    try:
        while True:
            log.append(decision())
            log.flush()
    except AuditUnavailableError as error:
        assert "No space left on device" in str(error), error
        refused += 1
    while not log.available:
        ballast.write_bytes(bytes(max(0, (40 << 10) - turn * (16 << 10))))
        log.flush()
    log.append(decision())
log.close()
report = verify(directory / "audit")
print(refused, report.ok, [str(f) for c in report.chains for f in c.findings])
"""


def test_a_full_file_system_refuses_and_the_chain_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """ENOSPC of a real file system of 192 KiB, mounted for a child process alone."""
    shell, unshare = shutil.which("sh"), shutil.which("unshare")
    if not shell or not unshare:
        pytest.skip("no unshare; the EFBIG tests above refuse real writes too")
    script = 'mount -t tmpfs -o size=192k tmpfs "$1" || exit 77; exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [unshare, "-rm", shell, "-c", script, "sh", str(tmp_path), sys.executable, FULL_DISK],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("mounting is not permitted here; the EFBIG tests above refuse real writes too")

    assert done.stdout.strip() == "3 True []", done.stderr


# ---- other hands


def test_two_writers_never_own_one_series(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(
        AuditUnavailableError, match=rf"audit series gateway-0 in .* by process {os.getpid()}"
    ):
        open_log(tmp_path)
    open_log(tmp_path, "gateway-1").close()
    log.close()

    open_log(tmp_path).close()
    assert verify(tmp_path).ok


def test_another_process_does_not_get_the_series_either(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.proxy_addons.audit.kit import open_log\n"
        "from proxy_addons.audit import AuditUnavailableError\n"
        "try: open_log(Path(sys.argv[1]))\n"
        "except AuditUnavailableError as error: print(error)"
    )
    log = open_log(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    log.close()

    assert f"is being written by process {os.getpid()}" in done.stdout


def test_a_log_file_removed_under_the_writer_is_left_for_a_new_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(decision())
    log.flush()
    series_paths(tmp_path)[0].unlink()
    log.append(decision())
    log.flush()
    log.append(decision(url="https://example.com/after"))
    log.close()

    assert [path.name for path in series_paths(tmp_path)] == ["gateway-0-000002.jsonl"]
    begun = members(tmp_path)[0]
    assert (begun["event"], begun["detail"]) == (
        "file-begun",
        "gateway-0-000001.jsonl was removed or replaced",
    )
    assert members(tmp_path)[1]["url"] == "https://example.com/after"
    assert verify(tmp_path).chains[0].findings[0].file == "gateway-0-000001.jsonl"


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(AuditUnavailableError, match="Not a directory"):
        open_log(tmp_path / "file" / "audit")


def test_a_failed_open_lets_go_of_the_series(tmp_path: Path) -> None:
    sync = FailingSync()
    sync.failing = True
    with pytest.raises(AuditUnavailableError, match="Input/output error"):
        open_log(tmp_path, fsync=sync)

    write_chain(tmp_path, 1)
    assert verify(tmp_path).ok


def test_lines_of_several_threads_make_one_chain(tmp_path: Path) -> None:
    log = open_log(tmp_path, checkpoint_lines=20, rotate_bytes=30_000)

    def write() -> None:
        for _ in range(100):
            log.append(decision())
            log.flush()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    assert verify(tmp_path).ok
    assert sum(m["kind"] == "decision" for m in members(tmp_path)) == 400


# ---- values


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=50)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(texts=st.lists(st.tuples(ANY_TEXT, st.integers(0, 3000)), max_size=5))
def test_any_values_make_lines_that_verify(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("any")
    log = AuditLog.open(directory, SERIES, KEYS, fsync=lambda fd: None)
    for text, repeat in texts:
        log.append(decision(agent=text, url=text, detail=text + "x" * repeat, method=text, rule=text))
        log.append(event(text, facts={text: text}))
    log.close()

    report = verify(directory)
    assert report.ok, report
    assert report.chains[0].lines == 3 * True + 2 * len(texts) - (0 if texts else 1)


@pytest.mark.parametrize(
    "record",
    [
        decision(
            url="https://ok.example/x?token=abc123&sig=zzz#frag",
            query_digest=KEYS.query_digest("token=abc123"),
        ),
        decision(
            url="https://blocked.example/?key=abc123", detail="host not allowed: https://b.example/?k=abc123"
        ),
        decision(detail="redirect from https://a.example/ to https://b.example/cb?code=abc123 refused: no"),
        close(3, detail="fetch failed for https://u:abc123@a.example/?code=abc123: network error"),
        event(detail="https://a.example/#abc123", facts={"url": "https://a.example/?abc123"}),
    ],
    ids=["an allowed URL", "a refused URL", "a redirect target", "an upstream failure", "an event"],
)
def test_no_query_secret_reaches_the_directory(tmp_path: Path, record: object) -> None:
    """C075, whatever the caller hands over."""
    log = open_log(tmp_path)
    log.append(record)  # type: ignore[arg-type]
    log.close()

    assert [path.name for path in tmp_path.iterdir() if b"abc123" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_767_225_600_000_001_999, "2026-01-01T00:00:00.000001Z"),
        (1_767_225_599_999_999_999, "2025-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_utc_with_microseconds(nanoseconds: int, text: str) -> None:
    assert render_time(nanoseconds) == text
