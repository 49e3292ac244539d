"""Windows that many workers share: no more than there are, and none lost with a worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from proxy_addons.addons.decoder_slots import (
    GATEWAY_WINDOWS,
    CommonWindows,
    DecoderSlots,
    make_slots,
    share_windows,
)

_HOLD = """
import sys
from pathlib import Path
from proxy_addons.addons.decoder_slots import CommonWindows
print(CommonWindows(Path(sys.argv[1])).try_take(int(sys.argv[2])), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_worker(path: Path, windows: int) -> Iterator[bool]:
    """Whether another process could take so many windows, which it then holds until it is killed."""
    command = [sys.executable, "-c", _HOLD, str(path), str(windows)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline() == "True\n"
    finally:
        process.kill()
        process.communicate()


def test_all_workers_together_hold_no_more_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    with closing(CommonWindows(path)) as windows:
        with other_worker(path, 7) as took, other_worker(path, 2) as took_more:
            assert took and took_more
            assert not windows.try_take(2), "one is left, and two are taken together or not at all"
            assert windows.try_take(1)
            with other_worker(path, 1) as took_last:
                assert not took_last
            windows.give_back(1)
            with other_worker(path, 1) as took_last:
                assert took_last
        assert windows.try_take(GATEWAY_WINDOWS), "what killed workers held is free"


@pytest.mark.parametrize("workers", range(1, 65))
def test_a_gateway_of_any_size_has_so_many_windows(tmp_path: Path, workers: int) -> None:
    slots = make_slots(workers, tmp_path / "windows")
    own = share_windows(workers)
    assert (slots._common is None) is (own * workers <= GATEWAY_WINDOWS)
    if slots._common is not None:
        slots._common.close()


async def test_who_waits_for_common_windows_gets_them_and_a_cancelled_one_has_none(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    with closing(CommonWindows(path)) as common:
        slots = DecoderSlots(GATEWAY_WINDOWS, common)
        with other_worker(path, GATEWAY_WINDOWS - 1) as took:
            assert took
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await slots.take(2)
            await slots.take(1)
            slots.give_back(1)
            waiting = asyncio.create_task(slots.take(2))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        slots.give_back(2)
        await slots.take(GATEWAY_WINDOWS)
