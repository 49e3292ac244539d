"""What a writer of the log says of itself: what it wrote, and what is not known to be on disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from proxy_addons.audit import AuditLog, AuditUnavailableError, Record
from tests.proxy_addons.audit.kit import (
    KEYS,
    Clock,
    Monotonic,
    close,
    decision,
    file_size_limit,
    open_log,
    raw_lines,
)


def test_lines_wait_until_an_fsync_has_worked(tmp_path: Path) -> None:
    monotonic = Monotonic()
    log = open_log(tmp_path, monotonic=monotonic)
    first = log.health
    assert (first.available, first.unsynced_lines, first.unsynced_seconds) == (True, 0, 0)
    assert first.lines == len(raw_lines(tmp_path)) and first.synced_at > 0
    log.append(decision())
    monotonic.now += 3
    log.append(decision())
    found = log.health
    assert (found.lines, found.unsynced_lines, found.unsynced_seconds) == (first.lines + 2, 2, 3)
    assert found.bytes == sum(map(len, raw_lines(tmp_path)))
    log.flush()
    assert (log.health.unsynced_lines, log.health.unsynced_seconds) == (0, 0)
    log.close()


def test_an_fsync_that_fails_leaves_them_waiting_and_is_counted(tmp_path: Path) -> None:
    broken, monotonic = [False], Monotonic()

    def fsync(_descriptor: int) -> None:
        if broken[0]:
            raise OSError(errno.EIO, "I/O error")

    log = open_log(tmp_path, fsync=fsync, monotonic=monotonic)
    log.append(decision())
    broken[0] = True
    monotonic.now += 2
    log.flush()
    log.flush()
    found = log.health
    assert (found.available, found.failures, found.unsynced_lines, found.unsynced_seconds) == (False, 2, 1, 2)
    broken[0] = False
    log.flush()
    assert (log.health.available, log.health.unsynced_lines, log.health.failures) == (True, 0, 2)
    log.close()


def test_what_is_written_while_the_disk_works_waits_for_the_next_time(tmp_path: Path) -> None:
    monotonic = Monotonic()

    def fsync(_descriptor: int) -> None:
        if log_box:
            monotonic.now += 1
            log_box.pop().append(decision())

    log_box: list[AuditLog] = []
    log = open_log(tmp_path, fsync=fsync, monotonic=monotonic)
    log.append(decision())
    log_box.append(log)
    log.flush()
    monotonic.now += 5
    assert (log.health.unsynced_lines, log.health.unsynced_seconds) == (1, 5)
    log.close()


def test_a_line_that_cannot_be_written_is_a_failure_and_no_line(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    before = log.health
    with file_size_limit(before.bytes), pytest.raises(AuditUnavailableError):
        log.append(decision())
    assert (log.health.failures, log.health.lines, log.health.available) == (1, before.lines, False)
    log.append(decision())
    log.close()


def test_observers_hear_of_what_was_written_and_of_nothing_else(tmp_path: Path) -> None:
    heard: list[Record] = []
    log = open_log(tmp_path, clock=Clock(), keys=KEYS)
    log.observe(heard.append)
    first, second = decision(), close(3)
    log.append(first)
    with file_size_limit(log.health.bytes), pytest.raises(AuditUnavailableError):
        log.append(decision())
    log.append(second)
    assert heard == [first, second]
    log.close()
