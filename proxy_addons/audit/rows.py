"""What a person reads: one row a hop, its decision and close lines joined; one a fetch, a search, an event.

Pure but for the lines it is given. Text stays as logged; whoever shows it makes it safe for his medium.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.reader import LogLine, read_number
from proxy_addons.policy.verdicts import Outcome

MAX_WAITING = 10_000
"""Decisions held back for their close line; beyond it the oldest is shown as still open."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table. `seq` is that of its first line; `open` = allowed, and no close line seen yet."""

    time: str
    chain: str
    seq: int
    kind: str
    agent: str
    method: str
    target: str
    verdict: str
    rule: str
    status: str
    bytes: int | None
    ms: float | None
    open: bool = False

    @property
    def refused(self) -> bool:
        return self.verdict in _REFUSED


_REFUSED = frozenset({Outcome.REFUSED.value, CallOutcome.SOFT.value, CallOutcome.HARD.value})


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Which lines and rows are wanted: of one agent, refused ones; both, none."""

    agent: str | None = None
    refused: bool = False

    def wants_row(self, row: Row) -> bool:
        return (self.agent is None or row.agent == self.agent) and (row.refused or not self.refused)

    def wants_line(self, line: LogLine) -> bool:
        """A single line: without a join, a decision that a later close line refuses counts as allowed."""
        verdict = line.text("verdict") or line.text("outcome")
        return (self.agent is None or line.text("agent") == self.agent) and (
            not self.refused or verdict in _REFUSED
        )


class RowJoiner:
    """Lines in order of time → rows.

    A refused hop, a fetch, a search and an event are rows at once; an allowed decision waits for its close line, or
    for `flush`.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, int], LogLine] = OrderedDict()
        self._shown: OrderedDict[tuple[str, int], LogLine] = OrderedDict()

    def accept(self, line: LogLine) -> Iterator[Row]:
        """The rows that `line` completes."""
        kind = line.text("kind")
        if kind == LineKind.CHECKPOINT:
            return
        if kind == LineKind.DECISION and line.text("verdict") == Outcome.ALLOWED:
            self._waiting[line.chain, _seq(line)] = line
            if len(self._waiting) > MAX_WAITING:
                yield self._show_open()
        elif kind == LineKind.CLOSE:
            place = _decision_of(line)
            yield join_row(self._waiting.pop(place, None) or self._shown.pop(place, None), line)
        else:
            yield join_row(line, None)

    def remember(self, decision: LogLine) -> None:
        """`decision` was shown as an open row; its close line, if it comes, makes a second row."""
        self._shown[decision.chain, _seq(decision)] = decision
        if len(self._shown) > MAX_WAITING:
            self._shown.popitem(last=False)

    def flush(self) -> Iterator[Row]:
        """The decisions still waiting, as open rows."""
        while self._waiting:
            yield self._show_open()

    def _show_open(self) -> Row:
        _, decision = self._waiting.popitem(last=False)
        self.remember(decision)
        return join_row(decision, None)


def join_backward(lines: Iterable[LogLine], joiner: RowJoiner) -> Iterator[Row]:
    """The lines of one chain from its last to its first → its rows in that order.

    `joiner` is told of hops that are still open.
    """
    closes: OrderedDict[tuple[str, int], LogLine] = OrderedDict()
    for line in lines:
        kind = line.text("kind")
        if kind == LineKind.CHECKPOINT:
            continue
        if kind == LineKind.CLOSE:
            closes[_decision_of(line)] = line
            if len(closes) > MAX_WAITING:
                yield join_row(None, closes.popitem(last=False)[1])
        elif kind == LineKind.DECISION:
            row = join_row(line, closes.pop((line.chain, _seq(line)), None))
            if row.open:
                joiner.remember(line)
            yield row
        else:
            yield join_row(line, None)
    for close in closes.values():
        yield join_row(None, close)


