"""Bulkheads: every judge has its own slots, so that one that is down or slow does not delay the others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkheadLimits:
    """For each judge: `slots` evaluations run at once; `waiting` more, in about `bytes`, wait for a slot."""

    slots: int
    waiting: int = 10_000
    bytes: int = 64 << 20


class Bulkhead:
    """The evaluations of one judge, over all partitions of this process, in the order in which they came."""

    def __init__(self, limits: BulkheadLimits) -> None:
        self.paused_partitions = 0
        """How many partitions are paused because the bulkhead is full."""
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.slots)
        self._inside = 0
        self._running = 0
        self._bytes = 0
        self._released = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many evaluations wait for a slot."""
        return self._inside - self._running

    @property
    def busy(self) -> bool:
        """Whether all slots are in use."""
        return self._inside >= self._limits.slots

    @property
    def full(self) -> bool:
        """Whether nothing more is admitted."""
        # Bytes count only when all slots are in use: a case larger than the limit would otherwise never be admitted,
        # and slots would stay unused. A gate that bounds running and waiting together cannot say this.
        limits = self._limits
        return self.busy and (self._inside >= limits.slots + limits.waiting or self._bytes >= limits.bytes)

    async def acquire(self, size: int) -> None:
        """Admit an evaluation of `size` bytes; waits while full: the back-pressure. `release` with the same size."""
        while self.full:
            await self.wait_for_release()
        self._inside += 1
        self._bytes += size

    async def wait_for_release(self) -> None:
        """Wait until an evaluation ends."""
        self._released.clear()
        self.paused_partitions += 1
        try:
            await self._released.wait()
        finally:
            self.paused_partitions -= 1

    def release(self, size: int) -> None:
        """An evaluation has ended or was cancelled."""
        self._inside -= 1
        self._bytes -= size
        self._released.set()

    @asynccontextmanager
    async def slot(self, queue_timeout: float | None) -> AsyncGenerator[bool]:
        """Use a slot; yields False if none became free within `queue_timeout` seconds. None waits indefinitely."""
        try:
            async with asyncio.timeout(queue_timeout):
                await self._slots.acquire()
        except TimeoutError:
            yield False
            return
        self._running += 1
        try:
            yield True
        finally:
            self._running -= 1
            self._slots.release()


class Bulkheads:
    """The bulkheads by judge name. Evaluators without a judge ("") have slots and no queue: waiting gains nothing."""

    def __init__(self, limits: BulkheadLimits) -> None:
        unqueued = BulkheadLimits(slots=limits.slots, waiting=0)
        self._bulkheads: dict[str, Bulkhead] = defaultdict(lambda: Bulkhead(limits)) | {"": Bulkhead(unqueued)}

    def of(self, judge: str) -> Bulkhead:
        """The bulkhead of a judge."""
        return self._bulkheads[judge]
