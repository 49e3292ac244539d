"""Vendor by capability: what is carried, and the exact refusal of what is not (SPEC 6)."""

import itertools

import pytest

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import DeclarationError
from fetchd.web_access.preparing import NOTHING, prepare_filter
from proxy_addons.policy.vendors.dialects import DIALECTS, Capability

SEARCH, FETCH, ALLOW, BLOCK = Capability
DECLARED = {
    SEARCH: WebAccess.search(),
    FETCH: WebAccess().with_fetch(),
    ALLOW: WebAccess.search().allow("docs.rs"),
    BLOCK: WebAccess.search().block("evil.test"),
}
NO_FETCH = (
    "cannot fetch pages — it has no provider-executed fetch tool; leave fetch off, or ask a provider that has one"
    " (anthropic)"
)
NO_BLOCK = (
    "cannot block individual domains — its web search filter is allow-list only; state the hosts to allow instead of"
    " the ones to block"
)
NO_FILTER = "its web plugin takes no domain filter; leave the lists empty, or use the dialect openrouter"

REFUSED = {
    # dialect, capability: what follows the provider's name; all else is carried
    ("openai-chat-2025", FETCH): NO_FETCH,
    ("openai-chat-2025", BLOCK): NO_BLOCK,
    ("openai-chat", FETCH): NO_FETCH,
    ("openai-chat", ALLOW): (
        "cannot keep to named domains — its Chat Completions API has no domain filter; use the dialect"
        " openai-responses"
    ),
    ("openai-chat", BLOCK): (
        "cannot block individual domains — its Chat Completions API has no domain filter; state the hosts to"
        " allow, in the dialect openai-responses"
    ),
    ("openai-responses", FETCH): NO_FETCH,
    ("openai-responses", BLOCK): NO_BLOCK,
    ("openrouter-2025", FETCH): (
        "cannot fetch pages — its web plugin does not fetch; leave fetch off, or use the dialect openrouter"
    ),
    ("openrouter-2025", ALLOW): f"cannot keep to named domains — {NO_FILTER}",
    ("openrouter-2025", BLOCK): f"cannot block individual domains — {NO_FILTER}",
}


@pytest.mark.parametrize(("name", "capability"), [*itertools.product(DIALECTS, Capability)])
def test_the_grid_of_vendors_and_capabilities(name, capability):
    dialect, web = DIALECTS[name], DECLARED[capability]
    provider = dialect.vendor.value
    expected = REFUSED.get((name, capability))
    if expected is None:
        found = prepare_filter(web, dialect, provider)
        assert (found.search, found.fetch) == (web.can_search, web.can_fetch)
        assert (found.allow, found.block) == (web.allowed_domains, web.blocked_domains)
        return
    with pytest.raises(DeclarationError) as caught:
        prepare_filter(web, dialect, provider)
    assert str(caught.value) == f'provider "{provider}" {expected}. No request was sent.'


def test_the_refusal_that_the_source_quotes():
    with pytest.raises(DeclarationError) as caught:
        prepare_filter(WebAccess.search().block("evil.test"), DIALECTS["openai-chat-2025"], "openai")
    assert str(caught.value) == (
        'provider "openai" cannot block individual domains — its web search filter is allow-list only; state the'
        " hosts to allow instead of the ones to block. No request was sent."
    )


@pytest.mark.parametrize("name", DIALECTS)
def test_lists_around_nothing_are_refused_nowhere(name):
    web = WebAccess().allow("docs.rs").block("docs.rs").max_uses(3)
    assert prepare_filter(web, DIALECTS[name], "p") is NOTHING


def test_both_lists_are_one_where_the_vendor_can_only_allow():
    web = WebAccess.search().allow("docs.rs", "evil.test").block("evil.test")
    found = prepare_filter(web, DIALECTS["openai-responses"], "openai")
    assert (found.allow, found.block) == (("docs.rs",), ())


def test_denials_alone_are_refused_where_the_vendor_can_only_allow():
    from fetchd.web_access.projection import Effect, NetRule

    web = WebAccess.search().from_policy([NetRule(Effect.DENY, "evil.test")])
    with pytest.raises(DeclarationError, match="cannot block individual domains"):
        prepare_filter(web, DIALECTS["openai-responses"], "openai")


WILDCARDS = [
    # what it says, allowed, blocked, sent
    ("allowed subdomains are sent with their apex", ["*.docs.rs"], [], (("docs.rs",), ())),
    ("allowed both ways is sent once", ["docs.rs", "*.docs.rs"], [], (("docs.rs",), ())),
    ("blocked subdomains and apex are sent once", [], ["*.evil.test", "evil.test"], ((), ("evil.test",))),
    (
        "blocked subdomains below a blocked parent",
        [],
        ["*.a.evil.test", "evil.test"],
        ((), ("a.evil.test", "evil.test")),
    ),
]


@pytest.mark.parametrize(("what", "allowed", "blocked", "sent"), WILDCARDS, ids=[row[0] for row in WILDCARDS])
def test_no_vendor_is_sent_a_wildcard(what, allowed, blocked, sent):
    found = prepare_filter(
        WebAccess.search().allow(*allowed).block(*blocked), DIALECTS["anthropic"], "anthropic"
    )
    assert (found.allow, found.block) == sent


def test_subdomains_are_not_blocked_by_blocking_more():
    with pytest.raises(DeclarationError) as caught:
        prepare_filter(WebAccess.search().block("*.evil.test"), DIALECTS["anthropic"], "anthropic")
    assert str(caught.value) == (
        'provider "anthropic" cannot block "*.evil.test" alone — it knows no wildcards in a host, and "evil.test"'
        ' would block that host too; block "evil.test" as well, or leave "*.evil.test" out. No request was sent.'
    )


@pytest.mark.parametrize(("count", "refused"), [(100, False), (101, True)])
def test_a_list_that_the_vendor_cuts_is_refused(count, refused):
    web = WebAccess.search().allow(*(f"h{number}.example" for number in range(count)))
    if not refused:
        assert len(prepare_filter(web, DIALECTS["openai-responses"], "openai").allow) == count
        return
    with pytest.raises(DeclarationError, match=r"cannot carry 101 allowed_domains — it takes 100 at most"):
        prepare_filter(web, DIALECTS["openai-responses"], "openai")


@pytest.mark.parametrize(
    ("name", "fetch", "note"),
    [
        ("anthropic", False, None),
        ("anthropic", True, "for search and fetch each, not shared"),
        ("anthropic-2025", True, "for search and fetch each, not shared"),
        ("openai-chat", False, "is not sent"),
        ("openai-chat-2025", False, "is not sent"),
        ("openai-responses", False, "a cap on all tool calls"),
        ("openrouter-2025", False, "a cap on results, not on requests"),
        ("openrouter", True, "for search and fetch each, not shared"),
    ],
)
def test_a_cap_is_never_refused_and_its_meaning_is_said(name, fetch, note):
    web = WebAccess.search().max_uses(3)
    found = prepare_filter(web.with_fetch() if fetch else web, DIALECTS[name], "p")
    assert found.cap == 3
    assert [note in one for one in found.notes] == ([True] if note else [])
    assert prepare_filter(WebAccess.search(), DIALECTS[name], "p").notes == ()
