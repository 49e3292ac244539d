"""`WebAccess`, its builder, and what a vendor's filter is made of."""

import pytest

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import DeclarationError
from fetchd.web_access.inheriting import inherit
from fetchd.web_access.projection import Effect, NetRule
from proxy_addons.policy.hosts import HostRules, parse_host_pattern


def test_the_builder_of_the_source():
    web = WebAccess.search().with_fetch().max_uses(5).allow("docs.rs").block("evil.test")
    assert (web.can_search, web.can_fetch, web.cap) == (True, True, 5)
    assert (web.allowed_domains, web.blocked_domains) == (("docs.rs",), ("evil.test",))


def test_nothing_is_on_by_default():
    assert not WebAccess().enabled()
    assert (WebAccess().allowed_domains, WebAccess().blocked_domains, WebAccess().cap) == ((), (), None)


@pytest.mark.parametrize(
    ("web", "enabled"),
    [
        pytest.param(WebAccess(), False, id="nothing"),
        pytest.param(WebAccess.search(), True, id="search"),
        pytest.param(WebAccess().with_fetch(), True, id="fetch alone"),
        pytest.param(WebAccess().allow("docs.rs").block("evil.test"), False, id="lists alone"),
        pytest.param(WebAccess().max_uses(3), False, id="a cap alone"),
    ],
)
def test_a_boundary_around_nothing_declares_nothing(web, enabled):
    assert web.enabled() is enabled


def test_a_builder_leaves_its_value_alone():
    web = WebAccess.search()
    web.with_fetch().max_uses(1).allow("docs.rs")
    assert web == WebAccess(can_search=True)


FILTERS = [
    # what it says, allowed, blocked, the lists for the vendor
    ("neither", [], [], ((), ())),
    ("an allow-list", ["docs.rs"], [], (("docs.rs",), ())),
    ("a block-list", [], ["evil.test"], ((), ("evil.test",))),
    ("both: what is blocked is taken out", ["docs.rs", "evil.test"], ["evil.test"], (("docs.rs",), ())),
    ("both, and they have nothing in common", ["docs.rs"], ["evil.test"], (("docs.rs",), ())),
    (
        "an allowed host below a blocked one goes too",
        ["docs.rs", "a.evil.test"],
        ["evil.test"],
        (("docs.rs",), ()),
    ),
    (
        "an allowed wildcard below a blocked host goes",
        ["docs.rs", "*.evil.test"],
        ["evil.test"],
        (("docs.rs",), ()),
    ),
    ("a name is no subdomain of its own ending", ["notevil.test"], ["evil.test"], (("notevil.test",), ())),
    ("twice is once", ["docs.rs", "docs.rs"], [], (("docs.rs",), ())),
]


@pytest.mark.parametrize(("what", "allowed", "blocked", "expected"), FILTERS, ids=[row[0] for row in FILTERS])
def test_a_vendor_takes_one_list(what, allowed, blocked, expected):
    assert WebAccess.search().allow(*allowed).block(*blocked).vendor_filter() == expected


IMPOSSIBLE = [
    ("all that is allowed is blocked", ["docs.rs"], ["docs.rs"], ('"docs.rs"', "leaves nothing to allow")),
    (
        "the parent of all that is allowed is blocked",
        ["a.docs.rs"],
        ["docs.rs"],
        ('"a.docs.rs"', '"docs.rs"'),
    ),
    (
        "a blocked host below an allowed one",
        ["example.com"],
        ["ads.example.com"],
        ('"example.com"', '"ads.example.com"'),
    ),
    (
        "blocked subdomains of an allowed host",
        ["example.com"],
        ["*.example.com"],
        ('"example.com"', '"*.example.com"'),
    ),
    (
        "a blocked host below allowed subdomains",
        ["*.example.com"],
        ["a.example.com"],
        ('"*.example.com"', '"a.example.com"'),
    ),
]


@pytest.mark.parametrize(
    ("what", "allowed", "blocked", "named"), IMPOSSIBLE, ids=[row[0] for row in IMPOSSIBLE]
)
def test_lists_that_a_vendor_would_misread_are_an_error_that_names_both(what, allowed, blocked, named):
    with pytest.raises(DeclarationError) as caught:
        WebAccess.search().allow(*allowed).block(*blocked).vendor_filter()
    assert all(name in str(caught.value) for name in named)
    assert str(caught.value).endswith("No request was sent.")


