"""Server-sent events, read as they arrive (WHATWG HTML, 9.2.6). Pure: bytes in, events out.

Lines end in LF, CR or CRLF, wherever a piece is cut. Comments, ids and retry times are passed over. An event that the
end of the stream leaves without its blank line is none.
"""

import re
from typing import Final

from .values import Event

_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the very end may be half of a CRLF."""
_BOM: Final = b"\xef\xbb\xbf"


class EventReader:
    """One stream. What it holds is bounded by whoever bounds the bytes fed to it."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._begun = False
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that are whole with this piece."""
        if not _may_end(data, self._rest):
            self._rest.append(data)
            return []
        text = b"".join((*self._rest, data))
        if not self._begun and len(text) >= len(_BOM):
            self._begun = True
            text = text.removeprefix(_BOM)
        events = []
        start = 0
        for found in _END.finditer(text):
            event = self._take_line(text[start : found.start()])
            start = found.end()
            if event is not None:
                events.append(event)
        self._rest = [text[start:]] if start < len(text) else []
        return events

    def _take_line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> Event | None:
        name, self._name = self._name, ""
        data, self._data = self._data, []
        return Event(name or "message", b"\n".join(data).decode("utf-8", "replace")) if data else None


def _may_end(data: bytes, rest: list[bytes]) -> bool:
    """Whether a line ends in this piece: else it is only laid beside the others, so that a long line costs no more
    than its length."""
    return b"\n" in data or b"\r" in data or (bool(rest) and rest[-1].endswith(b"\r"))
