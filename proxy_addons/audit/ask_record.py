"""The audit lines of a run of completions: one for each provider call, and one when the run has ended.

Neither prompt nor answer nor a cited URL stands here, and no credential: a run is known by its id, under which the
store has its citations. What was declared stands in the line that ends the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.line_text import Json, render_members
from proxy_addons.audit.redaction import clip_optional, clip_text, round_ms

MAX_DOMAINS = 64
MAX_TOOLS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRecord:
    """step: 0 for the line that ends the run, whose counters are sums. None: not reported, or not known.

    failure: the vendor's code, or ours. stop: the vendor's word for why the answer ended; of the run, its status.
    tools: uses of web tools by the vendor, a failed one with its code after a colon. outside: citations that lie
    outside the declared lists. dropped: rows that did.
    """

    kind: ClassVar[LineKind] = LineKind.ASK

    run_id: str
    agent: str
    profile: str
    policy: str
    parent: str | None = None
    step: int
    provider: str
    model: str
    dialect: str | None = None
    outcome: CallOutcome
    failure: str | None = None
    stop: str | None = None
    search: bool
    fetch: bool
    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    tools: Sequence[str] = ()
    citations: int | None = None
    outside: int | None = None
    dropped: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    server_tool_requests: int | None = None
    ms: float | None = None

    def render(self) -> dict[str, Json]:
        return {
            "run_id": clip_text(self.run_id),
            "agent": clip_text(self.agent),
            "profile": clip_text(self.profile),
            "policy": clip_text(self.policy),
            "parent": clip_optional(self.parent),
            "step": self.step,
            "provider": clip_text(self.provider),
            "model": clip_text(self.model),
            "dialect": clip_optional(self.dialect),
            "outcome": self.outcome.value,
            "failure": clip_optional(self.failure),
            "stop": clip_optional(self.stop),
            "search": self.search,
            "fetch": self.fetch,
            "max_uses": self.max_uses,
            "allowed_domains": [clip_text(host) for host in self.allowed_domains[:MAX_DOMAINS]],
            "blocked_domains": [clip_text(host) for host in self.blocked_domains[:MAX_DOMAINS]],
            "tools": [clip_text(tool) for tool in self.tools[:MAX_TOOLS]],
            "citations": self.citations,
            "outside": self.outside,
            "dropped": self.dropped,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "server_tool_requests": self.server_tool_requests,
            "ms": round_ms(self.ms),
        }

    def render_text(self) -> str:
        return render_members(self.render())
