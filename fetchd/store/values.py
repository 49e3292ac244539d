"""What the store takes and gives: frozen values. Pure."""

import re
from dataclasses import dataclass, field
from typing import Final

MAX_VALIDATOR: Final = 1024
"""Bytes of an ETag or Last-Modified; what a server makes longer is not worth keeping."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_AUTHORITY: Final = re.compile(r"[a-z][a-z0-9+.-]*://([^/]*)")


def parse_digest(text: str) -> str:
    """A digest unchanged. Raises ValueError that says which form is expected."""
    if _DIGEST.fullmatch(text) is None:
        raise ValueError(f"{text[:100]!r} is not a digest: write sha256: and 64 lower-case hex digits")
    return text


def check_display(url: str) -> str:
    """A URL in display form (SPEC 1.6) unchanged. Raises ValueError for one that carries more: a fault of ours."""
    authority = _AUTHORITY.match(url)
    if authority is None or "@" in authority[1] or "?" in url or "#" in url:
        raise ValueError("a URL with user info, query or fragment never reaches a record or receipt")
    return url


@dataclass(frozen=True, slots=True, order=True)
class Blob:
    """A body: its digest, and its size in bytes."""

    digest: str
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptBlob:
    """A blob in the index. `last_used`: nanoseconds since 1970. `receipted`: a kept receipt names it. `placed`:
    its file was there; else a read under way, or one that a crash ended, is about to place it."""

    digest: str
    bytes: int
    last_used: int
    receipted: bool
    placed: bool


@dataclass(frozen=True, slots=True)
class AuditPosition:
    """A line of the audit log: chain, number, and its hash where the writer said it (64 hex digits)."""

    chain: str
    seq: int
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class RedirectHop:
    """One redirect that was followed. URLs in display form; `verdict` and `policy` are the gateway's of the hop
    that answered with it; `audit` is that hop's decision line."""

    source: str
    target: str
    status: int
    verdict: str
    policy: str
    audit: AuditPosition | None = None


@dataclass(frozen=True, slots=True)
class Validators:
    """What a conditional request sends back: raw ETag and Last-Modified. Never shown: a server chooses them."""

    etag: bytes | None = field(default=None, repr=False)
    last_modified: bytes | None = field(default=None, repr=False)

    def bounded(self) -> "Validators | None":
        """Without what is too long; None when nothing is left."""
        etag = self.etag if self.etag and len(self.etag) <= MAX_VALIDATOR else None
        date = self.last_modified
        date = date if date and len(date) <= MAX_VALIDATOR else None
        return Validators(etag, date) if etag or date else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead:
    """What is known of a read once its page is whole and its audit line written.

    id: the fetch id. url, final_url: display form; the query digests beside them are keyed
    (`AuditSink.query_digest`). fetched_at: RFC 3339, UTC, ending in Z. policy: name@version. fetch: the audit
    line of the call; decision: that of the last hop. revalidated: the origin answered 304 to our own
    conditional request, so the blob is that of an earlier read. validators: of the final answer.
    """

    id: str
    tool: str
    agent: str
    url: str
    url_query_digest: str | None = None
    final_url: str
    query_digest: str | None = None
    status: int
    blob: Blob
    fetched_at: str
    redirects: tuple[RedirectHop, ...] = ()
    policy: str
    fetch: AuditPosition
    decision: AuditPosition | None = None
    revalidated: bool = False
    validators: Validators | None = None

    def __post_init__(self) -> None:
        parse_digest(self.blob.digest)
        for url in (
            self.url,
            self.final_url,
            *(end for hop in self.redirects for end in (hop.source, hop.target)),
        ):
            check_display(url)


@dataclass(frozen=True, slots=True)
class StoredRead:
    """A record as kept. `number` counts from 1 in order of sealing; `receipt` is its canonical JSON, None where
    the page was kept and the read failed later. `sealed_validators` are encrypted."""

    number: int
    id: str
    agent: str
    tool: str
    fetched_at: str
    url: str
    final_url: str
    query_digest: str | None
    status: int
    blob: Blob
    receipt: bytes | None
    sealed_validators: bytes | None = field(default=None, repr=False)
