"""The packet that a page read returns (SPEC 5): `provider_operation`, in the key order of the source."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .read_arguments import ExtractMode


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value as its JSON text in UTF-8: a slice too large to be held as a value and as text at once."""

    data: bytes


def dump_json(value: object, default: Callable[[object], object] | None = None) -> bytes:
    """A value as compact JSON in UTF-8. What UTF-8 cannot carry (half a surrogate pair, which a document may hold as
    an escape) stays an escape. default: stands in for what is no JSON value.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=default, allow_nan=False
        ).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=default, allow_nan=False).encode("ascii")


@dataclass(frozen=True, slots=True)
class Redirect:
    """One hop of a chain that was followed. `source`, `target`: URLs as they were asked for, without fragment."""

    source: str
    target: str
    status: int


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What was read.

    final_url: the URL that the digest is over, query kept. digest: of the body after content-decoding, as `sha256:…`.
    extracted: a str, object or array by `mode`, or its JsonText; None where the page is unchanged. size: bytes of
    that body.
    """

    final_url: str
    status: int
    digest: str
    mode: ExtractMode
    extracted: object
    fetched_at: datetime
    redirects: Sequence[Redirect]
    size: int
    retries: int = 0
    unchanged: bool = False


def render_packet(result: ReadResult) -> dict[str, object]:
    """The packet as JSON values."""
    provenance: dict[str, object] = {
        "fetched_at": render_time(result.fetched_at),
        "redirects": [
            {"from": hop.source, "to": hop.target, "status": hop.status} for hop in result.redirects
        ],
        "bytes": result.size,
    }
    if result.retries:
        provenance["retries"] = result.retries
    body: dict[str, object] = {
        "final_url": result.final_url,
        "status": result.status,
        "content_digest": result.digest,
        "extract_mode": result.mode.value,
        "extracted": result.extracted,
        "provenance": provenance,
    }
    if result.unchanged:
        body["unchanged"] = True
    return {"provider_operation": {"data": {"provider": "web", "operation": "page.read", "result": body}}}


def render_time(moment: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
