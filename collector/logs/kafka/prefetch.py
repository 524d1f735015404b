"""The limit on what was polled and waits for its fold: partitions beyond it are paused.

Not a `BoundedGate`: the thread that polls must never wait, or it would leave the group; it stops fetching instead. And
it counts from two threads.
"""

from __future__ import annotations

import threading


class _Waiting:
    __slots__ = ("bytes", "items", "paused")

    def __init__(self) -> None:
        self.items = 0
        self.bytes = 0
        self.paused = False


class PrefetchLimiter:
    """Counts records and bytes by partition. The polling thread adds, the event loop subtracts.

    A partition is paused when it reaches either limit, and resumed below half of both: without the distance it would be
    paused and resumed at every poll.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}

    def open_partition(self, partition: int) -> None:
        """Start to count a partition, from zero."""
        with self._lock:
            self._waiting[partition] = _Waiting()

    def close_partition(self, partition: int) -> None:
        """Stop counting a partition."""
        with self._lock:
            self._waiting.pop(partition, None)

    def add(self, partition: int, items: int, size: int) -> None:
        """Add what was polled; subtract, with negative numbers, what was delivered."""
        with self._lock:
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.items += items
                waiting.bytes += size

    def paused_partitions(self) -> set[int]:
        """The partitions not to be read now."""
        with self._lock:
            for waiting in self._waiting.values():
                if waiting.paused:
                    waiting.paused = waiting.items > self._max_items // 2 or waiting.bytes > self._max_bytes // 2
                else:
                    waiting.paused = waiting.items >= self._max_items or waiting.bytes >= self._max_bytes
            return {partition for partition, waiting in self._waiting.items() if waiting.paused}
