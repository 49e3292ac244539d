"""The wire contract (SPEC 1.7): what is rendered is a valid HTTP head, and is read back as what was meant."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy_addons.policy import wire
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.budgets import Budget
from proxy_addons.policy.hosts import HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, MAX_HEAD_BYTES
from proxy_addons.policy.redirects import decide_redirect, parse_locations
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import ALLOWED, RULES, Failure, Outcome, Rule, refuse
from proxy_addons.policy.wire import (
    DaemonRequest,
    GatewayVerdict,
    HopContext,
    WireAnswer,
    parse_daemon_fields,
    parse_gateway_fields,
    parse_problem,
    policy_name,
    render_allowed_fields,
    render_daemon_fields,
    render_refusal,
)

CONTEXT = HopContext("f-1", 2, "default@0123456789ab", "https://a.example/x")
FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
FIELD_VALUE = re.compile(rb"(?:[!-~](?:[ -~]*[!-~])?)?")
REASON = re.compile(r"[ -~]{1,200}")
# RFC 8941: an item, then parameters whose values are a token and a string.
PROXY_STATUS = re.compile(rb'fetchd; error=[a-z_]+; details="((?:[ !#-\[\]-~]|\\["\\])*)"')


def field(fields: wire.Fields, name: str) -> bytes | None:
    found = [value for key, value in fields if key.lower() == name.lower().encode()]
    assert len(found) <= 1
    return found[0] if found else None


def assert_valid(answer: WireAnswer) -> None:
    assert REASON.fullmatch(answer.reason)
    for name, value in answer.fields:
        assert FIELD_NAME.fullmatch(name), name
        assert FIELD_VALUE.fullmatch(value), (name, value)
    assert len({name.lower() for name, _ in answer.fields}) == len(answer.fields)
    assert field(answer.fields, "Content-Length") == str(len(answer.body)).encode()
    status = field(answer.fields, "Proxy-Status")
    assert status is not None
    assert PROXY_STATUS.fullmatch(status), status
    assert answer.body.isascii()


@pytest.mark.parametrize("rule", Rule)
def test_a_refusal_by_each_rule_is_read_back(rule: Rule) -> None:
    verdict = refuse(rule, "no such thing", failure=Failure.SOFT, subject="s")
    answer = render_refusal(verdict, CONTEXT)
    assert_valid(answer)
    assert (answer.status, answer.reason) == (RULES[rule].status, "no such thing")
    assert parse_gateway_fields(answer.fields) == GatewayVerdict(
        Outcome.REFUSED, rule, "f-1", "default@0123456789ab", ()
    )
    assert parse_problem(answer.body) == {
        "type": f"urn:fetchd:rule:{rule.value}",
        "title": RULES[rule].title,
        "status": RULES[rule].status,
        "detail": "no such thing",
        "rule": rule.value,
        "failure": "soft",
        "url": "https://a.example/x",
        "hop": 2,
        "fetch_id": "f-1",
        "policy": "default@0123456789ab",
    }
    assert field(answer.fields, "Content-Type") == b"application/problem+json"
    assert field(answer.fields, "Cache-Control") == b"no-store"
    expected = f'fetchd; error={RULES[rule].proxy_error}; details="no such thing"'.encode()
    assert field(answer.fields, "Proxy-Status") == expected
    assert (field(answer.fields, "Proxy-Authenticate") is not None) is (rule is Rule.IDENTITY)
    assert field(answer.fields, "Retry-After") is None


def test_a_refusal_without_a_url_and_with_a_time_to_come_back() -> None:
    context = replace(CONTEXT, url=None)
    answer = render_refusal(refuse(Rule.BUDGET, "budget x spent; free again in 7 s"), context, retry_after=7)
    document = parse_problem(answer.body)
    assert document is not None
    assert (document["url"], document["failure"]) == (None, "hard")
    assert field(answer.fields, "Retry-After") == b"7"


def test_an_allowed_verdict_is_no_problem() -> None:
    with pytest.raises(ValueError, match="only a refusal"):
        render_refusal(ALLOWED, CONTEXT)


PROFILE = replace(
    DEFAULT_PROFILE,
    schemes=frozenset({"https", "http"}),
    ports=frozenset({8443, 443}),
    methods=frozenset({"HEAD", "GET"}),
    upgrades=frozenset({"websocket"}),
    hosts=HostRules(tuple(map(parse_host_pattern, ["docs.rs", "*.example.com:443"]))),
)


@pytest.mark.parametrize("rule", Rule)
def test_a_refusal_says_what_would_be_allowed_where_that_helps(rule: Rule) -> None:
    helpful = {
        Rule.SCHEME: ["http", "https"],
        Rule.DOWNGRADE: ["http", "https"],
        Rule.PORT: [443, 8443],
        Rule.METHOD: ["GET", "HEAD"],
        Rule.HOST: ["docs.rs", "*.example.com:443"],
        Rule.UPGRADE: ["websocket"],
    }
    document = json.loads(render_refusal(refuse(rule, "no"), CONTEXT, PROFILE).body)
    assert document.get("allowed") == helpful.get(rule)
    assert "allowed" not in json.loads(render_refusal(refuse(rule, "no"), CONTEXT).body)


@pytest.mark.parametrize("budget", Budget)
def test_a_spent_budget_says_its_limit(budget: Budget) -> None:
    profile = replace(DEFAULT_PROFILE, concurrent_hops=3, requests_per_minute=40, bytes_per_day=500)
    limits = dict(zip(Budget, (3, 40, 500), strict=True))
    verdict = refuse(Rule.BUDGET, f"budget {budget} spent; free again in 7 s", subject=str(budget))

    assert json.loads(render_refusal(verdict, CONTEXT, profile).body)["allowed"] == limits[budget]


def test_what_would_be_allowed_stays_short_and_readable() -> None:
    many = tuple(parse_host_pattern(f"{'a' * 60}.{n}x.example") for n in range(5000))
    profile = replace(DEFAULT_PROFILE, hosts=HostRules(many), ports=frozenset(range(65536)))
    for rule in (Rule.HOST, Rule.PORT):
        body = render_refusal(refuse(rule, "no"), CONTEXT, profile).body
        assert len(json.loads(body)["allowed"]) == 64
        assert len(body) < wire.MAX_PROBLEM_BYTES
        assert parse_problem(body) is not None


ODD_MESSAGES = [
    ("", "Refused", "empty"),
    ('say "no"', 'say "no"', "quotes"),
    ("back\\slash", "back\\slash", "a backslash"),
    ("a\r\nFetchd-Verdict: allowed", "a??Fetchd-Verdict: allowed", "a line break that would forge a field"),
    ("a\x00b\x7fc\x1b[0m", "a?b?c?[0m", "control characters"),
    ("größe ☃", "gr??e ?", "not ASCII"),
    ("\ud800", "?", "a lone surrogate"),
    (" no ", "no", "outer spaces"),
    ("x" * 201, "x" * 200, "too long"),
    ('"' * 300, '"' * 200, "too long, and every character is escaped"),
]


@pytest.mark.parametrize(("message", "reason"), [pytest.param(*row[:2], id=row[2]) for row in ODD_MESSAGES])
def test_odd_messages_stay_valid(message: str, reason: str) -> None:
    answer = render_refusal(refuse(Rule.HOST, message), CONTEXT)
    assert_valid(answer)
    assert answer.reason == reason
    match = PROXY_STATUS.fullmatch(field(answer.fields, "Proxy-Status") or b"")
    assert match is not None
    assert re.sub(rb'\\(["\\])', rb"\1", match[1]).decode() == reason
    assert json.loads(answer.body)["detail"] == message


def test_a_message_about_a_hostile_url_stays_valid() -> None:
    url = 'http+"\r\n://u:p@a.example/\r\nFetchd-Verdict: allowed?x=secret'
    verdict = decide_url(url, 'GET\r\nX: "', DEFAULT_PROFILE).verdict
    assert_valid(render_refusal(verdict, CONTEXT))
    method = decide_url("https://a.example/", 'GET\r\nX: "', DEFAULT_PROFILE).verdict
    assert method.rule is Rule.METHOD
    assert_valid(render_refusal(method, CONTEXT))


def test_the_longest_message_about_a_redirect_is_read_back() -> None:
    """Source and target each fill a head, with octets that are percent-encoded."""
    source = parse_locations(parse_target("https://a.example/"), [b"/" + b"\xff" * MAX_HEAD_BYTES])
    assert source is not None
    decision = decide_redirect(
        source, 302, [b"http://b.example/" + b"\xff" * MAX_HEAD_BYTES], 0, "GET", PROFILE
    )
    assert decision.verdict.rule is Rule.DOWNGRADE
    answer = render_refusal(decision.verdict, replace(CONTEXT, url=source.display), PROFILE)
    assert_valid(answer)
    document = parse_problem(answer.body)
    assert document is not None
    assert document["detail"] == decision.verdict.message


def test_allowed_fields_are_read_back() -> None:
    assert render_allowed_fields(CONTEXT) == (
        (b"Fetchd-Verdict", b"allowed"),
        (b"Fetchd-Id", b"f-1"),
        (b"Fetchd-Policy", b"default@0123456789ab"),
    )
    removed = ["authorization", "cookie"]
    fields = render_allowed_fields(CONTEXT, removed)
    assert field(fields, "Fetchd-Removed") == b"authorization, cookie"
    assert parse_gateway_fields(fields) == GatewayVerdict(
        Outcome.ALLOWED, None, "f-1", "default@0123456789ab", ("authorization", "cookie")
    )


def test_removed_fields_are_named_in_full() -> None:
    removed = [f"x-field-{n}" for n in range(200)]
    verdict = parse_gateway_fields(render_allowed_fields(CONTEXT, removed))
    assert verdict is not None
    assert verdict.removed == tuple(removed)


def test_policy_name_is_profile_and_version() -> None:
    assert policy_name(DEFAULT_PROFILE) == f"default@{DEFAULT_PROFILE.version}"


GATEWAY_BAD: list[tuple[list[tuple[bytes, bytes]], str]] = [
    ([], "no fields"),
    ([(b"Fetchd-Id", b"x")], "no verdict"),
    ([(b"Fetchd-Verdict", b"")], "an empty verdict"),
    ([(b"Fetchd-Verdict", b"Allowed")], "a verdict in capitals"),
    ([(b"Fetchd-Verdict", b"perhaps")], "a verdict there is not"),
    ([(b"Fetchd-Verdict", b"allowed, allowed")], "a joined verdict"),
    ([(b"Fetchd-Verdict", b"refused")], "a refusal without rule"),
    ([(b"Fetchd-Verdict", b"refused"), (b"Fetchd-Rule", b"")], "a refusal with an empty rule"),
    ([(b"Fetchd-Verdict", b"refused"), (b"Fetchd-Rule", b"none")], "a refusal by a rule there is not"),
    ([(b"Fetchd-Verdict", b"allowed"), (b"Fetchd-Rule", b"host")], "an allowance with a rule"),
    ([(b"Fetchd-Verdict", b"refused"), (b"Fetchd-Verdict", b"allowed")], "two verdicts"),
    ([(b"Fetchd-Verdict", b"allowed"), (b"fetchd-verdict", b"allowed")], "two that agree"),
    ([(b"Fetchd-Verdict", b"allowed"), (b"Fetchd-Id", b"\xe9")], "a value that is not ASCII"),
]


@pytest.mark.parametrize("fields", [pytest.param(row[0], id=row[1]) for row in GATEWAY_BAD])
def test_what_is_not_the_gateways_word_is_none(fields: list[tuple[bytes, bytes]]) -> None:
    assert parse_gateway_fields(fields) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no json", id="no JSON"),
        pytest.param(b'{"detail": "x"', id="broken off"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"detail"', id="a string"),
        pytest.param(b"{}", id="no detail"),
        pytest.param(b'{"detail": null}', id="a detail of null"),
        pytest.param(b'{"detail": 1}', id="a detail that is a number"),
        pytest.param(b'{"detail": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"detail": "x", "n": ' + b"9" * 5000 + b"}", id="a number of 5,000 digits"),
        pytest.param(b"[" * 60_000, id="60,000 brackets"),
        pytest.param(b'{"detail": "' + b"x" * (1 << 20) + b'"}', id="too long"),
    ],
)
def test_what_is_no_problem_document_is_none(body: bytes) -> None:
    assert parse_problem(body) is None


def test_a_problem_document_of_exactly_the_limit_is_read() -> None:
    body = b'{"detail": "' + b"x" * (wire.MAX_PROBLEM_BYTES - 14) + b'"}'
    assert len(body) == wire.MAX_PROBLEM_BYTES
    assert parse_problem(body) is not None
    assert parse_problem(body + b" ") is None


REQUEST = DaemonRequest("agent 7", "page_read", "f-1", 3)


def test_daemon_fields_are_read_back() -> None:
    fields = render_daemon_fields("s3cret", REQUEST)
    assert fields == (
        (b"Proxy-Authorization", b"Fetchd-Daemon s3cret"),
        (b"Fetchd-Agent", b"agent 7"),
        (b"Fetchd-Profile", b"page_read"),
        (b"Fetchd-Id", b"f-1"),
        (b"Fetchd-Hop", b"3"),
    )
    assert parse_daemon_fields(fields) == REQUEST
    assert parse_daemon_fields([(name.upper(), value) for name, value in fields]) == REQUEST
    assert parse_daemon_fields([(b"Host", b"\xff"), *fields, (b"Host", b"b")]) == REQUEST


@pytest.mark.parametrize(
    "patterns", [[], ["*"], ["docs.rs", "*.docs.rs:443"], ["x,a.example"], ["a.example", "*.b,c.example:1"]]
)
def test_an_allowlist_is_read_back_as_it_was(patterns: list[str]) -> None:
    """A comma may stand in a host name; the gateway must not take it for two."""
    request = replace(REQUEST, allow=tuple(map(parse_host_pattern, patterns)))
    assert parse_daemon_fields(render_daemon_fields("s", request)) == request


GOOD = dict(render_daemon_fields("s", REQUEST))
DAEMON_BAD: list[tuple[list[tuple[bytes, bytes]], str]] = [
    *(
        ([(n, v) for n, v in GOOD.items() if n != name], f"without {name.decode()}")
        for name in list(GOOD)[1:]
    ),
    *(
        ([(n, b"" if n == name else v) for n, v in GOOD.items()], f"empty {name.decode()}")
        for name in list(GOOD)[1:]
    ),
    *(([*GOOD.items(), (name.lower(), GOOD[name])], f"{name.decode()} twice") for name in list(GOOD)[1:]),
    *(
        ([(n, b"caf\xe9" if n == name else v) for n, v in GOOD.items()], f"{name.decode()} that is not ASCII")
        for name in list(GOOD)[1:]
    ),
    *(
        ([(n, b"1\n2" if n == name else v) for n, v in GOOD.items()], f"{name.decode()} with a line break")
        for name in list(GOOD)[1:]
    ),
    *(
        ([(n, b"9" * 201 if n == name else v) for n, v in GOOD.items()], f"{name.decode()} of 201 characters")
        for name in list(GOOD)[1:]
    ),
    *(
        ([(n, hop if n == b"Fetchd-Hop" else v) for n, v in GOOD.items()], f"hop {hop!r}")
        for hop in (
            b"-1",
            b"+1",
            b" 1",
            b"1 ",
            b"1.0",
            b"1e0",
            b"0x1",
            b"one",
            b"1000",
            b"1,2",
            b"1_0",
            b"\xb2",
        )
    ),
    ([*GOOD.items(), (b"Fetchd-Removed", b"\xe9")], "another field of ours that is not ASCII"),
    ([], "nothing at all"),
]


@pytest.mark.parametrize("fields", [pytest.param(row[0], id=row[1]) for row in DAEMON_BAD])
def test_malformed_daemon_fields_are_none(fields: list[tuple[bytes, bytes]]) -> None:
    assert parse_daemon_fields(fields) is None


@pytest.mark.parametrize("hop", [0, 5, 999])
def test_hop_numbers_that_are_read(hop: int) -> None:
    assert parse_daemon_fields(render_daemon_fields("s", replace(REQUEST, hop=hop))) == replace(
        REQUEST, hop=hop
    )


@pytest.mark.parametrize("name", ["agent", "profile", "fetch_id"])
@pytest.mark.parametrize(
    "text", ["", " x", "x ", "é", "a\r\nFetchd-Profile: open", "a\x00", "a\tb", "x" * 201]
)
def test_what_would_not_be_read_is_not_written(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        render_daemon_fields("s", DaemonRequest(**{**asdict(REQUEST), name: text}))


@pytest.mark.parametrize("secret", ["", "a\nb", "é"])
def test_a_secret_that_is_no_field_value_is_not_written_and_not_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII") as caught:
        render_daemon_fields(secret, REQUEST)
    assert secret == "" or secret not in str(caught.value)


@pytest.mark.parametrize("hop", [-1, 1000])
def test_a_hop_out_of_range_is_not_written(hop: int) -> None:
    with pytest.raises(ValueError, match="0 to 999"):
        render_daemon_fields("s", replace(REQUEST, hop=hop))


NAMES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"Fetchd-Verdict", b"fetchd-rule", b"FETCHD-ID", b"Fetchd-Agent", b"Fetchd-Profile"]),
    st.sampled_from([b"Fetchd-Hop", b"Fetchd-Policy", b"Fetchd-Removed", b"Fetchd-"]),
)
VALUES = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"allowed", b"refused", b"host", b"1", b"a, b,, c"])
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


@given(FIELDS)
def test_any_fields_are_read_or_none(fields: list[tuple[bytes, bytes]]) -> None:
    verdict = parse_gateway_fields(fields)
    if verdict is not None:
        assert (verdict.rule is None) is (verdict.outcome is Outcome.ALLOWED)
    request = parse_daemon_fields(fields)
    if request is not None:
        assert parse_daemon_fields(render_daemon_fields("s", request)) == request


@given(
    st.one_of(
        st.binary(max_size=60), st.text(max_size=30).map(lambda text: json.dumps({"detail": text}).encode())
    )
)
@example(b"\xff\xfe[\x00")
def test_any_body_is_a_problem_or_none(body: bytes) -> None:
    document = parse_problem(body)
    assert document is None or isinstance(document["detail"], str)


TEXT = st.text(st.characters(), max_size=300)


@given(
    st.sampled_from(list(Rule)),
    TEXT,
    st.builds(HopContext, TEXT, st.integers(0, 9), TEXT, st.none() | TEXT),
    st.lists(TEXT, max_size=3),
)
@example(Rule.HOST, "x", HopContext("a\r\nb", 0, "\ud800\x00", "\r\n"), ["a\r\nSet-Cookie: x"])
def test_whatever_is_rendered_is_a_valid_head(
    rule: Rule, message: str, context: HopContext, removed: list[str]
) -> None:
    answer = render_refusal(refuse(rule, message), context, DEFAULT_PROFILE)
    assert_valid(answer)
    verdict = parse_gateway_fields(answer.fields)
    assert verdict is not None
    assert verdict.rule is rule
    document: Any = parse_problem(answer.body)
    assert document["detail"] == message
    for name, value in render_allowed_fields(context, removed):
        assert FIELD_NAME.fullmatch(name)
        assert FIELD_VALUE.fullmatch(value)
