"""A wake-up call for any number of waiting tasks, again and again."""

from __future__ import annotations

import asyncio


class Broadcast:
    """An event that resets itself: `notify` wakes all who wait now.

    Check the condition, then `wait` without an await between: then no notification is missed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next notification."""
        await self._event.wait()

    def notify(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = asyncio.Event()
