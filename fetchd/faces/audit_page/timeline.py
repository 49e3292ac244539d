"""One fetch as a picture of its time: pure, a story in, bars out.

A hop's decision line is written when it is judged, with the look-up behind it; its close line has the milliseconds of
each phase. Hops follow each other, so a hop begins where its decision line says, less the time of its look-up.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fetchd.explaining.why import dialled_address, dropped_addresses, phases, returned_addresses, tls_facts
from proxy_addons.audit.reader import LogLine
from proxy_addons.audit.story import HopStory, Story

WIDTH: Final = 1_000.0
LEAST: Final = 4.0
"""A phase that took no time is still seen."""
PHASES: Final = (("dns", "look-up"), ("connect", "connect"), ("tls", "TLS"), ("first_byte", "waiting"))
REST: Final = ("rest", "receiving")


@dataclass(frozen=True, slots=True)
class Span:
    """One phase. left, width: in the drawing's units."""

    kind: str
    name: str
    ms: float
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the picture: a hop, or the daemon's call as a whole. about: what was asked, and the status."""

    name: str
    about: str
    start_ms: float
    total_ms: float | None
    refused: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """total_ms: its width."""

    total_ms: float
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class HopFacts:
    """A hop as the page writes it out."""

    number: str
    method: str
    url: str
    verdict: str
    rule: str
    detail: str
    would_refuse: str
    returned: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]
    dialled: str
    tls: tuple[str, str] | None
    status: int | None
    by: str
    media_type: str
    redirect_to: str
    request_bytes: int | None
    wire_bytes: int | None
    decoded_bytes: int | None
    phases: dict[str, float]
    missing: bool


def draw_timeline(story: Story) -> Timeline:
    """All hops, and the daemon's call if there is one, on one scale."""
    starts = [_start(hop.first, phases(hop.last)) for hop in story.hops]
    fetch = story.fetch
    call_ms = fetch.number("ms") if fetch is not None else None
    call_end = _millis(fetch) if fetch is not None else None
    begins = [one for one in starts if one is not None]
    if call_end is not None and call_ms is not None:
        begins.append(call_end - float(call_ms))
    origin = min(begins, default=0.0)
    ends = [
        start - origin + _total(phases(hop.last))
        for hop, start in zip(story.hops, starts, strict=True)
        if start is not None
    ]
    if call_end is not None:
        ends.append(call_end - origin)
    total = max([*ends, 0.1])
    scale = WIDTH / total
    lanes = []
    if fetch is not None and call_ms is not None and call_end is not None:
        start = max(0.0, call_end - float(call_ms) - origin)
        span = Span(
            "call", "the whole call", float(call_ms), start * scale, max(LEAST, float(call_ms) * scale)
        )
        lanes.append(Lane(fetch.text("tool") or "call", "", start, float(call_ms), False, (span,)))
    for hop, began in zip(story.hops, starts, strict=True):
        start = max(0.0, began - origin) if began is not None else 0.0
        name = f"hop {_number(hop)}"
        spent = phases(hop.last)
        about = [hop.first.text("method"), hop.first.text("url"), _whole(hop.last, "status")]
        said = " ".join(str(part) for part in about if part)
        lanes.append(Lane(name, said, start, spent.get("total"), hop.refused, _spans(hop, start, scale)))
    return Timeline(total, tuple(lanes))


def _spans(hop: HopStory, start: float, scale: float) -> tuple[Span, ...]:
    spent = phases(hop.last)
    spans = []
    at = start
    for kind, name in PHASES:
        ms = spent.get(kind)
        if ms is None:
            continue
        if kind == "first_byte":
            # Counted from the hop's beginning: what came before it is drawn already.
            ms = max(0.0, ms - (at - start))
        spans.append(_span(kind, name, ms, at, scale))
        at += ms
    rest = start + spent.get("total", 0.0) - at
    if hop.close is None:
        spans.append(_span("refusal" if hop.refused else "moment", "judging", max(0.0, rest), at, scale))
    elif rest > 0 or not spans:
        spans.append(_span(*REST, max(0.0, rest), at, scale))
    return tuple(spans)


def _span(kind: str, name: str, ms: float, start: float, scale: float) -> Span:
    width = min(WIDTH, max(LEAST, ms * scale))
    return Span(kind, name, ms, max(0.0, min(start * scale, WIDTH - width)), width)


def tell_hop(hop: HopStory) -> HopFacts:
    """Everything that its two lines say."""
    first, last = hop.first, hop.last
    verdict = "refused" if hop.refused else "open" if hop.open else last.text("verdict") or ""
    return HopFacts(
        _number(hop),
        first.text("method") or "",
        first.text("url") or "",
        verdict,
        last.text("rule") or "",
        last.text("detail") or "",
        first.text("would_refuse") or "",
        returned_addresses(hop),
        dropped_addresses(hop),
        dialled_address(hop) or "",
        tls_facts(hop),
        _whole(last, "status"),
        "the origin" if hop.close is not None else "the gateway",
        last.text("media_type") or "",
        last.text("redirect_to") or "",
        _whole(last, "request_bytes"),
        _whole(last, "wire_bytes"),
        _whole(last, "decoded_bytes"),
        phases(last),
        hop.decision is None,
    )


def _number(hop: HopStory) -> str:
    number = hop.first.number("hop")
    return "?" if number is None else str(int(number))


def _whole(line: LogLine, name: str) -> int | None:
    number = line.number(name)
    return None if number is None else int(number)


def _start(line: LogLine, spent: dict[str, float]) -> float | None:
    written = _millis(line)
    if written is None:
        return None
    if line.text("kind") == "close":
        return written - spent.get("total", 0.0)
    before = phases(line)
    return written - (before.get("total") or sum(before.get(kind, 0.0) for kind in ("dns", "connect", "tls")))


def _total(spent: dict[str, float]) -> float:
    return spent.get("total") or sum(spent.values())


def _millis(line: LogLine) -> float | None:
    try:
        return datetime.fromisoformat(line.time).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
