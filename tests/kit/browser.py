"""A real browser without a window: Debian's chromium, driven by Playwright, with a profile of its own each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.async_api import Browser, Page, async_playwright

from tests.kit.tools import require_tool

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --no-proxy-server --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@dataclass
class Visit:
    """An open page, and what happened in it so far. said: errors and warnings of the console; requests: URLs."""

    page: Page
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Started once; ends with its context."""
    program = require_tool("chromium")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


async def visit(
    browser: Browser, url: str, width: int = 1280, scheme: Literal["light", "dark"] = "light"
) -> Visit:
    """`url` in a new page of so many CSS pixels, loaded."""
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    made = Visit(page)
    page.on("console", lambda message: made.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: made.said.append(f"error: {error}"))
    page.on("request", lambda request: made.requests.append(request.url))
    await page.goto(url)
    return made
