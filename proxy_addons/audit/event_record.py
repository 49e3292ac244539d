"""The audit line of what happened to a writer, its log or a connection, and is no hop and no call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.line_text import Json, render_members
from proxy_addons.audit.redaction import clip_text, round_ms, strip_message

MAX_FACTS = 16


class LogEvent(StrEnum):
    """The ``event`` member of lines the log writes about itself."""

    OPENED = "opened"
    RESUMED = "resumed"
    FILE_BEGUN = "file-begun"
    TORN_LINE = "torn-line"
    DAMAGE_FOUND = "damage-found"
    WRITING_RESUMED = "writing-resumed"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """Something that happened to the writer or its log: `event` is a stable code, `facts` are small."""

    kind: ClassVar[LineKind] = LineKind.EVENT

    event: str
    detail: str | None = None
    facts: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    def render(self) -> dict[str, Json]:
        facts: dict[str, Json] = {
            clip_text(name): _render_fact(value) for name, value in list(self.facts.items())[:MAX_FACTS]
        }
        return {"event": clip_text(str(self.event)), "detail": strip_message(self.detail), "facts": facts}

    def render_text(self) -> str:
        return render_members(self.render())


def _render_fact(value: str | int | float | bool | None) -> Json:
    if isinstance(value, str):
        return strip_message(value)
    if isinstance(value, float):
        return round_ms(value)
    return value
