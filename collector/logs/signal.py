"""Wakes everybody who waits for something to happen again."""

from __future__ import annotations

import asyncio


class Signal:
    """Can be waited for by many and given again and again. Who looks before waiting, without an await between, misses
    nothing.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next time it is given."""
        await self._event.wait()

    def give(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = asyncio.Event()
