"""What every audit sink does: the real one and the scripted one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from proxy_addons.audit import AuditSink, AuditUnavailableError, MemoryAuditLog
from tests.proxy_addons.audit.kit import (
    KEYS,
    SERIES,
    close,
    decision,
    event,
    file_size_limit,
    open_log,
    series_paths,
)

type Breaker = Callable[[], AbstractContextManager[None]]


@pytest.fixture(params=["files", "memory"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[AuditSink, Breaker]:
    """A sink, and how to make its lines unwritable for a while."""
    if request.param == "files":
        log = open_log(tmp_path)
        return log, lambda: file_size_limit(series_paths(tmp_path)[-1].stat().st_size)
    memory = MemoryAuditLog(SERIES, KEYS)

    @contextmanager
    def fail() -> Iterator[None]:
        memory.fail_next(1_000)
        yield
        memory.fail_next(0)

    return memory, fail


def test_lines_are_numbered_upwards(sink: tuple[AuditSink, Breaker]) -> None:
    log, _ = sink
    numbers = [log.append(record) for record in (decision(), close(1), event())]

    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2] and numbers[0] >= 1
    assert log.available and log.series == SERIES
    log.close()


def test_a_line_is_named_by_its_number_and_its_hash(sink: tuple[AuditSink, Breaker]) -> None:
    log, _ = sink
    first, second = log.append_line(decision()), log.append_line(decision())

    assert second.seq == first.seq + 1
    assert first.hash != second.hash and len(second.hash) == 64
    log.close()


def test_a_line_that_cannot_be_written_raises_and_the_next_may_work(sink: tuple[AuditSink, Breaker]) -> None:
    log, broken = sink
    first = log.append(decision())
    with broken():
        for _ in range(2):
            with pytest.raises(AuditUnavailableError, match=f"audit log {SERIES} cannot be written"):
                log.append(decision())
            assert not log.available
    assert log.append(decision()) > first
    assert log.available
    log.close()


def test_digests_are_those_of_the_keys(sink: tuple[AuditSink, Breaker]) -> None:
    log, _ = sink

    assert log.query_digest("a=b") == KEYS.query_digest("a=b")
    assert log.query_digest("") is None
    log.close()


def test_a_closed_sink_is_unavailable(sink: tuple[AuditSink, Breaker]) -> None:
    log, _ = sink
    log.close()
    log.close()

    assert not log.available
    with pytest.raises(AuditUnavailableError, match=f"audit log {SERIES} is closed"):
        log.append(decision())


async def test_run_goes_on_until_cancelled(sink: tuple[AuditSink, Breaker]) -> None:
    log, _ = sink
    task = asyncio.create_task(log.run())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    log.close()