def join_row(line: LogLine | None, close: LogLine | None) -> Row:
    """A row of a first line, a close line, or both; one of the two is given."""
    first = line or close
    if first is None:
        raise ValueError("a row needs a line")
    last = close or first
    kind = first.text("kind") or "unreadable"
    return Row(
        time=first.time,
        chain=first.chain,
        seq=_seq(first),
        kind=kind,
        agent=first.text("agent") or "",
        method=first.text("method") or first.text("tool") or ("" if kind == LineKind.CLOSE else kind),
        target=_target(first),
        verdict=last.text("verdict") or last.text("outcome") or "",
        rule=last.text("rule") or last.text("failure") or first.text("would_refuse") or "",
        status=_text(last.number("status")),
        bytes=_int(_first_number(last, "decoded_bytes", "bytes", "wire_bytes")),
        ms=_milliseconds(last),
        open=kind == LineKind.DECISION and close is None and first.text("verdict") == Outcome.ALLOWED,
    )


def _target(line: LogLine) -> str:
    kind = line.text("kind")
    if kind == LineKind.EVENT:
        return ": ".join(part for part in (line.chain, line.text("event"), line.text("detail")) if part)
    if kind == LineKind.FETCH:
        return line.text("final_url") or line.text("url") or ""
    if kind == LineKind.SEARCH:
        return ": ".join(part for part in (describe_search(line), line.text("query")) if part)
    if kind == LineKind.ASK:
        return describe_ask(line)
    if kind == LineKind.WEB:
        return describe_web(line)
    if kind == LineKind.CLOSE:
        return f"(hop {_text(line.number('hop'))} of {line.text('fetch_id') or 'unknown'})"
    return line.text("url") or "" if kind else line.raw[:200].decode("latin-1")


def describe_search(line: LogLine) -> str:
    """Whom a search was put to, and what came of it."""
    parts = [line.text("provider") or "no provider asked"]
    if (rows := line.number("rows")) is not None:
        parts.append(f"{int(rows)} {'row' if rows == 1 else 'rows'}")
    if dropped := line.number("dropped"):
        parts.append(f"{int(dropped)} dropped")
    return ", ".join(parts)


def describe_ask(line: LogLine) -> str:
    """Which vendor was asked for a completion, or how a run ended."""
    step = _int(line.number("step"))
    what = f"step {step}" if step else "ended"
    ended = "" if step else f": {line.text('stop') or 'unknown'}"
    return f"run {line.text('run_id') or 'unknown'} {what}, {line.text('provider') or 'unknown'}{ended}"


def describe_web(line: LogLine) -> str:
    """What a vendor of models said of the web tools that it ran for an agent."""
    parts = [f"{line.text('vendor') or 'unknown'} {line.text('endpoint') or ''}".rstrip()]
    if line.members.get("narrowed") is True:
        parts.append("narrowed")
    calls = _objects(line.members.get("calls"))
    if calls:
        failed = [str(one["error"]) for one in calls if isinstance(one.get("error"), str)]
        parts.append(f"{len(calls)} {'call' if len(calls) == 1 else 'calls'} of web tools")
        parts += [f"failed: {', '.join(failed)}"] if failed else []
    cited = _objects(line.members.get("citations"))
    if cited:
        outside = sum(one.get("within_profile") is False for one in cited)
        parts.append(f"{len(cited)} cited" + (f" ({outside} outside the profile)" if outside else ""))
    if line.members.get("paused") is True:
        parts.append("paused")
    return ", ".join(parts)


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _seq(line: LogLine) -> int:
    return _int(line.number("seq")) or 0


def _decision_of(close: LogLine) -> tuple[str, int]:
    return close.chain, _int(close.number("decision")) or -_seq(close)


def _milliseconds(line: LogLine) -> float | None:
    phases = line.members.get("ms")
    value = read_number(phases.get("total") if isinstance(phases, dict) else phases)
    return None if value is None else float(value)


def _first_number(line: LogLine, *names: str) -> int | float | None:
    return next((value for name in names if (value := line.number(name)) is not None), None)


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)


def _text(value: float | None) -> str:
    return "" if value is None else str(int(value))
