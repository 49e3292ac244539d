"""Bypasses 42 and 43 of docs/bypasses.md: redirects and what must not travel along with them.

Redirects of a test lead to paths of its own: what the ledger of one test remembers is never met by another.
"""

from __future__ import annotations

import itertools
from urllib.parse import urljoin

import pytest

from tests.gateway.expect import assert_allowed, assert_refused, contacts, forget, try_send
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ABSOLUTE, ALL, Ask, Entry, send
from tests.kit import replies
from tests.kit.client import Response
from tests.kit.exchange import Exchange
from tests.kit.gateway import World

FOLLOWERS = tuple(entry for entry in ALL if entry is not Entry.WEBSOCKET)
OVER_TLS = tuple(entry for entry in FOLLOWERS if entry.scheme == "https")
TEST = 0
"""The listener of profile `test`: https only, GET and HEAD."""
_numbers = itertools.count()


def fresh(name: str = "") -> str:
    """A path nobody used before."""
    return f"/{next(_numbers)}{name}"


# -- 42: every redirect is judged


def lay_chain(world: World, entry: Entry, redirects: int) -> str:
    """A chain of so many redirects at the way's origin; its first path."""
    paths = [fresh("-hop") for _ in range(redirects + 1)]
    for here, there in itertools.pairwise(paths):
        entry.origin(world).route(here, replies.redirect(there))
    entry.origin(world).route(paths[-1], replies.text("arrived"))
    return paths[0]


def follow(world: World, entry: Entry, path: str, *, one_connection: bool) -> list[Response]:
    """Follow by hand, as an agent's own client would, until an answer is no redirect."""
    answers: list[Response] = []
    client = KeptClient(world, entry)
    url = client.url(path)
    while True:
        if not one_connection:
            client.__exit__()
            client = KeptClient(world, entry)
        answers.append(client.get(url))
        location = answers[-1].header("location")
        if answers[-1].status != 302 or location is None:
            client.__exit__()
            return answers
        url = urljoin(url, location)


@pytest.mark.parametrize("one_connection", [True, False], ids=["one-connection", "a-connection-each"])
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_five_redirects_are_followed(world: World, entry: Entry, one_connection: bool) -> None:
    answers = follow(world, entry, lay_chain(world, entry, 5), one_connection=one_connection)
    assert [answer.status for answer in answers] == [302] * 5 + [200]
    assert answers[-1].body == b"arrived"
    hops = [line["hop"] for line in world.gateway.decisions() if line["fetch_id"] in ids(answers)]
    assert hops == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("one_connection", [True, False], ids=["one-connection", "a-connection-each"])
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_a_sixth_redirect_is_replaced_by_the_refusal(
    world: World, entry: Entry, one_connection: bool
) -> None:
    answers = follow(world, entry, lay_chain(world, entry, 6), one_connection=one_connection)
    assert [answer.status for answer in answers] == [302] * 5 + [403]
    assert answers[-1].header("fetchd-rule") == "redirect-cap"
    assert answers[-1].header("location") is None
    assert answers[-1].json()["hop"] == 5
    assert b"moved" not in answers[-1].body
    assert len(entry.origin(world).requests) == 6


def ids(answers: list[Response]) -> set[str | None]:
    return {answer.header("fetchd-id") for answer in answers}


REFUSED_TARGETS = {
    "to an address": (
        "{scheme}://127.0.0.66:{port}/",
        "ip-literal",
        "ip literal host not allowed: 127.0.0.66",
    ),
    "to an address in octal": (
        "//0177.0.0.1:{port}/",
        "ip-literal",
        "ip literal host not allowed: 127.0.0.1",
    ),
    "to a port": ("//b.example:22/", "port", "port not allowed: 22"),
    "to a denied host": ("//denied.example:{port}/x", "host", "host not allowed: denied.example"),
    "to a denied host, spelled oddly": (
        "\\\\DENIED.example.:{port}/x",
        "host",
        "host not allowed: denied.example.",
    ),
    "to another scheme": ("ftp://b.example/x", "scheme", "scheme not allowed: ftp"),
    "to a script": ("javascript:alert(1)", "scheme", "scheme not allowed: javascript"),
    "to a file": ("file:///etc/passwd", "scheme", "scheme not allowed: file"),
    "with credentials": ("//u:p@b.example:{port}/x", "userinfo", "url must not contain userinfo"),
}


