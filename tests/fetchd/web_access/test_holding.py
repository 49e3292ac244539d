"""What an answer says, held to the declaration again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.holding import Boundary, hold_completion
from fetchd.web_access.projection import Effect, NetRule
from fetchd.web_access.values import Citation, Completion, Stop, WebRow

ALLOWED = WebAccess.search().allow("docs.rs", "*.example.com")
BLOCKED = WebAccess.search().block("evil.test")
POLICY = WebAccess.search().from_policy(
    [NetRule(Effect.ALLOW, "docs.rs:443"), NetRule(Effect.DENY, "b.docs.rs")]
)

URLS = [
    # declaration, URL, within
    (WebAccess.search(), "https://anything.test/", True),
    (WebAccess.search(), "no url at all", True),
    (ALLOWED, "https://docs.rs/std", True),
    (ALLOWED, "https://a.docs.rs/std", True),
    (ALLOWED, "http://DOCS.RS:8080/std", True),
    (ALLOWED, "https://docs.rs./std", True),
    (ALLOWED, "https://notdocs.rs/", False),
    (ALLOWED, "https://docs.rs.evil.test/", False),
    (ALLOWED, "https://example.com/", False),
    (ALLOWED, "https://a.example.com/", True),
    (ALLOWED, "https://docs.rs@evil.test/", False),
    (ALLOWED, "https://10.0.0.1/", False),
    (ALLOWED, "ftp://docs.rs/", False),
    (ALLOWED, "javascript:docs.rs", False),
    (ALLOWED, "docs.rs/std", False),
    (ALLOWED, "", False),
    (BLOCKED, "https://evil.test/", False),
    (BLOCKED, "https://a.evil.test/", False),
    (BLOCKED, "https://notevil.test/", True),
    (BLOCKED, "https://docs.rs/", True),
    # A policy's exact host is that host alone, however widely the vendor reads it; ports are none of a filter's.
    (POLICY, "https://docs.rs/", True),
    (POLICY, "https://docs.rs:8443/", True),
    (POLICY, "https://a.docs.rs/", False),
    (POLICY, "https://b.docs.rs/", False),
]


@pytest.mark.parametrize(("web", "url", "within"), URLS)
def test_a_url_lies_within_or_outside(web, url, within):
    assert Boundary(web).holds(url) is within


def test_a_leaked_row_is_dropped_and_counted_and_a_leaked_citation_kept_and_marked():
    within, outside = "https://docs.rs/1", "https://evil.test/2"
    completion = Completion(
        "text",
        Stop.END,
        rows=(WebRow(within), WebRow(outside)),
        citations=(Citation(within), Citation(outside, "title", "quote")),
    )
    held = hold_completion(completion, Boundary(ALLOWED))
    assert held.rows == (WebRow(within),)
    assert held.dropped_rows == 1
    assert held.citations == (Citation(within), Citation(outside, "title", "quote", outside_declaration=True))


@given(st.text())
def test_whatever_a_vendor_calls_a_url_has_an_answer(url):
    assert Boundary(ALLOWED).holds(url) in (True, False)
