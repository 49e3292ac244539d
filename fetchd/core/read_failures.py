"""Every failure of page_read, by code (SPEC 5). All are hard: no result stands for a page that was not read.

The texts say what to do. Of another party nothing is repeated but a host that was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy_addons.policy.hosts import HostPattern

from .failures import FailureKind

CEILING_VARIABLE = "RUNX_WEB_READ_MAX_BYTES"


class ReadCode(StrEnum):
    """The codes. `invalid_input` is for arguments that are there and wrong."""

    MISSING_INPUT = "missing_input"
    INVALID_INPUT = "invalid_input"
    URL_REFUSED = "url_refused"
    POLICY_DENIED = "policy_denied"
    RESPONSE_TOO_LARGE = "response_too_large"
    HTTP_STATUS = "http_status"
    TRANSPORT = "transport"
    EXTRACT_FAILED = "extract_failed"
    BUDGET = "budget"
    INTERNAL = "internal"


KINDS = {
    ReadCode.MISSING_INPUT: FailureKind.INVALID_ARGUMENTS,
    ReadCode.INVALID_INPUT: FailureKind.INVALID_ARGUMENTS,
    ReadCode.URL_REFUSED: FailureKind.INVALID_ARGUMENTS,
    ReadCode.POLICY_DENIED: FailureKind.INVALID_ARGUMENTS,
    ReadCode.RESPONSE_TOO_LARGE: FailureKind.BACKEND,
    ReadCode.HTTP_STATUS: FailureKind.BACKEND,
    ReadCode.TRANSPORT: FailureKind.TRANSPORT,
    ReadCode.EXTRACT_FAILED: FailureKind.BACKEND,
    ReadCode.BUDGET: FailureKind.BACKEND,
    ReadCode.INTERNAL: FailureKind.OTHER,
}
"""What kind of hard failure each code is (SPEC, "Words")."""


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """One failed read. `facts`: what a program may want of it, such as the attempted host; JSON values.

    logged: what the audit log says in place of `text`, where that repeats words of the caller's that were not read as
    anything: they may be a query or a token in the wrong place (SPEC 1.9).
    """

    code: ReadCode
    text: str
    facts: dict[str, object] = field(default_factory=dict)
    rule: str | None = None
    logged: str | None = None

    @property
    def kind(self) -> FailureKind:
        """The kind of the hard failure."""
        return KINDS[self.code]


def missing_input(name: str) -> ReadFailure:
    """A required input is not there; nothing has started."""
    return ReadFailure(ReadCode.MISSING_INPUT, f"page_read: missing input {name}", {"input": name})


def invalid_input(name: str, what: str, *, logged: str | None = None) -> ReadFailure:
    """An input is there and cannot be used. what: what to write. logged: see ReadFailure.

    Both may repeat the caller's own words, where JSON lets anything stand: half a surrogate pair is no text.
    """
    name, what = _printable(name), _printable(what)
    return ReadFailure(ReadCode.INVALID_INPUT, f"page_read: {name}: {what}", {"input": name}, logged=logged)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def policy_denied(host: str, allowlist: Sequence[HostPattern], hop: int) -> ReadFailure:
    """The caller's own allowlist has not got a host: of the URL (hop 0), or of a redirect target."""
    patterns = [str(pattern) for pattern in allowlist]
    where = "" if hop == 0 else f", which redirect {hop} leads to,"
    listed = ", ".join(patterns) or "nothing"
    text = f"page_read: host {host}{where} is not on the allowlist ({listed})"
    return ReadFailure(
        ReadCode.POLICY_DENIED, text, {"host": host, "allowlist": patterns, "hop": hop}, rule="host"
    )


def too_large(ceiling: int) -> ReadFailure:
    """The page is over the ceiling; it is not cut."""
    text = f"page_read: the page is larger than {ceiling} bytes; the operator can raise {CEILING_VARIABLE}"
    return ReadFailure(ReadCode.RESPONSE_TOO_LARGE, text, {"ceiling": ceiling}, rule="byte-cap")


def bad_status(url: str, status: int) -> ReadFailure:
    """A final answer that is no 2xx. url: in its display form."""
    return ReadFailure(
        ReadCode.HTTP_STATUS, f"page_read: {url} answered HTTP {status}", {"url": url, "status": status}
    )


def transport_failed(url: str, what: str, *, retries: int = 0, rule: str | None = None) -> ReadFailure:
    """The page could not be had. what: in our own words; never another party's text."""
    tried = f" after {retries} more {'try' if retries == 1 else 'tries'}" if retries else ""
    return ReadFailure(
        ReadCode.TRANSPORT, f"page_read: {url}: {what}{tried}", {"url": url, "retries": retries}, rule
    )


def extract_failed(digest: str, what: str) -> ReadFailure:
    """The page was read and is kept under its digest; what was asked for cannot be made of it."""
    return ReadFailure(
        ReadCode.EXTRACT_FAILED,
        f"page_read: {what}; the page itself is kept as {digest}",
        {"content_digest": digest},
    )