@pytest.mark.parametrize("what", REFUSED_TARGETS)
@pytest.mark.parametrize("entry", FOLLOWERS)
@pytest.mark.parametrize("status", [301, 308])
def test_case_42_a_redirect_to_a_refused_target_is_replaced(
    world: World, status: int, entry: Entry, what: str
) -> None:
    location, rule, reason = REFUSED_TARGETS[what]
    location = location.format(scheme=entry.scheme, port=entry.origin(world).port)
    path = fresh()
    entry.origin(world).route(path, replies.redirect(location, status, b"the redirecting page"))
    answer = send(world, entry, Ask(path))
    assert (answer.status, answer.header("fetchd-rule")) == (403, rule)
    assert answer.header("location") is None and b"redirecting page" not in answer.body
    detail = answer.json()["detail"]
    assert detail.startswith(f"redirect from {entry.scheme}://a.example:") and detail.endswith(
        f"refused: {reason}"
    )
    assert "u:p" not in detail
    assert contacts(world).connects == 1
    assert {query.name for query in world.dns.queries if not query.name.startswith("marker-")} == {
        "a.example"
    }
    (line,) = world.gateway.lines("close", fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["rule"], line["status"]) == ("refused", rule, status)


@pytest.mark.parametrize("entry", OVER_TLS)
def test_case_42_no_redirect_leads_from_https_to_http(world: World, entry: Entry) -> None:
    path = fresh()
    world.origin.route(path, replies.redirect(world.plain_url("/x")))
    answer = send(world, entry, Ask(path))
    assert (answer.status, answer.header("fetchd-rule")) == (403, "downgrade")
    assert (world.origin.accepts, world.plain.accepts) == (1, 0)


FOLLOWED_TARGETS = {
    "relative": "{name}",
    "absolute path": "/{name}",
    "scheme-relative": "//a.example:{port}/{name}",
    "to another host": "//b.example:{port}/{name}",
    "with a fragment": "/{name}#here",
    "in capitals": "{scheme}://B.EXAMPLE:{port}/{name}",
    "with a last dot": "//b.example.:{port}/{name}",
    "through a parent": "/x/y/../../{name}",
}


@pytest.mark.parametrize("how", FOLLOWED_TARGETS)
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_a_followed_redirect_counts_however_it_is_written(
    world: World, entry: Entry, how: str
) -> None:
    """The client asks for the target in plain spelling; it is hop 1 all the same."""
    port = entry.origin(world).port
    path, name = fresh(), fresh("-target")[1:]
    location = FOLLOWED_TARGETS[how].format(scheme=entry.scheme, port=port, name=name)
    entry.origin(world).route(path, replies.redirect(location))
    host = "b.example" if "b.example" in location.lower() else "a.example"
    with KeptClient(world, entry) as client:
        first = client.get(client.url(path))
        # The client gets the target as it was judged, so that it cannot read another out of it.
        spelled = f"{host}." if how == "with a last dot" else host
        wanted = f"{client.url('/' + name, spelled)}{'#here' if how == 'with a fragment' else ''}"
        assert (first.status, first.header("location")) == (302, wanted)
        second = client.get(client.url(f"/{name}", host))
        third = client.get(client.url(f"/{name}", host))
    lines = {line["fetch_id"]: line["hop"] for line in world.gateway.decisions()}
    assert [lines[answer.header("fetchd-id") or ""] for answer in (first, second, third)] == [0, 1, 0]


@pytest.mark.parametrize("status", [300, 304, 305, 306])
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_other_3xx_are_ordinary_answers(world: World, entry: Entry, status: int) -> None:
    path = fresh()

    async def route(exchange: Exchange) -> None:
        await exchange.start(status, [("location", "https://127.0.0.1/"), ("content-length", "0")])
        await exchange.end()

    entry.origin(world).route(path, route)
    assert_allowed(world, send(world, entry, Ask(path)), status=status)


