"""The audit log on standard output, for whoever collects what a container prints.

A thread of its own reads the files and writes them there (`proxy_addons.audit.shipping`). A pipe that is full holds
up this thread and nothing else; one that is closed ends it, with a word in the program's own log. The files are the
log.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proxy_addons.audit.shipping import Shipper

POLL_SECONDS: Final = 0.2
SAVE_SECONDS: Final = 1.0
"""What a killed process may print twice."""
STOP_SECONDS: Final = 5.0
"""For the last lines, when all writers have ended; what is not taken then is printed after the next start."""

_log = logging.getLogger(__name__)


@contextmanager
def audit_output(directory: Path, descriptor: int = 1) -> Iterator[None]:
    """Prints the log's lines to `descriptor` while the context lasts, and what is left at its end. Raises OSError."""
    printer = _Printer(Shipper(directory, lambda lines: write_all(descriptor, lines)))
    thread = threading.Thread(target=printer.run, name="audit-output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        printer.stopping.set()
        thread.join(STOP_SECONDS)
        if thread.is_alive():
            _log.warning("standard output takes no lines; those of the audit log go on after the next start")


def write_all(descriptor: int, data: bytes) -> None:
    """All of it, however slowly it is taken. Raises OutputClosedError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # somebody made it non-blocking, for whom it is open too
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll()
        except OSError as error:
            raise OutputClosedError(error.strerror or str(error)) from None


class OutputClosedError(Exception):
    """Whoever read the output is gone; the text says what the system said."""


class _Printer:
    def __init__(self, shipper: Shipper) -> None:
        self._shipper = shipper
        self._saved_at = time.monotonic()
        self._failing = False
        self.stopping = threading.Event()

    def run(self) -> None:
        """Until `stopping` is set and nothing is left."""
        while True:
            ending = self.stopping.is_set()
            try:
                more = self._shipper.turn()
            except OutputClosedError as error:
                _log.error("the audit log is no longer printed: %s; it goes on in its files", error)
                return
            except OSError as error:  # no descriptors left, say; what is there stays to be printed
                more = False
                if not self._failing:
                    _log.warning("the audit log cannot be read to be printed: %s", error.strerror or error)
                self._failing = True
            else:
                self._failing = False
            self._save(ending and not more)
            if more:
                continue
            if ending:
                return
            self.stopping.wait(POLL_SECONDS)

    def _save(self, at_once: bool) -> None:
        now = time.monotonic()
        if not at_once and now - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = now
        try:
            self._shipper.save()
        except OSError as error:  # a full disk; lines are printed all the same, and some of them again later
            _log.warning("the place in the audit log could not be kept: %s", error.strerror or error)
