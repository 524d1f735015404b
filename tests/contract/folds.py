"""Folds for tests of the logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from collector.logs.log import Committed, Log, OpenFold, StoredRecord


class Recorder:
    """A fold that keeps what it is given. `gate` holds deliveries back while it is closed."""

    def __init__(
        self, partition: int, committed: Committed | None, changed: asyncio.Event, gate: asyncio.Event
    ) -> None:
        self.partition = partition
        self.committed = committed
        self.replayed: list[StoredRecord] = []
        self.delivered: list[StoredRecord] = []
        self.due_at: float | None = None
        self.low_watermark: int | None = None
        self.metadata = committed.metadata if committed else ""
        self.closed = False
        self.gate = gate
        self._changed = changed

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        assert not self.delivered, "replay comes before delivery"
        self.replayed += records
        self._changed.set()

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        await self.gate.wait()
        self.delivered += records
        if self.due_at is not None and records[-1].timestamp >= self.due_at:
            self.due_at = None
        self._changed.set()


class Recorders:
    """Opens recorders; all that a group was given, by partition. `gates` can be cleared and set by partition."""

    def __init__(self, prepare: Callable[[Recorder], None] = lambda _fold: None) -> None:
        self.folds: dict[int, Recorder] = {}
        self.history: list[Recorder] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.changed = asyncio.Event()
        self._prepare = prepare

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncIterator[Recorder]:
        fold = Recorder(partition, committed, self.changed, self.gate(partition))
        self._prepare(fold)
        self.folds[partition] = fold
        self.history.append(fold)
        self.changed.set()
        try:
            yield fold
        finally:
            fold.closed = True
            self.changed.set()

    def gate(self, partition: int) -> asyncio.Event:
        if partition not in self.gates:
            self.gates[partition] = asyncio.Event()
            self.gates[partition].set()
        return self.gates[partition]

    @property
    def delivered(self) -> list[StoredRecord]:
        return [record for fold in self.history for record in fold.delivered if not record.is_tick]

    @property
    def replayed(self) -> list[StoredRecord]:
        return [record for fold in self.history for record in fold.replayed if not record.is_tick]

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.delivered]

    async def until(self, condition: Callable[[], object], patience: float = 60.0) -> None:
        """Wait until the condition holds; it is looked at whenever a fold is given something, and ten times a second."""
        async with asyncio.timeout(patience):
            while not condition():
                self.changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.1)


@asynccontextmanager
async def following(log: Log, group: str, open_fold: OpenFold) -> AsyncIterator[asyncio.Task[None]]:
    """Follow until the block ends; what follow raises comes out."""
    task = asyncio.create_task(log.follow(group, open_fold))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
