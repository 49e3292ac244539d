"""When a writer has to look after its files, and what it says of them. `retention` says which files go."""

from collections.abc import Sequence
from pathlib import Path

from proxy_addons.audit.chain import Head
from proxy_addons.audit.event_record import EventRecord, LogEvent
from proxy_addons.audit.moments import NANOSECONDS, render_time
from proxy_addons.audit.retention import DAY_SECONDS, LogFile, Retention, holds_records, read_start

HOUSEKEEPING_SECONDS = 60.0


class Housekeeping:
    """What a writer remembers for it. Times are the writer's: seconds of its pace, nanoseconds since 1970."""

    def __init__(self, now: float) -> None:
        self.keep = Retention()
        self.pruned: Head | None = None
        """Up to where this writer has said that the chain is removed."""
        self._at = now
        self._begun = ""  # time of the first line of the current file
        self._has_records = False  # in the current file, beside what the log says of itself

    def take(self, keep: Retention, now: float) -> None:
        """Other limits, to be seen to at once."""
        self.keep, self._at = keep, now

    def is_due(self, now: float) -> bool:
        return self.keep.sets_limits and now >= self._at

    def hurry(self, now: float) -> None:
        """There is reason to look now: a file is full."""
        self._at = now

    def done(self, now: float) -> None:
        self._at = now + HOUSEKEEPING_SECONDS

    def begin_file(self) -> None:
        self._begun, self._has_records = "", False

    def reopen_file(self, path: Path) -> None:
        """An earlier process began it. Raises OSError."""
        first = read_start(path)
        self._begun, self._has_records = first.time if first is not None else "", holds_records(path)

    def wrote(self, time: str) -> None:
        self._begun = self._begun or time

    def wrote_record(self) -> None:
        self._has_records = True

    def wants_new_file(self, now: int) -> bool:
        """With a limit of days no file grows for longer than a day, unless it says of nobody but the log."""
        yesterday = render_time(max(0, now - DAY_SECONDS * NANOSECONDS))
        return self.keep.keep_days is not None and self._has_records and self._begun <= yesterday


def say_pruned(files: Sequence[LogFile], through: Head, keep: Retention) -> EventRecord:
    """The line for people; the checkpoint behind it is the one that counts."""
    limits = [
        f"{keep.keep_days} days" if keep.keep_days is not None else "",
        f"{keep.keep_bytes} bytes" if keep.keep_bytes is not None else "",
    ]
    names = f"{files[0].path.name} to {files[-1].path.name}" if len(files) > 1 else files[0].path.name
    return EventRecord(
        event=LogEvent.PRUNED,
        detail=f"{names} removed, lines to {through.seq}; kept: {', '.join(filter(None, limits))}",
        facts={
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "seq": through.seq,
            "hash": through.hash,
        },
    )


def say_lost(lost: int) -> EventRecord:
    """The line after a time in which the log could not be written."""
    detail = f"the log could not be written; lines lost: {lost}"
    return EventRecord(event=LogEvent.WRITING_RESUMED, detail=detail, facts={"lost": lost})
