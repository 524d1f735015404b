"""How much of each partition waits for its fold, and which partitions are therefore not to be read now."""

from __future__ import annotations

import threading


class _Waiting:
    __slots__ = ("bytes", "items", "paused")

    def __init__(self) -> None:
        self.items = 0
        self.bytes = 0
        self.paused = False


class Flow:
    """Counts records and bytes by partition. Filled by the thread that polls, emptied by the event loop.

    A partition is paused when it reaches either bound, and goes on when it is below half of both.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}

    def open(self, partition: int) -> None:
        """Count a partition, from nothing."""
        with self._lock:
            self._waiting[partition] = _Waiting()

    def close(self, partition: int) -> None:
        """Count it no more."""
        with self._lock:
            self._waiting.pop(partition, None)

    def add(self, partition: int, items: int, size: int) -> None:
        """More waits; less with negative numbers."""
        with self._lock:
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.items += items
                waiting.bytes += size

    def paused(self) -> set[int]:
        """The partitions that are not to be read now."""
        with self._lock:
            for waiting in self._waiting.values():
                if waiting.paused:
                    waiting.paused = waiting.items > self._max_items // 2 or waiting.bytes > self._max_bytes // 2
                else:
                    waiting.paused = waiting.items >= self._max_items or waiting.bytes >= self._max_bytes
            return {partition for partition, waiting in self._waiting.items() if waiting.paused}
