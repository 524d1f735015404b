"""A real browser for tests: Debian's chromium, without a head and without a network of its own."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

PATH = Path("/usr/bin/chromium")
NO_WORD = re.compile(r"null|undefined|NaN|\[object \w+\]")
"""What a browser makes of values that are not there: no person writes it in these tests."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def need_chromium() -> None:
    """Skip, or fail where everything has to be there, with one line that says what to install."""
    if PATH.exists():
        return
    message = f"{PATH} is not there; install Debian's package chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


class Tab:
    """An open page, and everything that went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda message: message.type in ("error", "warning") and self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: "//127.0.0.1:" in request.url or self.foreign.append(request.url))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


class Chromium:
    """A browser that runs. Its pages share nothing."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @asynccontextmanager
    async def browsing(
        self,
        url: str,
        *,
        width: int = 1360,
        height: int = 900,
        scheme: str = "light",
        touch: bool = False,
        ready: str = "body[data-ready]",
        allow: str = "",
    ) -> AsyncIterator[Tab]:
        """Open an address and wait until it shows what is `ready`.

        On leaving, nothing may have gone wrong in it but what says `allow`.
        """
        context = await self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=touch,
            locale="en-GB",
            timezone_id="UTC",
        )
        try:
            context.set_default_timeout(8000)
            tab = Tab(await context.new_page())
            await tab.goto(url)
            await tab.wait_for_selector(ready)
            yield tab
            assert NO_WORD.findall(await tab.locator("body").inner_text()) == [], "nothing of the program is shown"
            assert ([each for each in tab.wrong if not (allow and allow in each)], tab.foreign) == ([], [])
        finally:
            await context.close()


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Chromium]:
    """A browser, which belongs to the event loop that starts it."""
    need_chromium()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(PATH), args=list(FLAGS))
        try:
            yield Chromium(browser)
        finally:
            await browser.close()


@asynccontextmanager
async def browsing(url: str, **options: Any) -> AsyncIterator[Tab]:
    """`Chromium.browsing` in a browser that is started for it."""
    async with running_chromium() as chromium, chromium.browsing(url, **options) as tab:
        yield tab
