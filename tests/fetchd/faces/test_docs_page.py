"""The page at /docs as a browser shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser

from tests.fetchd.faces.served import serve
from tests.kit.browser import open_browser, visit

TOO_WIDE = """[...document.querySelectorAll("body *")]
    .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
    .map(element => element.outerHTML.slice(0, 100))"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
INTRUDERS = """() => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", event => window.refused.push(event.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "window.intruder = 1";
    const image = document.createElement("img");
    image.src = "/healthz";
    const style = document.createElement("style");
    style.textContent = "h1 { color: rgb(1, 2, 3) }";
    document.body.append(script, image, style);
}"""


@dataclass
class Docs:
    browser: Browser
    origin: str

    @property
    def url(self) -> str:
        return f"{self.origin}/docs"


@pytest.fixture
async def docs() -> AsyncIterator[Docs]:
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(open_browser())
        daemon = await stack.enter_async_context(serve({}))
        yield Docs(browser, f"http://127.0.0.1:{daemon.port}")


async def test_it_reads_at_every_width_in_light_and_dark(docs: Docs) -> None:
    """No sideways scrolling from 320 CSS pixels on (WCAG 2.2, 1.4.10); an empty console, nothing else loaded."""
    colours = set()
    for scheme in ("light", "dark"):
        for width in (320, 375, 639, 641, 768, 1280):
            seen = await visit(docs.browser, docs.url, width, scheme)
            assert await seen.page.evaluate(TOO_WIDE) == [], (scheme, width)
            assert await seen.page.evaluate(SIDEWAYS) == 0, (scheme, width)
            assert await seen.page.get_by_role("heading", name="POST /v1/tools/web_fetch").is_visible()
            assert await seen.page.get_by_text("Too many calls are at work and waiting.").first.is_visible()
            assert (seen.said, seen.requests) == ([], [docs.url])
            colours.add((scheme, await seen.page.evaluate("getComputedStyle(document.body).color")))
            await seen.page.close()

    assert colours == {("light", "rgb(0, 0, 0)"), ("dark", "rgb(255, 255, 255)")}


async def test_its_style_is_in_force_and_nothing_else_gets_in(docs: Docs) -> None:
    """The policy lets in the one style sheet it names: no script, no picture, no other style."""
    seen = await visit(docs.browser, docs.url)
    look = "getComputedStyle(document.querySelector('{}')).{}"
    family = await seen.page.evaluate(look.format("h2 code", "fontFamily"))
    before = await seen.page.evaluate(look.format("h1", "color"))
    await seen.page.evaluate(INTRUDERS)
    await seen.page.wait_for_function("window.refused.length === 3")

    assert "monospace" in family
    assert await seen.page.evaluate("window.intruder") is None
    assert await seen.page.evaluate(look.format("h1", "color")) == before
    assert sorted(await seen.page.evaluate("window.refused")) == [
        "img-src",
        "script-src-elem",
        "style-src-elem",
    ]


async def test_its_links_lead_somewhere(docs: Docs) -> None:
    seen = await visit(docs.browser, docs.url)
    links = await seen.page.eval_on_selector_all("a", "all => all.map(one => one.getAttribute('href'))")
    missing = [
        link
        for link in sorted(set(links))
        if link.startswith("#") and await seen.page.locator(f'[id="{link[1:]}"]').count() != 1
    ]
    assert missing == []
    assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}

    await seen.page.get_by_role("link", name="/openapi.json").click()
    await seen.page.wait_for_url(f"{docs.origin}/openapi.json")
    assert '"openapi":"3.1' in await seen.page.content()