UNREADABLE = {
    "two that differ": [("location", "/one"), ("location", "https://127.0.0.1/")],
    "one that does not parse": [("location", "https://[")],
    "one with a bad port": [("location", "//a.example:99999/")],
}


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_a_location_that_can_be_read_in_two_ways_is_refused(
    world: World, entry: Entry, what: str
) -> None:
    path = fresh()
    entry.origin(world).route(path, replies.redirect(None, headers=UNREADABLE[what]))
    answer = send(world, entry, Ask(path))
    assert (answer.status, answer.header("fetchd-rule")) == (403, "parse")
    assert contacts(world).connects == 1


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_the_same_location_twice_is_one(world: World, entry: Entry) -> None:
    path = fresh()
    fields = [("location", "/same"), ("location", "/same")]
    entry.origin(world).route(path, replies.redirect(None, headers=fields))
    answer = send(world, entry, Ask(path))
    assert (answer.status, answer.header("fetchd-verdict")) == (302, "allowed")


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_an_empty_location_leads_to_itself_and_ends_at_the_cap(world: World, entry: Entry) -> None:
    path = fresh()
    entry.origin(world).route(path, replies.redirect(""))
    with KeptClient(world, entry) as client:
        rules = [client.get(client.url(path)).header("fetchd-rule") for _ in range(6)]
    assert rules == [None] * 5 + ["redirect-cap"]


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_a_refresh_field_is_no_redirect_and_its_target_is_judged_when_asked_for(
    world: World, entry: Entry
) -> None:
    path = fresh()
    entry.origin(world).route(path, replies.page("<p>", [("refresh", "0; url=https://127.0.0.1/")]))
    assert_allowed(world, send(world, entry, Ask(path)))
    forget(world)
    assert_refused(world, send(world, entry, Ask(host="127.0.0.1")), "ip-literal", 403)


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_42_an_agent_cannot_set_its_own_hop_number(world: World, entry: Entry) -> None:
    claims = [("Fetchd-Hop", "0"), ("Fetchd-Agent", "another"), ("Fetchd-Profile", "open")]
    path = lay_chain(world, entry, 6)
    with KeptClient(world, entry) as client:
        rules = []
        url = client.url(path)
        for _ in range(6):
            answer = client.get(url, claims)
            rules.append(answer.header("fetchd-rule"))
            url = urljoin(url, answer.header("location") or "")
    assert rules == [None] * 5 + ["redirect-cap"]
    assert not any(
        "fetchd" in request.head.decode("latin-1").lower() for request in entry.origin(world).requests
    )


# -- 43: credentials and bodies on later hops

CREDENTIALS = [
    ("Authorization", "Basic c2VjcmV0"), ("Cookie", "s=secret"), ("Proxy-Authorization", "Basic c2VjcmV0"),
    ("Referer", "https://secret.example/"), ("Cookie2", "secret"),
]  # fmt: skip


def credentials(entry: Entry) -> list[tuple[str, str]]:
    """Outside a tunnel Proxy-Authorization names an agent: test_identity.py."""
    return [one for one in CREDENTIALS if entry not in ABSOLUTE or one[0] != "Proxy-Authorization"]


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_43_credentials_are_stripped_on_every_hop_there_and_back(world: World, entry: Entry) -> None:
    with KeptClient(world, entry) as client:
        there, back = fresh(), fresh()
        start, origin = fresh(), entry.origin(world)
        origin.route(start, replies.redirect(client.url(there, "b.example")))
        origin.route(there, replies.redirect(client.url(back)))
        for path, host in ((start, "a.example"), (there, "b.example"), (back, "a.example")):
            answer = client.get(client.url(path, host), credentials(entry))
            assert answer.header("fetchd-removed") == "authorization, cookie, referer, cookie2"
    assert len(origin.requests) == 3
    for request in origin.requests:
        assert b"secret" not in request.head and b"c2VjcmV0" not in request.head
        assert not {"authorization", "cookie", "proxy-authorization", "referer"} & {
            n.lower() for n, _ in request.headers
        }


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_43_a_host_that_may_have_credentials_does_not_pass_them_on(world: World, entry: Entry) -> None:
    """c.example may have them under this profile; where it redirects to may not."""
    with KeptClient(world, entry) as client:
        start, there = fresh(), fresh()
        entry.origin(world).route(start, replies.redirect(client.url(there, "a.example")))
        for path, host in ((start, "c.example"), (there, "a.example")):
            client.get(client.url(path, host), credentials(entry))
    sent = [
        request.values("authorization") + request.values("cookie") for request in entry.origin(world).requests
    ]
    assert sent == [["Basic c2VjcmV0", "s=secret"], []]
    assert [request.values("proxy-authorization") for request in entry.origin(world).requests] == [[], []]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_43_a_replayed_body_is_a_request_of_its_own(world: World, entry: Entry, status: int) -> None:
    """Where the profile takes bodies the next host may have one too, judged and counted as hop 1."""
    with KeptClient(world, entry) as client:
        start, there = fresh(), fresh()
        entry.origin(world).route(start, replies.redirect(client.url(there, "b.example"), status))
        assert client.get(client.url(start), method="POST", body=b"data").status == status
        answer = client.get(client.url(there, "b.example"), credentials(entry), method="POST", body=b"data")
    assert (answer.status, answer.header("fetchd-removed")) == (
        200,
        "authorization, cookie, referer, cookie2",
    )
    assert [(request.method, request.body) for request in entry.origin(world).requests] == [
        ("POST", b"data")
    ] * 2
    assert world.gateway.decisions(fetch_id=answer.header("fetchd-id"))[0]["hop"] == 1


@pytest.mark.parametrize("entry", OVER_TLS)
def test_case_43_where_the_profile_takes_no_bodies_none_goes_anywhere(world: World, entry: Entry) -> None:
    answer = try_send(world, entry, Ask(method="POST", body=b"data"), listener=TEST)
    assert_refused(world, answer, "method", 403)
