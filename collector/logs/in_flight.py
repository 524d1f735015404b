"""How much may be on its way at once."""

from __future__ import annotations

import asyncio
from collections import deque


class InFlight:
    """Bounds what is on its way by number and by bytes. First come, first served.

    A single request beyond the bounds is let through when nothing else is on its way, so that it is not stuck.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.items = 0
        self.bytes = 0
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    async def acquire(self, items: int, size: int) -> None:
        """Wait for room and take it."""
        if not self._waiting and self._fits(items, size):
            self._take(items, size)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((items, size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(items, size)  # room was given in the moment of giving up
            else:
                self._waiting.remove((items, size, turn))
                self._admit()
            raise

    def release(self, items: int, size: int) -> None:
        """Give room back."""
        self.items -= items
        self.bytes -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(*self._waiting[0][:2]):
            items, size, turn = self._waiting.popleft()
            self._take(items, size)
            turn.set_result(None)

    def _fits(self, items: int, size: int) -> bool:
        if not self.items:
            return True
        return self.items + items <= self._max_items and self.bytes + size <= self._max_bytes

    def _take(self, items: int, size: int) -> None:
        self.items += items
        self.bytes += size
