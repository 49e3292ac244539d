"""The audit line of a call of the daemon that reads a page: web_fetch, page_read."""

from dataclasses import dataclass
from typing import ClassVar

from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.line_text import Json, render_members
from proxy_addons.audit.redaction import clip_optional, clip_text, round_ms, strip_message, strip_url


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRecord:
    """One a call of the daemon. `failure` is the failure's kind; `text_sha256` the digest of the text handed
    out; `content_digest` that of the body a page read kept, as `sha256:` and hex.

    `bytes` is the size of the body after content-decoding; `ms` the whole call in milliseconds.
    """

    kind: ClassVar[LineKind] = LineKind.FETCH

    tool: str
    agent: str
    profile: str
    policy: str
    fetch_id: str
    url: str | None
    query_digest: str | None = None
    outcome: CallOutcome
    failure: str | None = None
    rule: str | None = None
    detail: str | None = None
    final_url: str | None = None
    status: int | None = None
    truncated: bool | None = None
    extraction: str | None = None
    text_sha256: str | None = None
    content_digest: str | None = None
    bytes: int | None = None
    ms: float | None = None

    def render(self) -> dict[str, Json]:
        return {
            "tool": clip_text(self.tool),
            "agent": clip_text(self.agent),
            "profile": clip_text(self.profile),
            "policy": clip_text(self.policy),
            "fetch_id": clip_text(self.fetch_id),
            "url": strip_url(self.url),
            "query_digest": clip_optional(self.query_digest),
            "outcome": self.outcome.value,
            "failure": clip_optional(self.failure),
            "rule": clip_optional(self.rule),
            "detail": strip_message(self.detail),
            "final_url": strip_url(self.final_url),
            "status": self.status,
            "truncated": self.truncated,
            "extraction": clip_optional(self.extraction),
            "text_sha256": clip_optional(self.text_sha256),
            "content_digest": clip_optional(self.content_digest),
            "bytes": self.bytes,
            "ms": round_ms(self.ms),
        }

    def render_text(self) -> str:
        return render_members(self.render())
