"""Every failure a caller of web_fetch can meet, in one table (SPEC 2, 2.1); nothing else reaches a caller.

Laws of this file
- A failure is a row of `ROWS` with its placeholders filled (`fail`), or the message of a verdict of the
  policy.
- Hard failures have a kind; soft ones are the call's text and have none.
- A text that arrives from the gateway is believed only when the row's own form matches it (`read_detail`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from proxy_addons.policy.verdicts import Failure, Rule


class FailureKind(StrEnum):
    """The kind of a hard failure."""

    INVALID_ARGUMENTS = "InvalidArguments"
    TRANSPORT = "Transport"
    BACKEND = "Backend"
    OTHER = "Other"


class Message(StrEnum):
    """The names of the rows."""

    MISSING_URL = "missing-url"
    MAX_CHARS = "max-chars"
    RAW = "raw"
    INVALID_URL = "invalid-url"
    USERINFO = "userinfo"
    PORT = "port"
    IP_LITERAL = "ip-literal"
    NO_ALLOWED_ADDRESS = "no-allowed-address"
    METHOD = "method"
    HOST = "host"
    TASK_DIED = "task-died"
    SCHEME = "scheme"
    DNS = "dns"
    REDIRECT = "redirect"
    TIMED_OUT = "timed-out"
    STATUS = "status"
    NO_TYPE = "no-type"
    BAD_TYPE = "bad-type"
    SIZE = "size"
    BODY = "body"
    CHARSET = "charset"
    NETWORK = "network"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Row:
    """One message: its text with {placeholders}; `kind` is None for a soft failure."""

    text: str
    kind: FailureKind | None = None


_ARGUMENTS = FailureKind.INVALID_ARGUMENTS

ROWS: Mapping[Message, Row] = MappingProxyType(
    {
        # The eight hard ones of the default profile, read in this order.
        Message.MISSING_URL: Row("web_fetch: missing url argument", _ARGUMENTS),
        Message.MAX_CHARS: Row("web_fetch: max_chars must be a positive integer", _ARGUMENTS),
        Message.RAW: Row("web_fetch: raw must be a boolean", _ARGUMENTS),
        Message.INVALID_URL: Row("invalid url", _ARGUMENTS),
        Message.USERINFO: Row("url must not contain userinfo", _ARGUMENTS),
        Message.PORT: Row("port not allowed: {port}", _ARGUMENTS),
        Message.IP_LITERAL: Row("ip literal host not allowed: {address}", _ARGUMENTS),
        Message.NO_ALLOWED_ADDRESS: Row("host {host} has no allowed address", _ARGUMENTS),
        # Two more that only file profiles can utter (SPEC 1.1, checks 6 and 7).
        Message.METHOD: Row("method not allowed: {method}", _ARGUMENTS),
        Message.HOST: Row("host not allowed: {host}", _ARGUMENTS),
        # The one of kind Other.
        Message.TASK_DIED: Row("web_fetch: the fetch task did not finish", FailureKind.OTHER),
        # The eleven soft ones.
        Message.SCHEME: Row("scheme not allowed: {scheme}"),
        Message.DNS: Row("dns resolution failed for {host}"),
        Message.REDIRECT: Row("redirect from {source} to {target} refused: {reason}"),
        Message.TIMED_OUT: Row("request to {url} timed out; try again or use a different URL"),
        Message.STATUS: Row("{url} answered HTTP {status}; try a different URL"),
        Message.NO_TYPE: Row(
            "response from {url} declared no content type; refusing to guess its format; try a different URL"
        ),
        Message.BAD_TYPE: Row(
            "content type {content_type} from {url} cannot be returned as text; "
            "try an HTML version of the page or a different URL"
        ),
        Message.CHARSET: Row(
            "response from {url} declared unknown charset {charset}; cannot decode its text"
        ),
        Message.SIZE: Row("response from {url} exceeds the {limit}-byte size cap"),
        Message.BODY: Row("the response body from {url} could not be read; try again or use a different URL"),
        Message.NETWORK: Row("fetch failed for {url}: network error; try a different URL"),
        # And one of profiles with budgets.
        Message.BUDGET: Row("budget {name} spent; free again in {n} s"),
    }
)

RULE_MESSAGES: Mapping[Rule, Message] = MappingProxyType(
    {
        Rule.PARSE: Message.INVALID_URL,
        Rule.SCHEME: Message.SCHEME,
        Rule.USERINFO: Message.USERINFO,
        Rule.PORT: Message.PORT,
        Rule.IP_LITERAL: Message.IP_LITERAL,
        Rule.METHOD: Message.METHOD,
        Rule.HOST: Message.HOST,
        Rule.NO_ALLOWED_ADDRESS: Message.NO_ALLOWED_ADDRESS,
        Rule.DNS_FAILED: Message.DNS,
        Rule.REDIRECT_CAP: Message.REDIRECT,
        Rule.DOWNGRADE: Message.REDIRECT,
        Rule.CONNECT_TIMEOUT: Message.TIMED_OUT,
        Rule.TOTAL_TIMEOUT: Message.TIMED_OUT,
        Rule.BYTE_CAP: Message.SIZE,
        Rule.BUDGET: Message.BUDGET,
    }
)
"""What a caller is told of each rule. A rule that is not here is a network error to the caller."""


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A failed call: which row, its text, and the rule of the policy that stopped it, where one did."""

    message: Message
    text: str
    rule: Rule | None = None

    @property
    def kind(self) -> FailureKind | None:
        """The kind of a hard failure, None of a soft one."""
        return ROWS[self.message].kind

    @property
    def failure(self) -> Failure:
        """Hard or soft (SPEC, "Words")."""
        return Failure.SOFT if self.kind is None else Failure.HARD


def fail(message: Message, rule: Rule | None = None, **values: object) -> ToolFailure:
    """The failure of a row; `values` fill its placeholders."""
    return ToolFailure(message, ROWS[message].text.format(**values), rule)


def read_detail(message: Message, rule: Rule, detail: str, **expected: object) -> ToolFailure | None:
    """`detail`, written by another process, as this row's failure; None when it has not the row's form.

    expected: what named placeholders must hold.
    """
    found = _pattern(message).fullmatch(detail)
    if found is None or any(found[name] != str(value) for name, value in expected.items()):
        return None
    return ToolFailure(message, detail, rule)


@cache
def _pattern(message: Message) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", ROWS[message].text)
    return re.compile(
        "".join(f"(?P<{part}>.+?)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    )
