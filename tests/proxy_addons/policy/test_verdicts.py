"""A refusal is a frozen value that is never taken for true or false; each rule has one row (SPEC 1.7)."""

from __future__ import annotations

import pytest

from proxy_addons.policy.verdicts import ALLOWED, RULES, Failure, Outcome, Rule, Verdict, refuse

STATUSES = {
    403: "parse scheme userinfo port ip-literal method host no-allowed-address redirect-cap downgrade"
    " upgrade web-tool",
    421: "authority-mismatch no-sni",
    400: "not-http",
    413: "request-cap",
    502: "dns-failed tls-verify upstream byte-cap",
    504: "connect-timeout total-timeout",
    407: "identity",
    429: "budget",
    503: "internal audit-unavailable",
}
"""SPEC 1.7, as it is written there, and the rule of web tools (docs/web-tools.md)."""

RFC_9209_TYPES = {
    "dns_timeout", "dns_error", "destination_not_found", "destination_unavailable",
    "destination_ip_prohibited", "destination_ip_unroutable", "connection_refused", "connection_terminated",
    "connection_timeout", "connection_read_timeout", "connection_write_timeout", "connection_limit_reached",
    "tls_protocol_error", "tls_certificate_error", "tls_alert_received", "http_request_error",
    "http_request_denied", "http_response_incomplete", "http_response_header_section_size",
    "http_response_header_size", "http_response_body_size", "http_response_trailer_section_size",
    "http_response_trailer_size", "http_response_transfer_coding", "http_response_content_coding",
    "http_response_timeout", "http_upgrade_failed", "http_protocol_error", "proxy_internal_response",
    "proxy_internal_error", "proxy_configuration_error", "proxy_loop_detected",
}  # fmt: skip
"""RFC 9209, section 2.3."""


def test_the_statuses_are_those_of_the_contract_and_no_rule_is_without() -> None:
    written = {code: status for status, codes in STATUSES.items() for code in codes.split()}
    assert {rule.value: row.status for rule, row in RULES.items()} == written
    assert set(RULES) == set(Rule)


def test_titles_are_distinct_within_reason_and_error_types_are_registered() -> None:
    assert len({row.title for row in RULES.values()}) == len(RULES)
    assert {row.proxy_error for row in RULES.values()} <= RFC_9209_TYPES


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        RULES[Rule.HOST] = RULES[Rule.PORT]  # type: ignore[index]


@pytest.mark.parametrize("verdict", [ALLOWED, refuse(Rule.HOST, "no")], ids=["allowed", "refused"])
def test_a_verdict_has_no_truth_value_and_does_not_change(verdict: Verdict) -> None:
    with pytest.raises(TypeError, match=r"ask \.refused"):
        bool(verdict)
    with pytest.raises(TypeError):
        assert not verdict
    with pytest.raises(AttributeError):
        verdict.outcome = Outcome.ALLOWED  # type: ignore[misc]


def test_only_allowed_is_not_refused() -> None:
    assert ALLOWED.refused is False
    assert (ALLOWED.rule, ALLOWED.message, ALLOWED.failure) == (None, "", None)
    assert refuse(Rule.HOST, "no").refused is True


def test_refuse_is_hard_unless_said_otherwise() -> None:
    assert refuse(Rule.HOST, "no", subject="h") == Verdict(
        Outcome.REFUSED, Rule.HOST, "no", Failure.HARD, "h"
    )
    assert refuse(Rule.SCHEME, "no", failure=Failure.SOFT).failure is Failure.SOFT
