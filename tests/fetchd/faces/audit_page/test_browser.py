"""The operator's pages as a browser shows them: at every width, in light and dark, alive, and hard to abuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page

from proxy_addons.audit import AuditLog, Outcome
from tests.fetchd.audit_index.kit import KEYS, START_NS, Clock, hop, write_log
from tests.fetchd.faces.audit_page.hostile import PAYLOADS, write_hostile
from tests.fetchd.faces.audit_page.site import TOKEN, Site, open_site
from tests.kit.browser import Visit, open_browser, visit
from tests.kit.corpora import REPOSITORY
from tests.kit.tools import give_up

AXE = REPOSITORY / "tests/e2e/node/node_modules/axe-core/axe.min.js"
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BROKEN = """() => {
    const lines = one => {
        const walk = document.createTreeWalker(one, NodeFilter.SHOW_TEXT), tops = new Set();
        while (walk.nextNode()) if (walk.currentNode.data.trim()) {
            const range = document.createRange();
            range.selectNodeContents(walk.currentNode);
            for (const rect of range.getClientRects()) tops.add(Math.round(rect.top));
        }
        return tops.size;
    };
    const all = names => [...document.querySelectorAll(names)];
    return [
        ...all(".rows .badge, .rows .agent a, .rows td:last-child a, .hosts .number, .rows th, .hosts thead th")
            .filter(one => lines(one) > 1),
        ...all(".rows time").filter(one => lines(one) > 2),
        ...all(".hosts .number, .rows td").filter(one => {
            const box = (one.closest(".panel") || document.body).getBoundingClientRect();
            return one.getBoundingClientRect().right > box.right + 0.5;
        }),
    ].map(one => one.outerHTML);
}"""
"""Words cut in two, and columns out of sight."""
READING = """() => {
    const one = document.querySelectorAll(".rows .agent a")[8];
    window.scrollBy(0, one.getBoundingClientRect().top - 5);
    return [one.id, one.getBoundingClientRect().top];
}"""
INTRUDERS = """() => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", event => window.refused.push(event.effectiveDirective));
    const script = document.createElement("script");
    try { script.src = "https://evil.example/x.js"; } catch (error) { window.refused.push("trusted address"); }
    const image = document.createElement("img");
    image.src = "/healthz";
    const style = document.createElement("style");
    style.textContent = "h1 { color: rgb(1, 2, 3) }";
    const frame = document.createElement("iframe");
    frame.src = "https://evil.example/";
    document.body.append(image, style, frame);
    try { document.body.innerHTML = "<b>x</b>"; } catch (error) { window.refused.push("trusted types"); }
    try { script.text = "window.intruder = 1"; document.body.append(script); } catch (error) {
        window.refused.push("trusted script");
    }
    fetch("https://evil.example/").catch(() => {});
}"""


@dataclass
class Stage:
    browser: Browser
    site: Site

    async def open(self, path: str, width: int = 1280, scheme: Literal["light", "dark"] = "light") -> Visit:
        """A page, after signing in as a person does."""
        seen = await visit(self.browser, f"{self.site.origin}{path}", width, scheme)
        await seen.page.get_by_label("Operator's token").fill(TOKEN)
        await seen.page.get_by_role("button", name="Sign in").click()
        await seen.page.wait_for_url(f"{self.site.origin}{path}")
        return seen


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    write_log(tmp_path / "audit")
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(open_browser())
        site = await stack.enter_async_context(open_site(tmp_path))
        yield Stage(browser, site)


async def find_barriers(page: Page) -> list[str]:
    """What axe-core finds."""
    if not AXE.exists():
        give_up("axe-core is not installed (make setup, with npm)")
    await page.evaluate(AXE.read_text("utf-8"))
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


async def test_it_reads_at_every_width_in_light_and_dark_without_a_barrier(stage: Stage) -> None:
    """No sideways scrolling from 320 CSS pixels on (WCAG 2.2, 1.4.10), axe-core clean, an empty console."""
    pages = ("/?range=all", "/?agent=nobody", "/fetch/g2", "/fetch/fsuccess", "/log", "/line?chain=gateway-0&seq=1",
             "/fetch/nothing")  # fmt: skip
    colours = set()
    for scheme in ("light", "dark"):
        seen = await stage.open("/", 320, scheme)
        for path in pages if scheme == "light" else pages[:3:2]:
            await seen.page.set_viewport_size({"width": 1280, "height": 900})
            await seen.page.goto(f"{stage.site.origin}{path}")
            assert await find_barriers(seen.page) == [], (scheme, path)
            for width in (320, 640, 900):
                await seen.page.set_viewport_size({"width": width, "height": 900})
                assert await seen.page.evaluate(SIDEWAYS) == 0, (scheme, width, path)
            if path in pages[:3:2]:
                await seen.page.set_viewport_size({"width": 320, "height": 900})
                assert await find_barriers(seen.page) == [], (scheme, path, 320)
        colours.add((scheme, await seen.page.evaluate("getComputedStyle(document.body).backgroundColor")))
        said = [one for one in seen.said if "404" not in one]  # the page that says so, last
        assert said == []
        assert {one.startswith(f"{stage.site.origin}/") for one in seen.requests} == {True}
        await seen.page.close()
    assert colours == {("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")}


async def test_no_word_of_a_row_is_cut_in_two_and_no_column_is_out_of_sight(stage: Stage) -> None:
    """Agents, rules and hosts as long as they come in practice, where the rows are a table, and in cards."""
    log = AuditLog.open(stage.site.log, "gateway-7", KEYS, clock=Clock(START_NS))
    words: dict[str, Any] = {"agent": "research-agent-7", "fetch_id": "019c018e-be81-74d1-834a-307833714f83"}
    long = (
        "https://name-that-goes-on.and-on.edge-cache-eu-central-1.d111111abcdef8.provider.example/" + "a" * 80
    )
    hop(log, **words, verdict=Outcome.REFUSED, rule="no-allowed-address", detail="why " * 20, url=long)
    hop(log, **words, would_refuse="authority-mismatch", closing={"decoded_bytes": 1023 << 20})
    log.close()
    await asyncio.to_thread(stage.site.index)
    seen = await stage.open("/?range=all")
    for width in (1920, 1280, 1100, 1000, 360):
        await seen.page.set_viewport_size({"width": width, "height": 900})
        assert await seen.page.evaluate(BROKEN) == [], width
        assert await seen.page.evaluate(SIDEWAYS) == 0, width


async def test_the_form_to_sign_in_has_no_barrier(stage: Stage) -> None:
    for scheme in ("light", "dark"):
        seen = await visit(stage.browser, f"{stage.site.origin}/", 320, scheme)
        assert await find_barriers(seen.page) == []
        await seen.page.get_by_label("Operator's token").fill("wrong")
        await seen.page.keyboard.press("Enter")
        await seen.page.get_by_role("alert").wait_for()
        assert await find_barriers(seen.page) == []
        await seen.page.close()


async def test_newer_rows_are_seen_as_they_come_until_that_is_paused(stage: Stage) -> None:
    seen = await stage.open("/")
    page = seen.page
    await page.locator("#verdicts-table summary").click()
    await page.locator(".rows a").first.focus()
    focused = await page.evaluate("document.activeElement.id")
    log = AuditLog.open(stage.site.log, "gateway-7", KEYS, clock=Clock(START_NS + 400 * 10**9))
    hop(log, fetch_id="fresh1", verdict=Outcome.REFUSED, rule="scheme", url="http://fresh.example/")
    await asyncio.to_thread(stage.site.index)

    await page.get_by_role("cell", name="http://fresh.example/").wait_for()
    await page.get_by_role("status").get_by_text("2 new rows").wait_for()  # the chain's opening is one
    assert await page.evaluate("document.activeElement.id") == focused
    assert await page.locator("#verdicts-table").get_attribute("open") is not None
    assert "scheme" in await page.locator("#rules-title + p + svg + p + ul").inner_text()

    await page.get_by_role("button", name="Pause live updates").click()
    hop(log, fetch_id="fresh2", url="https://later.example/")
    log.close()
    await asyncio.to_thread(stage.site.index)
    async with page.expect_response("**/live") as told:  # another page is told, so this one was too
        other = await stage.open("/")
        await other.page.get_by_role("cell", name="https://later.example/").wait_for()
        await page.evaluate("new EventSource('/live')")
    assert (await told.value).status == 200
    assert await page.get_by_role("cell", name="https://later.example/").count() == 0
    await page.get_by_role("button", name="Pause live updates").click()
    await page.get_by_role("cell", name="https://later.example/").wait_for()

    # The row that is read stays where it is while others come above it.
    identity, top = await page.evaluate(READING)
    log = AuditLog.open(stage.site.log, "gateway-6", KEYS, clock=Clock(START_NS + 450 * 10**9))
    hop(log, fetch_id="above", url="https://above.example/")
    log.close()
    await asyncio.to_thread(stage.site.index)
    await page.get_by_role("cell", name="https://above.example/").wait_for()
    assert (
        abs(
            await page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", identity)
            - top
        )
        <= 1
    )

    # What is marked stays, to be copied; the rows come when it is let go.
    await page.evaluate("document.getSelection().selectAllChildren(document.querySelector('.rows .target'))")
    log = AuditLog.open(stage.site.log, "gateway-9", KEYS, clock=Clock(START_NS + 500 * 10**9))
    for name in ("marked", "again"):
        hop(log, fetch_id=name, url=f"https://{name}.example/")
        await asyncio.to_thread(stage.site.index)
        await other.page.get_by_role("cell", name=f"https://{name}.example/").wait_for()
    log.close()
    async with page.expect_response("**/live") as told:
        await page.evaluate("new EventSource('/live')")
    assert (await told.value).status == 200
    assert await page.get_by_role("cell", name="https://marked.example/").count() == 0
    await page.evaluate("document.getSelection().removeAllRanges()")
    await page.get_by_role("cell", name="https://marked.example/").wait_for()

    # A page that nobody sees holds none of the browser's few connections.
    hide = "is => { Object.defineProperty(document, 'hidden', {value: is, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    async with other.page.expect_event("requestfailed", lambda one: one.url.endswith("/live")):
        await other.page.evaluate(hide, True)
    async with other.page.expect_request("**/live"):
        await other.page.evaluate(hide, False)

    # Who watches is told that nothing comes any more, and that it does again.
    await other.page.route("**/live", lambda route: route.abort())
    await other.page.reload()
    await other.page.get_by_role("status").get_by_text("Not connected").wait_for()
    await other.page.unroute("**/live")
    await other.page.get_by_role("status").get_by_text("Not connected").wait_for(state="detached")
    assert seen.said == []


async def test_filters_are_used_by_keyboard_and_lead_on(stage: Stage) -> None:
    seen = await stage.open("/")
    page = seen.page
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"

    await page.get_by_label("Agent", exact=True).fill("bot")
    await page.get_by_label("Rule", exact=True).select_option("host")
    await page.keyboard.press("Tab")
    await page.get_by_label("Host", exact=True).fill("evil.example")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**rule=host**")
    assert await page.locator(".rows tbody tr").count() == 1
    assert await page.get_by_label("Agent", exact=True).input_value() == "bot"
    assert "agent bot, host evil.example, rule host" in await page.locator("#live .status").inner_text()

    await page.get_by_role("link", name="fetch g1").click()
    await page.wait_for_url("**/fetch/g1")
    assert "refused by rule host" in await page.locator("main").inner_text()
    await page.go_back()
    await page.get_by_role("link", name="Clear").click()
    await page.get_by_label("Since (UTC)").fill("2026-01-01T00:02")
    await page.locator("#rows").select_option("25")
    await page.get_by_role("button", name="Show").click()
    await page.wait_for_url("**since=2026-01-01T00**")
    times = await page.locator(".rows tbody time").all_inner_texts()
    assert times and min(times) >= "2026-01-01 00:02"
    async with page.expect_download() as loading:
        await page.get_by_role("link", name="CSV").click()
    assert (await loading.value).suggested_filename == "fetchd-audit-20260101T001000Z.csv"
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("Operator's token").wait_for()
    assert seen.said == []


async def test_without_script_it_is_a_page_like_any_other(stage: Stage) -> None:
    context = await stage.browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{stage.site.origin}/?verdict=refused")
    await page.get_by_label("Operator's token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    assert await page.locator(".rows tbody tr").count() == 3
    assert not await page.get_by_role("button", name="Pause live updates").is_visible()
    await context.close()


async def test_what_stands_in_the_log_does_nothing_and_is_seen(stage: Stage) -> None:
    """Hostile text in every member of every kind of line: no script runs, nothing is loaded, no page is left."""
    write_hostile(stage.site.log)
    await asyncio.to_thread(stage.site.index)
    seen = await stage.open("/?range=all&rows=200")
    page = seen.page
    await page.evaluate(
        "document.addEventListener('securitypolicyviolation', e => window.violated = e.blockedURI)"
    )
    links = await page.eval_on_selector_all(".rows a", "all => all.map(one => one.href)")
    assert len(links) > 100
    for path in (
        *(f"/fetch/x{number}" for number in range(len(PAYLOADS))), links[0], links[-1], "/log", "/?kind=vendor",
        *(f"/line?chain=hostile&seq={seq}" for seq in (8, 10, 18, 20)),
    ):  # fmt: skip
        await page.goto(path if "://" in path else f"{stage.site.origin}{path}")
        text = await page.locator("body").inner_text()
        assert await page.evaluate("[window.intruder, window.violated]") == [None, None], path
        assert page.url.startswith(f"{stage.site.origin}/"), path
        assert "8337" not in text, path
        assert (
            await page.evaluate(
                "document.querySelectorAll('script:not([src]), img, iframe, base, main [onload]').length"
            )
            == 0
        )
    await page.goto(f"{stage.site.origin}/fetch/x8")
    assert "\\u202egnp.elbissoq\\u202c\\u2066x\\u2069\\u200b" in await page.locator("main").inner_text()
    await page.goto(f"{stage.site.origin}/fetch/x9")
    assert "\\x1b[31mred\\x00\\x07\\x0d\\x0aSet-Cookie" in await page.locator("main").inner_text()
    await page.goto(f"{stage.site.origin}/fetch/x0")
    assert "<script>window.intruder = 1</script>" in await page.locator("main").inner_text()
    assert [one for one in seen.said if "404" not in one] == []
    assert {one.startswith(f"{stage.site.origin}/") for one in seen.requests} == {True}


async def test_the_policy_refuses_what_would_get_in(stage: Stage) -> None:
    seen = await stage.open("/")
    await seen.page.evaluate(INTRUDERS)
    await seen.page.wait_for_function("window.refused.length >= 7")
    assert await seen.page.evaluate("window.intruder") is None
    assert {"img-src", "style-src-elem", "frame-src", "connect-src", "trusted types"} <= set(
        await seen.page.evaluate("window.refused")
    )
