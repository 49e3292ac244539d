"""Sign-in at the operator's listener: who gets in, for how long, and who does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.faces.audit_page.sign_in import read_next
from fetchd.faces.operator_access.access import Access, read_cookies
from fetchd.faces.operator_access.attempts import MAX_ADDRESSES, MAX_FAILURES, WINDOW_SECONDS, Attempts
from fetchd.faces.operator_access.links import LINK_SECONDS, MAX_LINKS, Links
from fetchd.faces.operator_access.sessions import IDLE_SECONDS, LIFE_SECONDS, MAX_SESSIONS, Sessions
from proxy_addons.policy.agents import digest_token
from tests.fetchd.faces.audit_page.site import CONTROL, TOKEN, Clock, Site, hidden_fields, open_site

NONE: frozenset[str] = frozenset()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as found:
        yield found


# ------------------------------------------------------------------------------------------------- the gate


@pytest.mark.parametrize(
    "path", ["/", "/log", "/fetch/x", "/export.csv", "/live", "/nothing", "/sign-out", "/v1/x"]
)
async def test_nobody_gets_past_without_signing_in(site: Site, path: str) -> None:
    async with site.browser() as browser:
        led = await browser.get(path, params={"agent": "a&b"})
        told = await browser.get(path, headers={"Accept": "application/json"})
        sent = await browser.send(path, {})

    assert (led.status_code, led.headers["location"]) == (
        303, "/sign-in?next=" + path.replace("/", "%2F") + "%3Fagent%3Da%2526b",
    )  # fmt: skip
    assert (told.status_code, told.headers["www-authenticate"]) == (401, 'Bearer realm="fetchd operator"')
    assert sent.status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/sign-in", "/static/page.css", "/static/live.js"])
async def test_what_says_nothing_is_open_to_all(site: Site, path: str) -> None:
    async with site.browser() as browser:
        assert (await browser.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("field", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="the token"),
        pytest.param(f"bearer  {TOKEN}", 200, id="the scheme in small letters, spaces"),
        pytest.param(f"Bearer {TOKEN}x", 401, id="a character more"),
        pytest.param(f"Bearer {TOKEN[:-1]}", 401, id="a character less"),
        pytest.param(f"Bearer {CONTROL}", 401, id="the control secret"),
        pytest.param(f"Bearer {digest_token(TOKEN)}", 401, id="the digest of the token"),
        pytest.param(f"Basic {TOKEN}", 401, id="another scheme"),
        pytest.param("Bearer", 401, id="no token"),
        pytest.param("Bearer " + "x" * 100_000, 401, id="a long one"),
        pytest.param("Bearer \xe9\xff", 401, id="not ASCII"),
    ],
)
async def test_a_program_sends_the_token(site: Site, field: str, status: int) -> None:
    async with site.browser() as browser:
        answer = await browser.get("/", headers={"Authorization": field.encode("latin-1")})

    assert answer.status_code in ((status,) if len(field) < 65_000 else (401, 400, 431))


async def test_two_tokens_in_one_request_are_none(site: Site) -> None:
    async with site.browser() as browser:
        answer = await browser.client.get("/", headers=[("Authorization", f"Bearer {TOKEN}")] * 2)
    assert answer.status_code == 401


async def test_a_wrong_token_is_refused_whatever_session_comes_with_it(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        assert (await browser.get("/")).status_code == 200
        assert (await browser.get("/", headers={"Authorization": "Bearer no"})).status_code == 401


# ------------------------------------------------------------------------------------------ sign-in, sign-out


async def test_the_token_opens_a_session_and_signing_out_ends_it(site: Site) -> None:
    async with site.browser() as browser:
        answer = await browser.sign_in(path="/sign-in?next=%2Flog%3Fa%3Db")
        page = await browser.get("/")
        left = await browser.send("/sign-out", {"csrf": hidden_fields(page.text)["csrf"]})
        kept = dict(browser.client.cookies)
        after = await browser.get("/")

    assert (answer.status_code, answer.headers["location"]) == (303, "/log?a=b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"fetchd-{site.port}=")
    assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert page.status_code == 200 and TOKEN not in page.text
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in")
    assert after.status_code == 303 and f"fetchd-{site.port}" not in kept


async def test_an_id_that_was_signed_out_opens_nothing_any_more(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        cookies = dict(browser.client.cookies)
        await browser.send("/sign-out", {"csrf": hidden_fields((await browser.get("/")).text)["csrf"]})
    async with site.browser(cookies=cookies) as thief:
        assert (await thief.get("/")).status_code == 303


@pytest.mark.parametrize("sent", ["", "x", "\ud800"])
async def test_signing_out_wants_the_token_of_the_form(site: Site, sent: str) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        body = b"csrf=%ED%A0%80" if sent == "\ud800" else f"csrf={sent}".encode()
        answer = await browser.client.post(
            "/sign-out", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
        assert answer.status_code == (400 if sent == "\ud800" else 403)
        assert (await browser.get("/")).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"Origin": "https://evil.example"}, 403, id="another site"),
        pytest.param({"Origin": "null"}, 403, id="a sandboxed frame"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="no origin, but another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="another port of this machine"),
        pytest.param({"Host": "evil.example"}, 421, id="a name that was led here"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, 303, id="this very page"),
    ],
)
async def test_other_pages_cannot_sign_anybody_out(site: Site, fields: dict[str, str], status: int) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        csrf = hidden_fields((await browser.get("/")).text)["csrf"]
        assert (await browser.send("/sign-out", {"csrf": csrf}, headers=fields)).status_code == status


@pytest.mark.parametrize(
    ("site_of", "mode", "dest", "status"),
    [
        pytest.param("same-site", "no-cors", "image", 403, id="a picture on a page of another port"),
        pytest.param("same-site", "no-cors", "script", 403, id="a script there"),
        pytest.param("cross-site", "cors", "empty", 403, id="a script's request of another site"),
        pytest.param("cross-site", "navigate", "iframe", 403, id="a frame"),
        pytest.param("cross-site", "navigate", "document", 200, id="a link that somebody sent"),
        pytest.param("same-origin", "cors", "empty", 200, id="the page's own script"),
        pytest.param("none", "navigate", "document", 200, id="typed by hand"),
    ],
)
async def test_pages_elsewhere_get_no_answer_to_measure(
    site: Site, site_of: str, mode: str, dest: str, status: int
) -> None:
    """What browsers say of a request (Fetch metadata); the cookie goes along from every port of this machine."""
    said = {"Sec-Fetch-Site": site_of, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    async with site.browser() as browser:
        await browser.sign_in()
        assert (await browser.get("/", headers=said)).status_code == status
        assert (await browser.get("/healthz", headers=said)).status_code == 200


@pytest.mark.parametrize("kind", ["no cookie", "another's form", "no form"])
async def test_nobody_is_signed_in_by_a_form_that_was_not_opened_in_his_browser(
    site: Site, kind: str
) -> None:
    async with site.browser() as attacker, site.browser() as browser:
        form = await attacker.open_form()
        if kind != "no cookie":
            await browser.open_form()
        fields = {"token": TOKEN} if kind == "no form" else {**form, "token": TOKEN}
        answer = await browser.send("/sign-in", fields)

        assert answer.status_code == 403
        assert "open for too long" in answer.text
        assert (await browser.get("/")).status_code == 303


async def test_a_link_that_was_passed_on_leads_who_is_signed_in_to_its_page(site: Site) -> None:
    """The first request comes without the cookie, as from another site; the next does not."""
    async with site.browser() as browser:
        page = await browser.get("/sign-in?next=%2Flog", headers={"Sec-Fetch-Site": "cross-site"})
        assert '<a href="/log">Go on to the page</a>' in page.text
        assert "Go on to the page" not in (await browser.get("/sign-in?next=%2Flog")).text


async def test_a_wrong_token_says_so_and_shows_the_form_again(site: Site) -> None:
    async with site.browser() as browser:
        answer = await browser.sign_in("<script>alert(1)</script>")
        assert answer.status_code == 403
        assert "the token is not known here" in answer.text and "alert(1)" not in answer.text
        site.tokens.clear()
        assert "make one: fetchd operator token" in (await browser.sign_in("x")).text


async def test_another_token_signs_everybody_out(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        site.tokens.clear()
        site.tokens.add(digest_token("other"))
        assert (await browser.get("/")).status_code == 303
        assert (await browser.sign_in()).status_code == 403
        assert (await browser.sign_in("other")).status_code == 303


async def test_after_many_failures_an_address_waits(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        for _ in range(MAX_FAILURES):
            assert (await browser.get("/", headers={"Authorization": "Bearer no"})).status_code == 401
        right = await browser.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (right.status_code, right.headers["retry-after"]) == (429, "60")
        assert (await browser.get("/")).status_code == 200  # a session stays as it is

    async with site.browser() as browser:
        form = await browser.sign_in()
        assert (form.status_code, form.headers["retry-after"]) == (429, "60")
        site.clock.now += WINDOW_SECONDS
        assert (await browser.sign_in()).status_code == 303


async def test_a_link_signs_in_from_an_address_that_has_to_wait(site: Site) -> None:
    """Whoever shares the operator's address, a script with an old token say, does not keep him out."""
    code = site.access.links.issue()
    async with site.browser() as browser:
        for _ in range(MAX_FAILURES):
            await browser.get("/", headers={"Authorization": "Bearer no"})
        assert (await browser.sign_in()).status_code == 429
        assert (await browser.sign_in(path="/sign-in?code=wrong")).status_code == 429
        assert (await browser.sign_in(path=f"/sign-in?code={code}")).status_code == 303
        assert (await browser.get("/")).status_code == 200


