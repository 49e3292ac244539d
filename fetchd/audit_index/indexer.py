"""The process that keeps the index: takes in what the log has, then what is written to it. Ends with its input.

    python -m fetchd.audit_index.indexer     one line of JSON on standard input: {"log": DIRECTORY, "index": FILE}

It is nice to others: the gateway's workers and the daemon come first. What goes wrong is one line on standard error
and exit status 1; whoever keeps it starts it again. A damaged index is removed on the way.
"""

import json
import os
import select
import signal
import sqlite3
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from .tail import find_gone, list_log, read_batches
from .writing import IndexWriter, is_damage, remove_index

POLL_SECONDS: Final = 0.25
NICE: Final = 10
MARK_POLLS: Final = 240
"""Polls between two looks whether files are still the same: a minute."""


def main() -> None:
    """Until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that keeps this one
    os.nice(NICE)
    words = json.loads(sys.stdin.readline())
    log, index = Path(words["log"]), Path(words["index"])
    try:
        run(log, index, is_over)
    except sqlite3.Error as error:
        if is_damage(error):
            remove_index(index)
        sys.exit(f"the index {index} cannot be written: {error}")
    except OSError as error:
        sys.exit(f"{error.filename or log}: {error.strerror or error}")


def is_over(seconds: float) -> bool:
    """Whether this process is to end; waits so long for it."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready)


def run(log: Path, index: Path, is_over: Callable[[float], bool]) -> None:
    """Takes in everything, again and again, until it is over. Raises sqlite3.Error, OSError."""
    writer = IndexWriter.open(index)
    try:
        for polls in count():
            take_in(writer, log, marks=polls % MARK_POLLS == 0, is_over=is_over)
            if is_over(POLL_SECONDS):
                return
    finally:
        writer.close()


def take_in(
    writer: IndexWriter, log: Path, *, marks: bool = True, is_over: Callable[[float], bool] = lambda _: False
) -> None:
    """What the log has by now. marks: look whether known files are still the same ones, or only whether they are
    there."""
    files = list_log(log)
    gone = find_gone(files, writer.known) if marks else [one for one in writer.known if one not in files]
    for key in gone:
        writer.forget(key)
    for batch in read_batches(files, writer.known):
        writer.take(batch)
        if is_over(0):
            return


if __name__ == "__main__":
    main()
