"""A bound on items in progress, by number and by bytes. Items beyond it wait."""

import asyncio
from collections import deque
from contextlib import AbstractContextManager


class BoundedGate:
    """Admits up to `max_items` items of up to `max_bytes` bytes together. One event loop; no locks.

    `wait` admits in the order of arrival. Items that are larger than the whole gate are admitted when nothing else is
    inside, so that they are not stuck.

    Example: `with await gate.wait(items, size): ...` releases at the end; without `with`, call `release` once.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.items = 0
        self.bytes = 0
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._queue: deque[tuple[int, int, asyncio.Future[Reservation]]] = deque()

    async def wait(self, items: int, size: int) -> "Reservation":
        """Reserve `items` items of `size` bytes together; waits until they fit, and its turn comes."""
        if not self._queue and self._fits(items, size):
            self.change(items, size)
            return Reservation(self, items, size)
        admitted: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        self._queue.append((items, size, admitted))
        try:
            return await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                admitted.result().release()  # admitted at the very moment of giving up: no other code would release it
            else:
                self._queue.remove((items, size, admitted))
                self._admit_waiting()  # the next ones in the queue may be smaller, and fit
            raise

    def change(self, items: int, size: int) -> None:
        """Change the size of a reservation; freed room goes to those who wait."""
        self.items += items
        self.bytes += size
        if items < 0 and self._queue:
            self._admit_waiting()

    def _fits(self, items: int, size: int) -> bool:
        return not self.items or (self.items + items <= self._max_items and self.bytes + size <= self._max_bytes)

    def _admit_waiting(self) -> None:
        while self._queue and self._fits(*self._queue[0][:2]):
            items, size, admitted = self._queue.popleft()
            self.change(items, size)  # now, not when the task wakes, so that no other task gets the room
            admitted.set_result(Reservation(self, items, size))


class Reservation(AbstractContextManager["Reservation"]):
    """Items and bytes inside a gate, until `release`; also a context manager that releases."""

    __slots__ = ("_gate", "bytes", "items")

    def __init__(self, gate: BoundedGate, items: int, size: int) -> None:
        self._gate = gate
        self.items = items
        self.bytes = size

    def release(self) -> None:
        """Leave the gate; those who wait may enter. Only the first call counts."""
        items, size, self.items, self.bytes = self.items, self.bytes, 0, 0
        self._gate.change(-items, -size)

    def __exit__(self, *_error: object) -> None:
        self.release()