@pytest.mark.parametrize(
    ("domain", "says"),
    [
        ("https://docs.rs", "write docs.rs or *.docs.rs"),
        ("docs.rs/std", "write docs.rs or *.docs.rs"),
        ("docs.rs:443", "write docs.rs, without"),
        ("*", "leave the list empty"),
        ("*:443", "leave the list empty"),
        ("Docs.RS", "write docs.rs, without"),
        ("bücher.example", "write xn--bcher-kva.example"),
        ("10.0.0.1", "write docs.rs"),
        ("", "write docs.rs"),
        ("a.*.com", "write docs.rs"),
        ("x\x1b[2J", "\\u{001b}"),
    ],
)
def test_a_domain_is_a_bare_host_in_its_one_form(domain, says):
    for build in (WebAccess.search().allow, WebAccess.search().block):
        with pytest.raises(DeclarationError) as caught:
            build(domain)
        assert says in str(caught.value)
        assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("count", [0, -1, 1001, True])
def test_a_cap_is_a_number_of_uses(count):
    with pytest.raises(DeclarationError, match="from 1 to 1000"):
        WebAccess.search().max_uses(count)


# ------------------------------------------------------------------------------------------------- projection


def rules(*lines: str) -> list[NetRule]:
    return [NetRule(Effect(line.split()[0]), line.split()[1]) for line in lines]


def test_the_projection_of_the_source():
    web = WebAccess.search().from_policy(
        rules("allow docs.rs:443", "allow crates.io:443", "deny *.example.com")
    )
    assert web.allowed_domains == ("docs.rs", "crates.io")
    assert web.blocked_domains == ("*.example.com",)


PROJECTIONS = [
    # what it says, rules, allowed, blocked
    ("no rule at all", [], (), ()),
    ("allow everything is no filter at all", ["allow *"], (), ()),
    ("allow everything at a port too", ["allow *:443"], (), ()),
    ("everything and a host is everything", ["allow docs.rs", "allow *"], (), ()),
    ("everything but a host", ["allow *", "deny evil.test"], (), ("evil.test",)),
    ("denials alone leave the rest open", ["deny evil.test:8443"], (), ("evil.test",)),
    ("a host at two ports is one", ["allow docs.rs:443", "allow docs.rs:80"], ("docs.rs",), ()),
    ("subdomains stay subdomains", ["allow *.docs.rs:443"], ("*.docs.rs",), ()),
]


@pytest.mark.parametrize(
    ("what", "lines", "allowed", "blocked"), PROJECTIONS, ids=[row[0] for row in PROJECTIONS]
)
def test_a_policy_as_lists(what, lines, allowed, blocked):
    web = WebAccess.search().from_policy(rules(*lines))
    assert (web.allowed_domains, web.blocked_domains) == (allowed, blocked)
    assert web.vendor_filter()[0] == allowed


UNPROJECTABLE = [
    ("ask docs.rs", 'ask "docs.rs" cannot be honoured'),
    ("ask *", 'ask "*" cannot be honoured'),
    ("deny *", 'deny "*" allows nothing'),
    ("allow https://docs.rs/std", 'allow "https://docs.rs/std" is not a bare host'),
    ("deny docs.rs/std", 'deny "docs.rs/std" is not a bare host'),
    ("allow 10.0.0.1", 'allow "10.0.0.1" is not a bare host'),
    ("allow Docs.RS", 'allow "Docs.RS" is not a bare host'),
    ("allow docs.rs:0", 'allow "docs.rs:0" is not a bare host'),
]


@pytest.mark.parametrize(("line", "says"), UNPROJECTABLE, ids=[row[0] for row in UNPROJECTABLE])
def test_a_rule_that_no_filter_can_carry_is_an_error_that_names_it(line, says):
    with pytest.raises(DeclarationError) as caught:
        WebAccess.search().from_policy(rules("allow crates.io", line))
    assert says in str(caught.value)
    assert str(caught.value).endswith("No request was sent.")
    if "bare host" in says:
        assert "write docs.rs or docs.rs:443" in str(caught.value)


