"""The audit line of a model's answer: what a vendor of models said of the web tools that it ran for an agent.

It is the vendor's word, read as it passed; of the answer's text nothing stands here, of a cited page its address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.line_text import Json, render_members
from proxy_addons.audit.redaction import clip_optional, clip_text, strip_url

MAX_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRecord:
    """One for each answer of a model. `decision` is the seq of the hop's decision line in the same chain.

    declared: the web tools of the request, known where web tools are held; narrowed: whether the request was changed.
    calls: (tool, error, ended); citations: (address, whether the profile's host rules let it pass). Counters are None
    where the vendor reported none. complete: whether the answer was read to its end.
    """

    kind: ClassVar[LineKind] = LineKind.WEB

    decision: int | None
    agent: str
    fetch_id: str
    hop: int
    vendor: str
    endpoint: str
    web_tools: str
    declared: Sequence[str] | None = None
    narrowed: bool = False
    calls: Sequence[tuple[str, str | None, bool]] = ()
    citations: Sequence[tuple[str, bool]] = ()
    omitted: int = 0
    search_requests: int | None = None
    fetch_requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    stop: str | None = None
    paused: bool = False
    complete: bool = False

    def render(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "agent": clip_text(self.agent),
            "fetch_id": clip_text(self.fetch_id),
            "hop": self.hop,
            "vendor": clip_text(self.vendor),
            "endpoint": clip_text(self.endpoint),
            "web_tools": clip_text(self.web_tools),
            "declared": None
            if self.declared is None
            else [clip_text(name) for name in self.declared[:MAX_ROWS]],
            "narrowed": self.narrowed,
            "calls": [
                {"tool": clip_text(tool), "error": clip_optional(error), "ended": ended}
                for tool, error, ended in self.calls[:MAX_ROWS]
            ],
            "citations": [
                {"url": strip_url(url), "within_profile": within} for url, within in self.citations[:MAX_ROWS]
            ],
            "omitted": self.omitted,
            "search_requests": self.search_requests,
            "fetch_requests": self.fetch_requests,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "stop": clip_optional(self.stop),
            "paused": self.paused,
            "complete": self.complete,
        }

    def render_text(self) -> str:
        return render_members(self.render())
