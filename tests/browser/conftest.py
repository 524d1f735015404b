"""One browser for all tests of the folder: to start it takes longer than most of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from chromium import Chromium, running_chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Chromium]:
    """The session's browser. Tests that use it run in the session's event loop."""
    async with running_chromium() as chromium:
        yield chromium