def hosts(allow: list[str], deny: list[str]) -> HostRules:
    return HostRules(tuple(map(parse_host_pattern, allow)), tuple(map(parse_host_pattern, deny)))


def test_a_gateway_profile_is_projected_the_same_way():
    web = WebAccess.search().from_policy(hosts(["docs.rs:443", "*.example.com"], ["evil.test"]))
    assert (web.allowed_domains, web.blocked_domains) == (("docs.rs", "*.example.com"), ("evil.test",))
    assert WebAccess.search().from_policy(HostRules()) == WebAccess.search()


def test_a_profile_that_allows_nothing_is_an_error_and_not_an_empty_list():
    with pytest.raises(DeclarationError, match="allow_hosts is empty: it allows nothing"):
        WebAccess.search().from_policy(hosts([], []))


NARROWED = [
    # what it says, own list, the policy's, both
    ("an own list within the policy's", ["a.example.com"], ["allow *.example.com"], ("a.example.com",)),
    ("an own host wider than the policy's", ["example.com"], ["allow a.example.com"], ("a.example.com",)),
    (
        "an own host and all below, of which the policy has those below",
        ["example.com"],
        ["allow *.example.com"],
        ("*.example.com",),
    ),
    (
        "the policy's exact host does not allow one below it",
        ["docs.rs", "a.crates.io"],
        ["allow docs.rs", "allow crates.io"],
        ("docs.rs",),
    ),
    ("a policy that allows all", ["docs.rs"], ["allow *"], ("docs.rs",)),
]


@pytest.mark.parametrize(("what", "own", "lines", "both"), NARROWED, ids=[row[0] for row in NARROWED])
def test_a_policy_narrows_what_was_allowed_and_never_widens_it(what, own, lines, both):
    assert WebAccess.search().allow(*own).from_policy(rules(*lines)).allowed_domains == both


def test_lists_without_a_host_in_common_are_an_error():
    with pytest.raises(DeclarationError, match=r'"docs\.rs" and what may be allowed, "crates\.io"'):
        WebAccess.search().allow("docs.rs").from_policy(rules("allow crates.io"))


# -------------------------------------------------------------------------------------------------- sub-runs

ROOT = WebAccess.search().max_uses(3).allow("docs.rs", "example.com").block("evil.test")


def test_a_sub_run_has_the_declaration_of_its_root():
    assert inherit(ROOT) is ROOT


def test_a_sub_run_may_ask_for_less():
    asked = WebAccess.search().max_uses(2).allow("a.example.com").block("b.docs.rs")
    found = inherit(ROOT, asked)
    assert (found.cap, found.allowed_domains) == (2, ("a.example.com",))
    assert found.blocked_domains == ("evil.test", "b.docs.rs")
    assert inherit(ROOT, WebAccess()).enabled() is False


WIDER = [
    ("fetch, where the root has none", WebAccess.search().with_fetch(), "web fetch is not among"),
    ("search, where the root has none", WebAccess.search(), "web search is not among"),
    ("a host outside", WebAccess.search().allow("crates.io"), "no host in common"),
]


@pytest.mark.parametrize(("what", "asked", "says"), WIDER, ids=[row[0] for row in WIDER])
def test_a_sub_run_that_asks_for_more_is_an_error(what, asked, says):
    root = ROOT if "search," not in what else WebAccess().with_fetch()
    with pytest.raises(DeclarationError, match=says):
        inherit(root, asked)


@pytest.mark.parametrize(
    "asked",
    [WebAccess.search(), WebAccess.search().max_uses(1000), WebAccess.search().allow("com.example.com")],
)
def test_what_a_sub_run_leaves_out_or_asks_too_much_of_stays_the_root_s(asked):
    found = inherit(ROOT, asked)
    assert found.cap == 3
    assert set(found.blocked_domains) >= {"evil.test"}
    assert found.allowed_domains in (("docs.rs", "example.com"), ("com.example.com",))


def test_a_sub_run_does_not_name_a_host_below_one_that_a_policy_allows_alone():
    root = WebAccess.search().from_policy(rules("allow example.com"))
    with pytest.raises(DeclarationError, match="no host in common"):
        inherit(root, WebAccess.search().allow("a.example.com"))
    assert inherit(root, WebAccess.search()).rules == root.rules