async def test_cookies_of_other_servers_of_this_machine_do_not_hide_the_session(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        ours = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    theirs = "; ".join(f"theirs-{number}={'x' * 1_000}" for number in range(30))
    async with site.browser() as browser:
        assert (await browser.get("/", headers={"Cookie": f"{theirs}; {ours}"})).status_code == 200


async def test_a_session_ends_when_it_is_not_used_and_after_its_time(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        site.clock.now += IDLE_SECONDS - 1
        assert (await browser.get("/")).status_code == 200
        site.clock.now += IDLE_SECONDS
        assert (await browser.get("/")).status_code == 303

        await browser.sign_in()
        for _ in range(int(LIFE_SECONDS // (IDLE_SECONDS - 1))):
            site.clock.now += IDLE_SECONDS - 1
            assert (await browser.get("/")).status_code == 200
        site.clock.now += IDLE_SECONDS - 1
        assert (await browser.get("/")).status_code == 303


# ------------------------------------------------------------------------------------------------- the links


async def test_a_link_signs_in_once(site: Site) -> None:
    async with site.browser() as browser:
        made = await browser.client.post("/v1/sign-in-link", headers={"Authorization": f"Bearer {CONTROL}"})
        path = made.json()["path"]
        assert path.startswith("/sign-in?code=")
        page = await browser.get(path)
        assert "Sign in here" in page.text and 'type="password"' not in page.text
        assert (await browser.get("/")).status_code == 303  # looking at a link uses nothing up
        assert (await browser.sign_in(path=path)).status_code == 303
        assert (await browser.get("/")).status_code == 200
    async with site.browser() as thief:
        again = await thief.sign_in(path=path)
        assert again.status_code == 403 and "the link was used" in again.text


async def test_a_link_is_good_for_a_while(site: Site) -> None:
    code = site.access.links.issue()
    site.clock.now += LINK_SECONDS
    async with site.browser() as browser:
        assert (await browser.sign_in(path=f"/sign-in?code={code}")).status_code == 403


@pytest.mark.parametrize("field", ["", f"Bearer {TOKEN}", "Bearer", f"Basic {CONTROL}"])
async def test_links_are_made_for_the_control_secret_alone(site: Site, field: str) -> None:
    async with site.browser() as browser:
        headers = {"Authorization": field} if field else {}
        assert (await browser.client.post("/v1/sign-in-link", headers=headers)).status_code == 401


# ------------------------------------------------------------------------------------------------- the forms


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        pytest.param(b"{}", "application/json", id="JSON"),
        pytest.param(b"token=x", "text/plain", id="as a form of another site may send"),
        pytest.param(b"token=x&token=y", "application/x-www-form-urlencoded", id="a field twice"),
        pytest.param(b"token=%FF", "application/x-www-form-urlencoded", id="not UTF-8"),
        pytest.param(b"token=\xff", "application/x-www-form-urlencoded", id="not ASCII"),
        pytest.param(b"a=&" * 40, "application/x-www-form-urlencoded", id="many fields"),
        pytest.param(b"token=" + b"x" * 8_192, "application/x-www-form-urlencoded", id="a long one"),
    ],
)
async def test_what_is_no_form_of_ours_is_400(site: Site, body: bytes, media_type: str) -> None:
    async with site.browser() as browser:
        await browser.open_form()
        answer = await browser.client.post("/sign-in", content=body, headers={"Content-Type": media_type})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("/", "/"), ("/log", "/log"), ("/?agent=a%20b&x=/y", "/?agent=a%20b&x=/y"), ("/fetch/019a", "/fetch/019a"),
        (None, "/"), ("", "/"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"), ("/\nx", "/"), ("/a\r\nSet-Cookie: x", "/"), ("/é", "/"),
        ("/" + "a" * 2_000, "/"), ("/log\n", "/"), ("/\t/evil.example", "/"),
    ],
)  # fmt: skip
def test_where_to_go_after_signing_in_is_a_path_of_ours(text: str | None, target: str) -> None:
    assert read_next(text) == target


@given(st.text())
def test_no_text_leads_to_another_server(text: str) -> None:
    target = read_next(text)
    assert target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii()


# ------------------------------------------------------------------------------------------------- the bounds


def test_sessions_are_bounded_and_the_longest_unused_goes() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first, second = sessions.begin(NONE), sessions.begin(NONE)
    assert sessions.find(first, NONE) is not None
    for _ in range(MAX_SESSIONS - 1):
        sessions.begin(NONE)
    assert sessions.find(first, NONE) is not None
    assert sessions.find(second, NONE) is None
    assert sessions.find("x" * 129, NONE) is None


def test_a_look_that_nobody_asked_for_leaves_a_session_idle() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    one = sessions.begin(NONE)
    clock.now += IDLE_SECONDS - 1
    assert sessions.find(one, NONE, use=False) is not None
    clock.now += 1
    assert sessions.find(one, NONE) is None


def test_links_and_addresses_are_bounded() -> None:
    clock = Clock()
    links, attempts = Links(clock), Attempts(clock)
    codes = [links.issue() for _ in range(MAX_LINKS + 1)]
    assert [links.take(code) for code in codes] == [False] + [True] * MAX_LINKS
    for _ in range(MAX_FAILURES):
        attempts.fail("first")
    assert attempts.wait("first") == 60
    for number in range(MAX_ADDRESSES):
        attempts.fail(str(number))
    assert attempts.wait("first") == 0


@pytest.mark.parametrize("secure", [False, True])
def test_over_tls_the_cookie_is_for_this_host_over_tls_alone(secure: bool) -> None:
    access = Access(frozenset, port=3130, secure=secure)
    cookie = access.sign_out({"headers": []})
    assert cookie.startswith("__Host-fetchd-3130=;" if secure else "fetchd-3130=;")
    assert cookie.endswith("; Secure") is secure


@given(st.lists(st.binary()))
def test_any_cookie_field_is_read_or_passed_over(fields: list[bytes]) -> None:
    found = read_cookies({"headers": [(b"cookie", one) for one in fields]})
    assert all(isinstance(value, str) for value in found.values())
