"""What a record says: members and their order, no secrets, nothing unbounded (SPEC 1.9, 1.6)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.audit import (
    Addresses,
    CallOutcome,
    CloseRecord,
    DecisionRecord,
    DroppedAddress,
    FetchRecord,
    Outcome,
    PhaseTimes,
    Record,
    SearchRecord,
    TlsFacts,
    WebRecord,
)
from proxy_addons.audit.hop_record import MAX_ADDRESSES
from proxy_addons.audit.line_text import render_members
from proxy_addons.audit.redaction import MAX_TEXT, strip_message, strip_url
from tests.proxy_addons.audit.kit import close, decision, event

FETCH = FetchRecord(
    tool="web_fetch",
    agent="local",
    profile="default",
    policy="p1",
    fetch_id="f1",
    url="https://example.com/",
    outcome=CallOutcome.SUCCESS,
)
SEARCH = SearchRecord(
    tool="web_search",
    agent="local",
    profile="default",
    policy="p1",
    fetch_id="f1",
    attempt=1,
    outcome=CallOutcome.SUCCESS,
)
WEB = WebRecord(
    decision=3,
    agent="bot",
    fetch_id="f1",
    hop=0,
    vendor="anthropic",
    endpoint="messages",
    web_tools="enforce",
)
MEMBERS: dict[str, tuple[Record, str]] = {
    "decision": (
        decision(),
        """agent profile policy fetch_id hop method url query_digest verdict rule detail would_refuse
        addresses status ms""",
    ),
    "close": (
        close(3),
        """decision agent fetch_id hop verdict rule detail addresses tls status media_type redirect_to
        request_bytes wire_bytes decoded_bytes ms""",
    ),
    "fetch": (
        FETCH,
        """tool agent profile policy fetch_id url query_digest outcome failure rule detail final_url status
        truncated extraction text_sha256 content_digest bytes ms""",
    ),
    "search": (
        SEARCH,
        """tool agent profile policy fetch_id attempt provider query query_digest count freshness country search_lang
        safesearch include_domains exclude_domains outcome failure detail rows dropped credits text_sha256 ms""",
    ),
    "web": (
        WEB,
        """decision agent fetch_id hop vendor endpoint web_tools declared narrowed calls citations omitted
        search_requests fetch_requests input_tokens output_tokens stop paused complete""",
    ),
    "event": (event(), "event detail facts"),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_every_member_is_written_in_one_order_and_unknown_ones_are_null(kind: str) -> None:
    record, names = MEMBERS[kind]

    assert record.kind == kind
    assert list(record.render()) == names.split()
    assert list(json.loads("{" + render_members(record.render()) + "}")) == names.split()


def test_addresses_tls_and_times_are_objects() -> None:
    record = close(
        7,
        addresses=Addresses(
            ("192.0.2.1", "10.0.0.1"), (DroppedAddress("10.0.0.1", "10.0.0.0/8"),), "192.0.2.1"
        ),
        tls=TlsFacts("TLSv1.3", "ab" * 32),
        ms=PhaseTimes(dns=1.23456, total=float("inf")),
    )

    rendered = record.render()
    assert rendered["addresses"] == {
        "returned": ["192.0.2.1", "10.0.0.1"],
        "dropped": [{"address": "10.0.0.1", "range": "10.0.0.0/8"}],
        "dialled": "192.0.2.1",
        "omitted": 0,
    }
    assert rendered["tls"] == {"version": "TLSv1.3", "certificate_sha256": "ab" * 32}
    assert rendered["ms"] == {"dns": 1.235, "connect": None, "tls": None, "first_byte": None, "total": None}


@pytest.mark.parametrize(
    ("length", "cut"),
    [(MAX_TEXT, False), (MAX_TEXT + 1, True)],
    ids=["the bound is kept whole", "one more is cut"],
)
def test_long_text_is_cut_and_says_so(length: int, cut: bool) -> None:
    detail = decision(detail="x" * length).render()["detail"]

    assert detail == ("x" * MAX_TEXT + f"...[cut, {length} characters]" if cut else "x" * length)


@pytest.mark.parametrize(
    ("entries", "omitted"), [(MAX_ADDRESSES, 0), (MAX_ADDRESSES + 1, 1)], ids=["the bound", "one more"]
)
def test_long_address_lists_are_cut_and_counted(entries: int, omitted: int) -> None:
    rendered = Addresses(tuple(f"192.0.2.{n}" for n in range(entries))).render()

    assert isinstance(rendered, dict) and isinstance(rendered["returned"], list)
    assert (len(rendered["returned"]), rendered["omitted"]) == (entries - omitted, omitted)


URLS = {
    "a display form passes unchanged": ("https://host.example:8443/a/b", "https://host.example:8443/a/b"),
    "an at sign in a path stays": ("https://host.example/@who", "https://host.example/@who"),
    "a query goes": ("https://ok.example/x?token=abc123&sig=zzz", "https://ok.example/x"),
    "a fragment goes": ("https://ok.example/x#abc123", "https://ok.example/x"),
    "user info goes": ("https://user:abc123@ok.example/x", "https://ok.example/x"),
    "user info that holds an at sign goes": ("https://u:abc@123@ok.example/x", "https://ok.example/x"),
    "user info goes when a query follows the host": (
        "https://u:abc123@ok.example?k=abc123",
        "https://ok.example",
    ),
    "an address without scheme loses its query": ("example/?abc123", "example/"),
    "an at sign behind a backslash is no user info": ("https://ok.example\\@b", "https://ok.example\\@b"),
}


@pytest.mark.parametrize("case", URLS)
def test_a_url_is_stripped_once_more_on_its_way_in(case: str) -> None:
    given_url, expected = URLS[case]

    assert strip_url(given_url) == expected


MESSAGES = {
    "the catch-all keeps its words": (
        "fetch failed for https://ok.example/x?k=abc123: network error; try a different URL",
        "fetch failed for https://ok.example/x: network error; try a different URL",
    ),
    "both URLs of a redirect message": (
        "redirect from https://a.example/?c=abc123 to https://u:abc123@b.example/#x refused: no",
        "redirect from https://a.example/ to https://b.example/ refused: no",
    ),
    "a question without a URL stays": ("really? yes#1 a@b", "really? yes#1 a@b"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_no_query_hides_in_a_message(case: str) -> None:
    given_message, expected = MESSAGES[case]

    assert strip_message(given_message) == expected


@pytest.mark.parametrize(
    "character", ["\x00", "\x1b", "\n", "\x7f", "\x9b", "\u2028", "\u202e", "\ud800", "\U0001f600"]
)
def test_control_and_foreign_characters_are_escapes_that_read_back(character: str) -> None:
    line = render_members(decision(detail=f"a{character}b").render())

    assert all(" " <= c <= "~" for c in line)
    assert json.loads("{" + line + "}")["detail"] == f"a{character}b"


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=60)
ANY_INT = st.integers(min_value=-(2**63), max_value=2**63)


@given(text=ANY_TEXT, number=ANY_INT, ms=st.floats())
def test_any_values_make_one_printable_ascii_line_of_json(text: str, number: int, ms: float) -> None:
    records: list[Any] = [
        decision(Outcome.REFUSED, agent=text, url=text, detail=text, rule=text, hop=number),
        close(number, media_type=text, detail=text, status=number, ms=PhaseTimes(total=ms)),
        event(text, detail=text, facts={text: text, "n": number, "ms": ms}),
    ]

    for record in records:
        line = render_members(record.render())
        assert all(" " <= character <= "~" for character in line)
        assert json.loads("{" + line + "}")


@given(text=st.text(alphabet=st.characters(exclude_categories=()), max_size=40))
def test_stripping_never_leaves_a_query_in_a_url(text: str) -> None:
    stripped = strip_url("https://host.example/" + text)

    assert stripped is not None and "?" not in stripped and "#" not in stripped


WORDS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "https://u:p@a.example/x?q#f",
            'quote " and \\ and \x7f and é and \ud800',
            "x" * MAX_TEXT,
            "x" * (MAX_TEXT + 1),
            "https://a.example/" + "p" * MAX_TEXT,
            f"see https://a.example/{'p' * MAX_TEXT}?q=1",
        ]
    ),
)
TEXTS = st.none() | WORDS
NUMBERS = st.one_of(st.none(), st.integers(-1, 1 << 40))
TIMES = st.one_of(st.none(), st.floats(), st.integers(0, 9), st.sampled_from([0.0005, 1e300, -0.0]))
ALL_ADDRESSES = st.builds(
    Addresses,
    st.lists(WORDS, max_size=2).map(tuple),
    st.lists(st.builds(DroppedAddress, WORDS, WORDS), max_size=2).map(tuple),
    TEXTS,
)
ALL_TIMES = st.builds(PhaseTimes, TIMES, TIMES, TIMES, TIMES, TIMES)
COMMON = {
    "agent": WORDS, "fetch_id": WORDS, "hop": st.integers(0, 999), "verdict": st.sampled_from(Outcome),
    "rule": TEXTS, "detail": TEXTS, "addresses": st.none() | ALL_ADDRESSES, "status": NUMBERS, "ms": ALL_TIMES,
}  # fmt: skip
RECORDS = st.one_of(
    st.builds(
        DecisionRecord,
        profile=WORDS, policy=WORDS, method=WORDS, url=TEXTS, query_digest=TEXTS, would_refuse=TEXTS, **COMMON,
    ),
    st.builds(
        CloseRecord,
        decision=NUMBERS, tls=st.none() | st.builds(TlsFacts, WORDS, WORDS), media_type=TEXTS, wire_bytes=NUMBERS,
        redirect_to=TEXTS, request_bytes=NUMBERS, decoded_bytes=NUMBERS, **COMMON,
    ),
    st.sampled_from([FETCH, event()]),
)  # fmt: skip


@given(RECORDS)
def test_a_line_put_together_from_pieces_is_what_the_encoder_writes(record: Record) -> None:
    assert record.render_text() == render_members(record.render())


def test_a_search_line_is_bounded_and_shows_no_query_of_a_url() -> None:
    line = replace(
        SEARCH,
        query="q" * 3000,
        country="c" * 3000,
        include_domains=["d" * 3000] * 30,
        detail="web_search: see https://user:abc123@a.example/x?k=abc123",
        credits=float("inf"),
    )
    rendered = line.render()
    assert rendered["query"] == "q" * MAX_TEXT + "...[cut, 3000 characters]"
    assert isinstance(rendered["include_domains"], list) and len(rendered["include_domains"]) == 20
    assert all(len(str(host)) < 2100 for host in rendered["include_domains"])
    assert rendered["detail"] == "web_search: see https://a.example/x" and rendered["credits"] is None
    assert json.loads("{" + line.render_text() + "}") == rendered
