"""An agent's run out of the audit log: every chain walked once, the lines of one agent added up.

    lines of one agent ── decision and close joined ──► Usage ── policy.suggestions ──► the smallest profile

A line is parsed only if the agent's name stands in its bytes, so that a long log costs its reading and little more.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from json import dumps
from pathlib import Path
from typing import Final

from proxy_addons.audit.files import list_files, read_lines
from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.reader import LogLine, merge_chains, parse_log_line
from proxy_addons.policy.config import Config
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.reading import PAGE_READ
from proxy_addons.policy.redirects import next_method
from proxy_addons.policy.targets import Target, TargetParseError, parse_target
from proxy_addons.policy.usage import Place, Usage, note
from proxy_addons.policy.verdicts import Outcome

MAX_UNDER_WAY: Final = 100_000
"""Requests held back for their close lines; a gateway has far fewer, and what is older was killed."""
_SWITCHING: Final = 101
_TELL_BYTES: Final = 4 << 20

type Tell = Callable[[int, int], None]
"""Told of progress: bytes read, bytes in all."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the log by time, RFC 3339 in UTC as the log has it; "" for no bound."""

    since: str = ""
    until: str = ""

    def holds(self, time: str) -> bool:
        """Whether `time` lies in it."""
        return time >= self.since and (not self.until or time < self.until)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a close line does not repeat of its decision."""

    method: str
    read: bool
    shown: str


@dataclass(slots=True)
class Run:
    """What was found: `usage`, and `lines` of the agent that were taken."""

    usage: Usage = field(default_factory=Usage)
    lines: int = 0
    profile: str | None = None
    """The last that judged the agent; page reads name none of their own."""
    policy: str | None = None


def read_run(directory: Path, agent: str, span: Span, tell: Tell | None = None) -> Run:
    """The run of `agent`, as the log calls it. Raises OSError."""
    reader = _Reader(agent, span)
    files = list_files(directory)
    total = sum(file.path.stat().st_size for chain in files.values() for file in chain)
    progress = _Progress(total, tell)
    needle = f'"agent":{dumps(agent)}'.encode()

    def read(series: str) -> Iterator[LogLine]:
        for file in files[series]:
            for _, raw in read_lines(file.path):
                progress.count(len(raw))
                if needle in raw and raw.endswith(b"\n"):
                    yield parse_log_line(series, raw)

    for line in merge_chains(read(series) for series in files):
        reader.take(line)
    progress.end()
    return reader.run


class _Progress:
    def __init__(self, total: int, tell: Tell | None) -> None:
        self._total, self._tell = total, tell
        self._read = self._told = 0

    def count(self, size: int) -> None:
        self._read += size
        if self._tell is not None and self._read - self._told >= _TELL_BYTES:
            self._told = self._read
            self._tell(self._read, max(self._total, self._read))

    def end(self) -> None:
        if self._tell is not None:
            self._tell(self._read, self._read)


class _Reader:
    """Lines by time → a run. What is no line of ours adds nothing."""

    def __init__(self, agent: str, span: Span) -> None:
        self._agent, self._span = agent, span
        self._under_way: OrderedDict[tuple[str, int], _Asked] = OrderedDict()
        self.run = Run()

    def take(self, line: LogLine) -> None:
        if line.text("agent") != self._agent:
            return
        if line.text("kind") == LineKind.CLOSE:  # of a request in the span, whenever it ended
            self._take_close(line)
        elif self._span.holds(line.time):
            match line.text("kind"):
                case LineKind.DECISION:
                    self.run.lines += 1
                    self._take_decision(line)
                case LineKind.WEB:
                    self.run.lines += 1
                    self._take_web(line)
                case LineKind.FETCH | LineKind.SEARCH:
                    self.run.lines += 1
                    self._take_call(line)

    def _take_decision(self, line: LogLine) -> None:
        usage, profile = self.run.usage, line.text("profile") or ""
        read = profile == PAGE_READ
        if not read:
            self._note_profile(profile, line)
        method, shown = line.text("method") or "", line.text("url") or ""
        if line.text("verdict") != Outcome.ALLOWED:
            self._refused(line, f"{method} {shown}".strip())
            return
        target = _target(shown)
        seq = line.number("seq")
        if target is None or not method or seq is None:
            usage.unreadable += 1
            return
        would = line.text("would_refuse") is not None
        place = usage.take_request(target, method, line.time, would_refuse=would, read=read)
        if place is not None:
            self._note_addresses(place, line)
        self._under_way[line.chain, int(seq)] = _Asked(method, read, target.display)
        if len(self._under_way) > MAX_UNDER_WAY:
            self._under_way.popitem(last=False)

    def _take_close(self, line: LogLine) -> None:
        asked = self._under_way.pop((line.chain, int(line.number("decision") or 0)), None)
        if asked is None:
            return
        self.run.lines += 1
        usage = self.run.usage
        usage.ended += 1
        body = _whole(line, "request_bytes")
        if body is None:
            usage.unsized += 1
        elif body:
            usage.bodies.take(line.time, f"{asked.method} {asked.shown}")
        if line.text("verdict") != Outcome.ALLOWED:
            self._refused(line, f"{asked.method} {asked.shown}")
            return
        status = int(line.number("status") or 0)
        if status == _SWITCHING:
            usage.upgrades.take(line.time, asked.shown)
        led_to = _target(line.text("redirect_to") or "")
        if led_to is not None:
            usage.take_redirect(
                led_to, next_method(status, asked.method), line.time, asked.shown, read=asked.read
            )
        seconds = None if asked.read or status == _SWITCHING else _total_seconds(line)
        usage.take_end(
            line.time,
            body=body,
            answer=None if asked.read else _whole(line, "decoded_bytes"),
            wire=_whole(line, "wire_bytes"),
            seconds=seconds,
        )

    def _take_call(self, line: LogLine) -> None:
        tool, profile = line.text("tool"), line.text("profile") or ""
        shown = line.text("url") or "no URL"
        if profile and not profile.startswith(PAGE_READ):
            self._note_profile(profile, line)
        if tool is None or not tool.isidentifier() or not tool.isascii():
            return
        note(self.run.usage.tools, tool, line.time, shown)
        # The limit is on the whole of a call here, its redirects together.
        milliseconds = line.number("ms")
        if tool != PAGE_READ and line.text("outcome") == "success" and milliseconds is not None:
            usage = self.run.usage
            usage.longest_seconds = max(usage.longest_seconds or 0.0, milliseconds / 1e3)

    def _take_web(self, line: LogLine) -> None:
        """What a vendor said of the web tools that it ran for the agent's model."""
        vendor, tools = line.text("vendor"), (line.members.get("declared"), line.members.get("calls"))
        if vendor is not None and any(isinstance(one, list) and one for one in tools):
            note(self.run.usage.web_tools, vendor, line.time, line.text("endpoint") or "")

    def _note_profile(self, profile: str, line: LogLine) -> None:
        self.run.profile, self.run.policy = profile, line.text("policy")
        note(self.run.usage.profiles, line.text("policy") or profile, line.time, line.text("url") or "")

    def _refused(self, line: LogLine, shown: str) -> None:
        note(self.run.usage.refused, line.text("rule") or "unknown", line.time, shown)

    def _note_addresses(self, place: Place, line: LogLine) -> None:
        found = line.members.get("addresses")
        returned = found.get("returned") if isinstance(found, dict) else None
        if isinstance(returned, list):
            texts = tuple(one for one in returned if isinstance(one, str) and len(one) < 64)
            self.run.usage.take_addresses(place, texts)


@lru_cache(maxsize=4096)
def _target(url: str) -> Target | None:
    try:
        return parse_target(url)
    except TargetParseError:
        return None


def _whole(line: LogLine, name: str) -> int | None:
    value = line.number(name)
    return int(value) if isinstance(value, int) and 0 <= value < 1 << 60 else None


def _total_seconds(line: LogLine) -> float | None:
    phases = line.members.get("ms")
    total = phases.get("total") if isinstance(phases, dict) else None
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 <= total < 1e9:
        return None
    return total / 1e3


def find_base(config: Config, run: Run, agent: str) -> Profile | None:
    """The profile that the run was judged under, as it is today; else that of the agent; None: neither is known."""
    known = config.agents.get(agent)
    names = [run.profile, known.profile if known is not None else None]
    return next(
        (config.profiles[name] for name in names if name is not None and name in config.profiles), None
    )
