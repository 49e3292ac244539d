"""The audit line of a search: one for each provider that was asked, and one for a call that reached none.

What was searched for is a query like that of a URL: it stands here as a keyed digest, as itself only where the
operator wants that. A provider's own words never stand here: they may repeat the query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.line_text import Json, render_members
from proxy_addons.audit.redaction import clip_optional, clip_text, round_ms, strip_message

MAX_DOMAINS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """attempt: 1 for the first provider asked in a call, 0 where none was. dropped: rows outside the domain lists.

    `rows` is what was handed out; `credits` what the provider said it cost, in its own unit; `failure` the kind;
    `text_sha256` the digest of the text handed out; `ms` this attempt's milliseconds, its waiting included.
    """

    kind: ClassVar[LineKind] = LineKind.SEARCH

    tool: str
    agent: str
    profile: str
    policy: str
    fetch_id: str
    attempt: int
    provider: str | None = None
    query: str | None = None
    query_digest: str | None = None
    count: int | None = None
    freshness: str | None = None
    country: str | None = None
    search_lang: str | None = None
    safesearch: str | None = None
    include_domains: Sequence[str] = ()
    exclude_domains: Sequence[str] = ()
    outcome: CallOutcome
    failure: str | None = None
    detail: str | None = None
    rows: int | None = None
    dropped: int | None = None
    credits: float | None = None
    text_sha256: str | None = None
    ms: float | None = None

    def render(self) -> dict[str, Json]:
        return {
            "tool": clip_text(self.tool),
            "agent": clip_text(self.agent),
            "profile": clip_text(self.profile),
            "policy": clip_text(self.policy),
            "fetch_id": clip_text(self.fetch_id),
            "attempt": self.attempt,
            "provider": clip_optional(self.provider),
            "query": clip_optional(self.query),
            "query_digest": clip_optional(self.query_digest),
            "count": self.count,
            "freshness": clip_optional(self.freshness),
            "country": clip_optional(self.country),
            "search_lang": clip_optional(self.search_lang),
            "safesearch": clip_optional(self.safesearch),
            "include_domains": [clip_text(host) for host in self.include_domains[:MAX_DOMAINS]],
            "exclude_domains": [clip_text(host) for host in self.exclude_domains[:MAX_DOMAINS]],
            "outcome": self.outcome.value,
            "failure": clip_optional(self.failure),
            "detail": strip_message(self.detail),
            "rows": self.rows,
            "dropped": self.dropped,
            "credits": round_ms(self.credits),
            "text_sha256": clip_optional(self.text_sha256),
            "ms": round_ms(self.ms),
        }

    def render_text(self) -> str:
        return render_members(self.render())
