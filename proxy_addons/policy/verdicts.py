"""What policy says: a frozen value with an outcome, a stable rule code and a message.

Laws of this file
- A refusal is a value, never an exception, never a default, never truthiness: `bool(verdict)` raises.
- Every rule code the product can utter is a member of `Rule` and has one row in `RULES` (SPEC 1.7).
- Messages are exact (SPEC 1.1, 1.2, 1.4); no message holds credentials, a query or another party's error text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Never


class Outcome(StrEnum):
    """Whether a hop may go on."""

    ALLOWED = "allowed"
    REFUSED = "refused"


class Failure(StrEnum):
    """How a refusal reaches the caller of a daemon tool (SPEC, "Words")."""

    HARD = "hard"
    SOFT = "soft"


class Rule(StrEnum):
    """Stable rule codes; the first broken rule of a hop is the one reported."""

    PARSE = "parse"
    SCHEME = "scheme"
    USERINFO = "userinfo"
    PORT = "port"
    IP_LITERAL = "ip-literal"
    METHOD = "method"
    HOST = "host"
    NO_ALLOWED_ADDRESS = "no-allowed-address"
    REDIRECT_CAP = "redirect-cap"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    AUTHORITY_MISMATCH = "authority-mismatch"
    NO_SNI = "no-sni"
    NOT_HTTP = "not-http"
    REQUEST_CAP = "request-cap"
    DNS_FAILED = "dns-failed"
    TLS_VERIFY = "tls-verify"
    UPSTREAM = "upstream"
    BYTE_CAP = "byte-cap"
    CONNECT_TIMEOUT = "connect-timeout"
    TOTAL_TIMEOUT = "total-timeout"
    IDENTITY = "identity"
    BUDGET = "budget"
    WEB_TOOL = "web-tool"
    INTERNAL = "internal"
    AUDIT_UNAVAILABLE = "audit-unavailable"


@dataclass(frozen=True, slots=True)
class RuleRow:
    """How one rule looks on the wire: HTTP status, problem title, RFC 9209 proxy error type."""

    status: int
    title: str
    proxy_error: str


RULES: Mapping[Rule, RuleRow] = MappingProxyType(
    {
        Rule.PARSE: RuleRow(403, "Invalid URL", "http_request_error"),
        Rule.SCHEME: RuleRow(403, "Scheme not allowed", "http_request_denied"),
        Rule.USERINFO: RuleRow(403, "Credentials in the URL", "http_request_denied"),
        Rule.PORT: RuleRow(403, "Port not allowed", "http_request_denied"),
        Rule.IP_LITERAL: RuleRow(403, "IP literal host", "http_request_denied"),
        Rule.METHOD: RuleRow(403, "Method not allowed", "http_request_denied"),
        Rule.HOST: RuleRow(403, "Host not allowed", "http_request_denied"),
        Rule.NO_ALLOWED_ADDRESS: RuleRow(403, "No allowed address", "destination_ip_prohibited"),
        Rule.REDIRECT_CAP: RuleRow(403, "Too many redirects", "http_request_denied"),
        Rule.DOWNGRADE: RuleRow(403, "Redirect to plain http", "http_request_denied"),
        Rule.UPGRADE: RuleRow(403, "Upgrade not allowed", "http_upgrade_failed"),
        Rule.AUTHORITY_MISMATCH: RuleRow(421, "Names differ", "http_request_denied"),
        Rule.NO_SNI: RuleRow(421, "No TLS server name", "http_request_denied"),
        Rule.NOT_HTTP: RuleRow(400, "Not HTTP", "http_protocol_error"),
        Rule.REQUEST_CAP: RuleRow(413, "Request body too large", "http_request_denied"),
        Rule.DNS_FAILED: RuleRow(502, "DNS resolution failed", "dns_error"),
        Rule.TLS_VERIFY: RuleRow(502, "Origin certificate refused", "tls_certificate_error"),
        Rule.UPSTREAM: RuleRow(502, "Origin failed", "destination_unavailable"),
        Rule.BYTE_CAP: RuleRow(502, "Response too large", "http_response_body_size"),
        Rule.CONNECT_TIMEOUT: RuleRow(504, "Connect timed out", "connection_timeout"),
        Rule.TOTAL_TIMEOUT: RuleRow(504, "Timed out", "http_response_timeout"),
        Rule.IDENTITY: RuleRow(407, "Unknown agent", "http_request_denied"),
        Rule.WEB_TOOL: RuleRow(403, "Web tool not allowed", "http_request_denied"),
        Rule.BUDGET: RuleRow(429, "Budget spent", "connection_limit_reached"),
        Rule.INTERNAL: RuleRow(503, "Internal error", "proxy_internal_error"),
        Rule.AUDIT_UNAVAILABLE: RuleRow(503, "Audit log unavailable", "proxy_internal_error"),
    }
)


class Verdict(NamedTuple):
    """The answer of policy to one question about one hop. A named tuple: as a frozen dataclass it takes four times as
    long to make.

    `subject` is what the verdict is about, in a form fit for logs (a display URL, a host). `rule`, `failure`
    and a non-empty `message` are set exactly when the outcome is REFUSED. `would_refuse`: the rule that would have
    refused if the profile did not only monitor. `retry_after`: seconds until the same may be asked again.
    """

    outcome: Outcome
    rule: Rule | None = None
    message: str = ""
    failure: Failure | None = None
    subject: str = ""
    would_refuse: Rule | None = None
    retry_after: int | None = None

    @property
    def refused(self) -> bool:
        """True when this verdict stops the hop."""
        return self.outcome is not Outcome.ALLOWED

    def __bool__(self) -> Never:
        raise TypeError("a Verdict has no truth value; ask .refused")


ALLOWED = Verdict(Outcome.ALLOWED)


def refuse(rule: Rule, message: str, *, failure: Failure = Failure.HARD, subject: str = "") -> Verdict:
    """A refusal by `rule`; `message` is the exact text for the caller."""
    return _new(Verdict, (Outcome.REFUSED, rule, message, failure, subject, None, None))


_new = tuple.__new__
