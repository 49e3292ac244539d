"""SPEC 1.7 as the daemon reads it: what a caller is told of each rule, on the first hop and after a redirect."""

import pytest

from fetchd.core.failures import Message
from fetchd.core.gateway_answers import Chain, explain_refusal, explain_verdict, read_verdict
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.redirects import decide_redirect
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule, refuse
from proxy_addons.policy.wire import HopContext, render_allowed_fields, render_refusal

FIRST = Chain(parse_target("https://a.example/p?secret=1"), parse_target("https://a.example/p?secret=1"), 0)
SECOND = FIRST.after(parse_target("https://b.example:443/q?secret=2"))
CAP = 8_388_608
NETWORK = "fetch failed for https://a.example/p?secret=1: network error; try a different URL"


def refused(rule: Rule, message: str = "anything the gateway writes") -> bytes:
    return render_refusal(refuse(rule, message), HopContext("id", 0, "default@1")).body


TOLD = {
    Rule.NO_ALLOWED_ADDRESS: (
        "host a.example has no allowed address",
        "host b.example has no allowed address",
    ),
    Rule.DNS_FAILED: ("dns resolution failed for a.example", "dns resolution failed for b.example"),
    Rule.CONNECT_TIMEOUT: ("request to https://a.example/p timed out; try again or use a different URL",) * 2,
    Rule.TOTAL_TIMEOUT: ("request to https://a.example/p timed out; try again or use a different URL",) * 2,
    Rule.BYTE_CAP: (
        "response from https://a.example/p exceeds the 8388608-byte size cap",
        "response from https://b.example/q exceeds the 8388608-byte size cap",
    ),
    Rule.SCHEME: (
        "scheme not allowed: https",
        "redirect from https://a.example/p to https://b.example/q refused: scheme not allowed: https",
    ),
    Rule.USERINFO: (
        "url must not contain userinfo",
        "redirect from https://a.example/p to https://b.example/q refused: url must not contain userinfo",
    ),
    Rule.PORT: (
        "port not allowed: 443",
        "redirect from https://a.example/p to https://b.example/q refused: port not allowed: 443",
    ),
    Rule.IP_LITERAL: (
        "ip literal host not allowed: a.example",
        "redirect from https://a.example/p to https://b.example/q refused: ip literal host not allowed: b.example",
    ),
    Rule.METHOD: (
        "method not allowed: GET",
        "redirect from https://a.example/p to https://b.example/q refused: method not allowed: GET",
    ),
    Rule.HOST: (
        "host not allowed: a.example",
        "redirect from https://a.example/p to https://b.example/q refused: host not allowed: b.example",
    ),
}


@pytest.mark.parametrize("rule", list(Rule))
def test_every_rule_on_the_first_hop_and_on_a_later_one(rule: Rule) -> None:
    """Whatever the gateway writes in its document; a rule that is not told of is a network error."""
    first = explain_refusal(rule, refused(rule), FIRST, CAP, "GET")
    second = explain_refusal(rule, refused(rule), SECOND, CAP, "GET")

    assert (first.text, second.text) == TOLD.get(rule, (NETWORK, NETWORK))
    assert first.rule is second.rule is rule


def test_a_refused_redirect_is_told_as_the_gateway_puts_it() -> None:
    text = "redirect from https://a.example/p to http://a.example/p refused: refusing https to http downgrade"

    failure = explain_refusal(Rule.DOWNGRADE, refused(Rule.DOWNGRADE, text), FIRST, CAP, "GET")

    assert (failure.text, failure.failure, failure.rule) == (text, Failure.SOFT, Rule.DOWNGRADE)


def test_a_refused_redirect_of_another_page_is_not_believed() -> None:
    text = "redirect from https://x.example/ to http://a.example/p refused: refusing https to http downgrade"

    assert explain_refusal(Rule.DOWNGRADE, refused(Rule.DOWNGRADE, text), FIRST, CAP, "GET").text == NETWORK


def test_a_spent_budget() -> None:
    body = refused(Rule.BUDGET, "budget pages spent; free again in 30 s")

    failure = explain_refusal(Rule.BUDGET, body, FIRST, CAP, "GET")

    assert (failure.text, failure.failure) == ("budget pages spent; free again in 30 s", Failure.SOFT)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"detail":5}', b"{" * 70_000])
def test_a_broken_document_changes_nothing_that_does_not_need_it(body: bytes) -> None:
    assert explain_refusal(Rule.DNS_FAILED, body, FIRST, CAP, "GET").message is Message.DNS
    assert explain_refusal(Rule.DOWNGRADE, body, FIRST, CAP, "GET").text == NETWORK


def test_an_answer_counts_only_as_the_gateways_and_for_this_fetch() -> None:
    fields = render_allowed_fields(HopContext("id", 0, "default@1"))

    assert read_verdict(fields, "id") is not None
    assert read_verdict(fields, "other") is None
    assert read_verdict([(b"Content-Type", b"text/html")], "id") is None
    assert read_verdict([*fields, (b"Fetchd-Rule", b"scheme")], "id") is None


def test_verdicts_of_redirects_are_soft_redirect_messages() -> None:
    decision = decide_redirect(
        FIRST.first, 302, [b"https://u:p@b.example:22/?s"], 0, "GET", Profile("default")
    )

    failure = explain_verdict(decision.verdict)

    assert (failure.message, failure.failure, failure.rule) == (Message.REDIRECT, Failure.SOFT, Rule.USERINFO)
    assert failure.text.endswith("refused: url must not contain userinfo")


def test_an_allowed_verdict_is_no_failure() -> None:
    with pytest.raises(ValueError, match="refusal"):
        explain_verdict(ALLOWED)
