"""The two audit lines of a hop: what was decided, and how it ended."""

from dataclasses import dataclass, field
from typing import ClassVar

from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.line_text import (
    Json,
    clipped,
    escape_delete,
    milliseconds,
    number,
    quoted,
    render_value,
)
from proxy_addons.audit.redaction import clip_optional, clip_text, round_ms, strip_message, strip_url
from proxy_addons.policy.verdicts import Outcome

MAX_ADDRESSES = 64


@dataclass(frozen=True, slots=True)
class DroppedAddress:
    """An address of a DNS answer that was not dialled, with the blocked range it fell in."""

    address: str
    range: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """What DNS returned, what of it was dropped, and the one address that was dialled."""

    returned: tuple[str, ...] = ()
    dropped: tuple[DroppedAddress, ...] = ()
    dialled: str | None = None
    text: str = field(init=False, repr=False, compare=False)
    """As it stands in a line: made once, while the lines of a kept connection say it again and again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", render_value(self.render()))

    def render(self) -> Json:
        """A JSON object; ``omitted`` counts entries beyond `MAX_ADDRESSES` of either list."""
        returned, dropped = self.returned[:MAX_ADDRESSES], self.dropped[:MAX_ADDRESSES]
        return {
            "returned": [clip_text(address) for address in returned],
            "dropped": [{"address": clip_text(d.address), "range": clip_text(d.range)} for d in dropped],
            "dialled": clip_optional(self.dialled),
            "omitted": len(self.returned) + len(self.dropped) - len(returned) - len(dropped),
        }


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """The origin's TLS version (``TLSv1.3``) and the SHA-256 of its leaf certificate (DER), 64 hex digits."""

    version: str
    certificate_sha256: str

    def render(self) -> Json:
        return {
            "version": clip_text(self.version),
            "certificate_sha256": clip_text(self.certificate_sha256),
        }

    def render_text(self) -> str:
        return (
            f'{{"version":{clipped(self.version)},"certificate_sha256":{clipped(self.certificate_sha256)}}}'
        )


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Milliseconds by phase; None = the phase did not happen."""

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None
    total: float | None = None

    def render(self) -> Json:
        return {
            "dns": round_ms(self.dns),
            "connect": round_ms(self.connect),
            "tls": round_ms(self.tls),
            "first_byte": round_ms(self.first_byte),
            "total": round_ms(self.total),
        }

    def render_text(self) -> str:
        return (
            f'{{"dns":{milliseconds(self.dns)},"connect":{milliseconds(self.connect)},"tls":{milliseconds(self.tls)},'
            f'"first_byte":{milliseconds(self.first_byte)},"total":{milliseconds(self.total)}}}'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One a hop, written before any byte goes to the origin; of a refused hop the only line.

    `url` is the display form (SPEC 1.6), None when there is none to show. `query_digest` comes from
    `AuditSink.query_digest`. `would_refuse` is the rule that would have refused in a profile that only
    reports. `status` is what the gateway itself answered; None for an allowed hop.
    """

    kind: ClassVar[LineKind] = LineKind.DECISION

    agent: str
    profile: str
    policy: str
    fetch_id: str
    hop: int
    method: str
    url: str | None
    query_digest: str | None = None
    verdict: Outcome
    rule: str | None = None
    detail: str | None = None
    would_refuse: str | None = None
    addresses: Addresses | None = None
    status: int | None = None
    ms: PhaseTimes = field(default_factory=PhaseTimes)

    def render(self) -> dict[str, Json]:
        return {
            "agent": clip_text(self.agent),
            "profile": clip_text(self.profile),
            "policy": clip_text(self.policy),
            "fetch_id": clip_text(self.fetch_id),
            "hop": self.hop,
            "method": clip_text(self.method),
            "url": strip_url(self.url),
            "query_digest": clip_optional(self.query_digest),
            "verdict": self.verdict.value,
            "rule": clip_optional(self.rule),
            "detail": strip_message(self.detail),
            "would_refuse": clip_optional(self.would_refuse),
            "addresses": self.addresses.render() if self.addresses else None,
            "status": self.status,
            "ms": self.ms.render(),
        }

    def render_text(self) -> str:
        text = (
            f'"agent":{clipped(self.agent)},"profile":{clipped(self.profile)},"policy":{clipped(self.policy)},'
            f'"fetch_id":{clipped(self.fetch_id)},"hop":{number(self.hop)},"method":{clipped(self.method)},'
            f'"url":{quoted(strip_url(self.url))},"query_digest":{clipped(self.query_digest)},'
            f'"verdict":{clipped(self.verdict)},"rule":{clipped(self.rule)},'
            f'"detail":{quoted(strip_message(self.detail))},"would_refuse":{clipped(self.would_refuse)},'
            f'"addresses":{self.addresses.text if self.addresses else "null"},"status":{number(self.status)},'
            f'"ms":{self.ms.render_text()}'
        )
        return escape_delete(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRecord:
    """One a hop that was allowed, when it has ended. `decision` is the seq of its decision line in the same
    chain.

    `verdict` is refused, with `rule` and `detail`, when a rule stopped the hop under way (``byte-cap``,
    ``tls-verify``). `redirect_to` is where an answer that is a redirect leads, in display form (SPEC 1.6).
    `request_bytes` counts the request's body, `wire_bytes` and `decoded_bytes` the answer's before and after
    content-decoding.
    """

    kind: ClassVar[LineKind] = LineKind.CLOSE

    decision: int | None
    agent: str
    fetch_id: str
    hop: int
    verdict: Outcome
    rule: str | None = None
    detail: str | None = None
    addresses: Addresses | None = None
    tls: TlsFacts | None = None
    status: int | None = None
    media_type: str | None = None
    redirect_to: str | None = None
    request_bytes: int | None = None
    wire_bytes: int | None = None
    decoded_bytes: int | None = None
    ms: PhaseTimes = field(default_factory=PhaseTimes)

    def render(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "agent": clip_text(self.agent),
            "fetch_id": clip_text(self.fetch_id),
            "hop": self.hop,
            "verdict": self.verdict.value,
            "rule": clip_optional(self.rule),
            "detail": strip_message(self.detail),
            "addresses": self.addresses.render() if self.addresses else None,
            "tls": self.tls.render() if self.tls else None,
            "status": self.status,
            "media_type": clip_optional(self.media_type),
            "redirect_to": strip_url(self.redirect_to),
            "request_bytes": self.request_bytes,
            "wire_bytes": self.wire_bytes,
            "decoded_bytes": self.decoded_bytes,
            "ms": self.ms.render(),
        }

    def render_text(self) -> str:
        text = (
            f'"decision":{number(self.decision)},"agent":{clipped(self.agent)},"fetch_id":{clipped(self.fetch_id)},'
            f'"hop":{number(self.hop)},"verdict":{clipped(self.verdict)},"rule":{clipped(self.rule)},'
            f'"detail":{quoted(strip_message(self.detail))},'
            f'"addresses":{self.addresses.text if self.addresses else "null"},'
            f'"tls":{self.tls.render_text() if self.tls else "null"},"status":{number(self.status)},'
            f'"media_type":{clipped(self.media_type)},"redirect_to":{quoted(strip_url(self.redirect_to))},'
            f'"request_bytes":{number(self.request_bytes)},"wire_bytes":{number(self.wire_bytes)},'
            f'"decoded_bytes":{number(self.decoded_bytes)},"ms":{self.ms.render_text()}'
        )
        return escape_delete(text)
