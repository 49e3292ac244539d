"""A writer killed at any moment (SIGKILL) leaves a log that its next start repairs and that then verifies."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proxy_addons.audit import AuditKeys, verify_directory
from tests.proxy_addons.audit.kit import SERIES, members, open_log, series_paths, verify, write_chain

WRITER = """
import asyncio, sys
from pathlib import Path
from tests.proxy_addons.audit.kit import SERIES, decision, open_log
from proxy_addons.audit import AuditKeys

async def main():
    log = open_log(Path(sys.argv[1]), keys=AuditKeys.load_or_create(Path(sys.argv[2])), rotate_bytes=100_000,
                   checkpoint_lines=20, fsync_seconds=0.002)
    task = asyncio.create_task(log.run())
    while True:
        for _ in range(10):
            print(log.append(decision(detail="x" * 500)), flush=True)
        await asyncio.sleep(0)

asyncio.run(main())
"""


def kill_writers(directory: Path, rounds: int, seed: int) -> None:
    """Each writer is killed after a random number of lines it said were written, so at no line's boundary."""
    dice = random.Random(seed)
    logs, keys = directory / "audit", directory / "keys"
    written = 0
    for number in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(logs), str(keys)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(dice.choice([1, 2, 25, 80, 300])):
                written = int(writer.stdout.readline())
            writer.kill()
            rest = writer.stdout.read()
        written = max([written, *map(int, re.findall(r"(\d+)\n", rest))])
        if number % 5 == 0:
            # What a power cut adds to it: the unsynced end of the file is lost or never arrived whole.
            path = series_paths(logs)[-1]
            with path.open("ab") as file:
                file.write(dice.choice([b"{", bytes(300), path.read_bytes()[:700]]))

        loaded = AuditKeys.load_or_create(keys)
        open_log(logs, keys=loaded).close()
        report = verify_directory(logs, [loaded.public])
        assert report.ok, (number, [str(f) for chain in report.chains for f in chain.findings])
        assert {m["seq"] for m in members(logs)} >= set(range(1, written + 1)), (
            "a line said to be written is lost"
        )


def test_killed_writers_leave_a_log_that_verifies_after_repair(tmp_path: Path) -> None:
    kill_writers(tmp_path, rounds=6, seed=1)


@pytest.mark.soak
def test_many_killed_writers_leave_a_log_that_verifies_after_repair(tmp_path: Path) -> None:
    kill_writers(tmp_path, rounds=200, seed=2)


def test_a_crash_between_any_two_steps_of_the_first_start_is_survived(tmp_path: Path) -> None:
    """The files as they are after each step that a start takes, each taken for a crash."""
    write_chain(tmp_path / "whole", 0)
    line_files = series_paths(tmp_path / "whole")[0].read_bytes().splitlines(True)
    head = (tmp_path / "whole" / f"{SERIES}.head").read_bytes()
    steps: list[tuple[bytes, bytes | None]] = [
        (b"", None),
        (line_files[0], None),
        (b"".join(line_files[:2]), None),
        (b"".join(line_files[:2]), head),
    ]
    for number, (content, head_content) in enumerate(steps):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / f"{SERIES}-000001.jsonl").write_bytes(content)
        if head_content is not None:
            (directory / f"{SERIES}.head").write_bytes(head_content)
        (directory / f".{SERIES}.head.tmp").write_bytes(b"half")
        write_chain(directory, 1)

        assert verify(directory).ok, number
