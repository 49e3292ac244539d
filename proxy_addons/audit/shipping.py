"""Hands every line of every chain on, in the order of its chain, to somebody who may be slow or not there.

The files are the log; this reads them behind their writers, so that nobody who takes lines can hold a writer up.
Lines go as they stand, whole, at least once: the place is kept in a file (the cursor), so that a new start goes on
where the last one ended. Lines that retention removed before they were taken are counted, in a line of their own:

    {"kind":"skipped","chain":"gateway-0","from":101,"to":340}
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from proxy_addons.audit.chain import MAX_LINE
from proxy_addons.audit.files import SeriesFile, list_files, replace_file

CURSOR_FILE = "stdout.cursor"
BLOCK_BYTES = MAX_LINE + 1
"""At least a line, so that a block without an end of line is none of ours."""

_SEQ = re.compile(rb'\{"kind":"[a-z]{1,16}","chain":"[a-z0-9-]{1,64}","seq":([0-9]{1,18}),')
_PLAIN = bytes(range(0x20, 0x7F)) + b"\n"
_OTHER = re.compile(rb"[^\x20-\x7e\n]")


@dataclass(slots=True)
class Place:
    """What of a chain was handed on: up to `offset` of file `number`; `seq` is the last line, 0 when not known."""

    number: int
    offset: int
    seq: int


class Shipper:
    """`take` gets whole lines, many at a time. One thread at a time."""

    def __init__(self, directory: Path, take: Callable[[bytes], None]) -> None:
        """Goes on where the cursor says; without one, behind what is there. Raises OSError."""
        self._directory, self._take = directory, take
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._saved: Mapping[str, object] | None = None
        found = _load_cursor(directory)
        if found is not None:
            self._places = found
            return
        self._places = {series: _end_of(files) for series, files in list_files(directory).items() if files}
        self.save()  # from here on nothing is left out, however this start ends

    def turn(self) -> bool:
        """Hand on what has come, of each chain a block at most; whether there may be more. Raises OSError."""
        more = False
        for series, files in list_files(self._directory).items():
            if files:
                place = self._places.setdefault(series, Place(0, 0, 0))
                if files[-1].number < place.number:  # all were taken away, and the writer began again
                    place.number, place.offset = 0, 0
                more |= self._advance(series, place, files)
        return more

    def save(self) -> None:
        """Keep the place on disk. Raises OSError."""
        now = {series: asdict(place) for series, place in self._places.items()}
        if now != self._saved:
            replace_file(self._directory / CURSOR_FILE, json.dumps(now).encode() + b"\n")
            self._saved = now

    def _advance(self, series: str, place: Place, files: list[SeriesFile]) -> bool:
        # `files` was listed before any is read, and a writer is done with a file when it begins the next.
        for file in files:
            if file.number < place.number:
                continue
            first = file.number > place.number
            try:
                block = _read_block(file.path, 0 if first else place.offset)
            except FileNotFoundError:  # removed by retention; the next file says how much went
                continue
            if first:
                place.number, place.offset = file.number, 0
            if block is None:  # shorter than what was handed on: a torn line, repaired
                place.offset = file.path.stat().st_size
            elif block:
                self._hand_on(series, place, block, begins=first)
                return True
        return False

    def _hand_on(self, series: str, place: Place, block: bytes, *, begins: bool) -> None:
        notice = b""
        found = _SEQ.match(block) if begins else None
        if found is not None and place.seq and int(found[1]) > place.seq + 1:
            gap = {"kind": "skipped", "chain": series, "from": place.seq + 1, "to": int(found[1]) - 1}
            notice = json.dumps(gap, separators=(",", ":")).encode() + b"\n"
        self._take(notice + _make_plain(block))
        place.offset += len(block)
        last = _SEQ.match(block, block.rfind(b"\n", 0, -1) + 1)
        if last is not None:
            place.seq = int(last[1])


def _read_block(path: Path, offset: int) -> bytes | None:
    """Whole lines from `offset` on; None: the file ends before."""
    with path.open("rb") as file:
        if file.seek(0, 2) < offset:
            return None
        file.seek(offset)
        block = file.read(BLOCK_BYTES)
    whole = block[: block.rfind(b"\n") + 1]
    if not whole and len(block) == BLOCK_BYTES:
        return block  # none of our lines is so long
    return whole


def _make_plain(block: bytes) -> bytes:
    """Our lines are printable ASCII. What somebody else put there is shown, and moves nobody's cursor."""
    if not block.translate(None, _PLAIN):
        return block
    return _OTHER.sub(lambda found: b"\\x%02x" % found[0][0], block)


def _end_of(files: list[SeriesFile]) -> Place:
    last = files[-1]
    content_end, seq = 0, 0
    with last.path.open("rb") as file:
        size = file.seek(0, 2)
        start = max(0, size - BLOCK_BYTES)
        file.seek(start)
        tail = file.read()
    end = tail.rfind(b"\n") + 1
    if end:
        content_end = start + end
        found = _SEQ.match(tail, tail.rfind(b"\n", 0, end - 1) + 1)
        seq = int(found[1]) if found is not None else 0
    return Place(last.number, content_end, seq)


def _load_cursor(directory: Path) -> dict[str, Place] | None:
    """None when there is none, or none that can be read. Raises OSError."""
    try:
        told = json.loads((directory / CURSOR_FILE).read_bytes())
        return {
            str(series): Place(int(place["number"]), int(place["offset"]), int(place["seq"]))
            for series, place in told.items()
        }
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
