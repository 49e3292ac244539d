"""A vendor's answer, read on the side as it passes: what it says of the web tools that it ran.

Bytes in, facts out; nothing here can hold up or change what passes. Everything is bounded: an event line, a whole
answer. What is malformed or endless is not read and `complete` stays false. What an answer says is `answer_facts`.
"""

import json
import re
from typing import Any, Protocol

from .answer_facts import TAKE_EVENT, TAKE_WHOLE, AnswerFacts
from .endpoints import BodyKind
from .json_text import has_too_many_parts, read_integer

MAX_LINE = 8 << 20
"""Of an event stream: a fetched page comes whole in one event."""
MAX_LINES = 1_000_000
"""Of one event stream: ten times what the longest answer has; a line costs a microsecond."""
MAX_WHOLE = 8 << 20
MAX_COMMAS = 200_000
"""Of what is parsed at once: twice those of 8 MiB of prose. More would be names and numbers, a second of parsing."""


class Reader(Protocol):
    """What reads one answer."""

    facts: AnswerFacts

    def feed(self, piece: bytes) -> None:
        """The next decoded bytes. Never raises."""

    def finish(self) -> None:
        """The answer is whole; whoever never calls this gets what was read until then."""

    @property
    def waiting(self) -> int:
        """Bytes that `finish` has still to read."""


def make_reader(kind: BodyKind, media_type: str) -> Reader | None:
    """The reader of an answer to such a request; None for a media type that holds none."""
    match media_type:
        case "text/event-stream":
            return EventStream(kind)
        case "application/json":
            return WholeAnswer(kind)
        case _:
            return None


class WholeAnswer:
    """A JSON answer, kept until it is whole."""

    def __init__(self, kind: BodyKind) -> None:
        self.facts = AnswerFacts()
        self._kind = kind
        self._kept = bytearray()
        self._size = 0

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_WHOLE:
            self._kept += piece
        else:
            self._kept.clear()

    @property
    def waiting(self) -> int:
        return len(self._kept)

    def finish(self) -> None:
        value = _read(self._kept)
        self._kept.clear()
        if isinstance(value, dict):
            TAKE_WHOLE[self._kind](self.facts, value)
            self.facts.complete = True


class EventStream:
    """Server-sent events, line by line (WHATWG HTML 9.2.6); an event of these vendors has one line of data."""

    waiting = 0

    def __init__(self, kind: BodyKind) -> None:
        self.facts = AnswerFacts()
        self._kind = kind
        self._rest = bytearray()
        """The line that has not ended. Not a list of pieces: of two octets, each would take thirty times as much."""
        self._size = 0
        self._skips = False
        """In the middle of a line that is too long."""
        self._missed = False
        self._ended = False
        self._lines = 0

    def feed(self, piece: bytes) -> None:
        if self._lines > MAX_LINES:
            self._missed = True
            self._rest.clear()
            return
        *lines, rest = _LINE_END.split(piece)
        self._lines += len(lines)
        for line in lines:
            self._end_line(line)
        if rest:
            self._keep(rest)

    def finish(self) -> None:
        self.facts.complete = self._ended and not self._missed

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_LINE:
            self._skips = True
            self._missed = True
            self._rest.clear()
        elif not self._skips:
            self._rest += part

    def _end_line(self, part: bytes) -> None:
        self._keep(part)
        line, skipped = bytes(self._rest), self._skips
        self._rest.clear()
        self._size, self._skips = 0, False
        if not skipped and line.startswith(b"data:"):
            self._take(line[5:].strip())

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._ended = True
            return
        if _TELLING[self._kind].search(data) is None:
            return
        event = _read(data)
        if isinstance(event, dict):
            self._ended |= TAKE_EVENT[self._kind](self.facts, event)
        else:
            self._missed = True


_LINE_END = re.compile(rb"\r\n|\n|\r")
_TELLING = {
    BodyKind.MESSAGES: re.compile(rb"message_|server_tool_use|_tool_result|citation|\"error\""),
    BodyKind.RESPONSES: re.compile(
        rb"output_item\.done|annotation|response\.(completed|incomplete|failed)|\"error\""
    ),
    BodyKind.CHAT: re.compile(rb"annotations|usage|finish_reason|\"error\""),
}
"""Events that can say something of interest: most are a word of text, and are not read further."""


def _read(data: bytes | bytearray) -> Any:
    if has_too_many_parts(data) or (len(data) > MAX_COMMAS and data.count(b",") > MAX_COMMAS):
        return None
    try:
        return json.loads(data, parse_int=read_integer)
    except (ValueError, RecursionError):
        return None
