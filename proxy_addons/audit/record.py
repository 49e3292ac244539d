"""What one audit line says, before it is numbered, linked and hashed (SPEC 1.9).

Laws of this file. Every member of a record is always written, in the order given here; what is not known is
``null``. Nothing written here can hold a header value (but the parsed media type), a cookie, a body or a
query string: a URL loses user info, query and fragment once more on its way in, also inside a message (SPEC
1.6). Strings that come from outside are cut at `MAX_TEXT` characters, lists at `MAX_ADDRESSES` entries. The
text is ASCII, so it is safe in any terminal.

`render` gives a record's members, `render_text` the same as they stand in its line. The two lines of each hop are put
together from pieces, which takes a third of what the encoder takes for them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from json import JSONEncoder
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, ClassVar

from proxy_addons.audit.redaction import (
    MAX_TEXT,
    clip_optional,
    clip_text,
    round_ms,
    strip_message,
    strip_url,
)
from proxy_addons.policy.verdicts import Outcome

if TYPE_CHECKING:
    from proxy_addons.audit.ask_record import AskRecord
    from proxy_addons.audit.search_record import SearchRecord
    from proxy_addons.audit.web_record import WebRecord

MAX_ADDRESSES = 64
MAX_FACTS = 16

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None


class LineKind(StrEnum):
    """The ``kind`` member of a line."""

    DECISION = "decision"
    CLOSE = "close"
    FETCH = "fetch"
    SEARCH = "search"
    WEB = "web"
    ASK = "ask"
    EVENT = "event"
    CHECKPOINT = "checkpoint"


class FetchOutcome(StrEnum):
    """How a call of the daemon ended: with text, a soft or a hard failure, or dropped by its caller."""

    SUCCESS = "success"
    SOFT = "soft"
    HARD = "hard"
    ABORTED = "aborted"


class LogEvent(StrEnum):
    """The ``event`` member of lines the log writes about itself."""

    OPENED = "opened"
    RESUMED = "resumed"
    FILE_BEGUN = "file-begun"
    TORN_LINE = "torn-line"
    DAMAGE_FOUND = "damage-found"
    WRITING_RESUMED = "writing-resumed"
    PRUNED = "pruned"


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
        object.__setattr__(self, "text", _encoder.encode(self.render()))

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
        return f'{{"version":{_text(self.version)},"certificate_sha256":{_text(self.certificate_sha256)}}}'


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
            f'{{"dns":{_ms(self.dns)},"connect":{_ms(self.connect)},"tls":{_ms(self.tls)},'
            f'"first_byte":{_ms(self.first_byte)},"total":{_ms(self.total)}}}'
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
            f'"agent":{_text(self.agent)},"profile":{_text(self.profile)},"policy":{_text(self.policy)},'
            f'"fetch_id":{_text(self.fetch_id)},"hop":{_number(self.hop)},"method":{_text(self.method)},'
            f'"url":{_quoted(strip_url(self.url))},"query_digest":{_text(self.query_digest)},'
            f'"verdict":{_text(self.verdict)},"rule":{_text(self.rule)},'
            f'"detail":{_quoted(strip_message(self.detail))},"would_refuse":{_text(self.would_refuse)},'
            f'"addresses":{self.addresses.text if self.addresses else "null"},"status":{_number(self.status)},'
            f'"ms":{self.ms.render_text()}'
        )
        return _escape_delete(text)


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
            f'"decision":{_number(self.decision)},"agent":{_text(self.agent)},"fetch_id":{_text(self.fetch_id)},'
            f'"hop":{_number(self.hop)},"verdict":{_text(self.verdict)},"rule":{_text(self.rule)},'
            f'"detail":{_quoted(strip_message(self.detail))},'
            f'"addresses":{self.addresses.text if self.addresses else "null"},'
            f'"tls":{self.tls.render_text() if self.tls else "null"},"status":{_number(self.status)},'
            f'"media_type":{_text(self.media_type)},"redirect_to":{_quoted(strip_url(self.redirect_to))},'
            f'"request_bytes":{_number(self.request_bytes)},"wire_bytes":{_number(self.wire_bytes)},'
            f'"decoded_bytes":{_number(self.decoded_bytes)},"ms":{self.ms.render_text()}'
        )
        return _escape_delete(text)


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
    outcome: FetchOutcome
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


type Record = DecisionRecord | CloseRecord | FetchRecord | EventRecord | SearchRecord | WebRecord | AskRecord

_encoder = JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":"))


def render_members(members: Mapping[str, Json]) -> str:
    """The members of a JSON object without its braces, printable ASCII only, in the mapping's order."""
    return _escape_delete(_encoder.encode(members)[1:-1])


def _escape_delete(text: str) -> str:
    """json leaves DEL as it is; in an encoded text it can only stand inside a string."""
    return text.replace("\x7f", "\\u007f")


def _text(text: str | None) -> str:
    """What the encoder makes of `clip_optional(text)`."""
    return _quoted(clip_text(text) if text is not None and len(text) > MAX_TEXT else text)


def _quoted(text: str | None) -> str:
    """What the encoder makes of a text that needs no cut."""
    return "null" if text is None else encode_basestring_ascii(text)


def _number(value: int | None) -> str:
    """What the encoder makes of it."""
    return "null" if value is None else int.__repr__(value)


def _ms(value: float | None) -> str:
    """What the encoder makes of `round_ms(value)`."""
    return "null" if value is None or not math.isfinite(value) else repr(round(value, 3))


def _render_fact(value: str | int | float | bool | None) -> Json:
    if isinstance(value, str):
        return strip_message(value)
    if isinstance(value, float):
        return round_ms(value)
    return value
