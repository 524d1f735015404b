"""Folds that are exchanged while their partitions stay: each is closed and opened again, as by a restart.

The new fold replays the records that the old one still needed, and continues at its position. Records that were being
delivered when the old one was exchanged are delivered again to the new one. The consumer notices nothing, and no
partition moves.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from collector.backoff import Backoff
from collector.logs.log import (
    Committed,
    Fold,
    FoldWrapper,
    Log,
    LogUnavailable,
    OpenFold,
    StoredRecord,
    UnreadableRecords,
)

READING = Backoff(cap=1.0)
"""How reading a partition back is retried: without end, as at a start."""


class ExchangeableFolds:
    """The folds of a log's partitions, opened by `open_inner` until `exchange` names another way to open them."""

    def __init__(self, log: Log, open_inner: OpenFold) -> None:
        self.log = log
        self.open_inner = open_inner
        self._folds: set[_ExchangeableFold] = set()

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        """Open the fold of a partition."""
        async with asyncio.TaskGroup() as tasks:
            fold = _ExchangeableFold(self, tasks, partition, committed)
            self._folds.add(fold)
            try:
                await fold.open_first()
                yield fold
            finally:
                self._folds.discard(fold)
                await fold.end()

    async def exchange(self, open_inner: OpenFold) -> None:
        """Open all folds in another way, now and from now on; returns when they are open.

        A fold that is being opened by the old function is exchanged as soon as it is open.
        """
        self.open_inner = open_inner
        await asyncio.gather(*(fold.exchange() for fold in list(self._folds)))


async def _hold(
    opening: AbstractAsyncContextManager[Fold], ready: asyncio.Future[Fold], closing: asyncio.Event
) -> None:
    """Keep an inner fold open, in a task of its own, because another task than the opening one closes it."""
    async with opening as fold:
        ready.set_result(fold)
        await closing.wait()


class _ExchangeableFold:
    """The fold of one partition. Each use or exchange of the inner one holds the lock."""

    def __init__(
        self, folds: ExchangeableFolds, tasks: asyncio.TaskGroup, partition: int, committed: Committed | None
    ) -> None:
        self._folds = folds
        self._tasks = tasks
        self._partition = partition
        self._state = committed
        """The last state between two deliveries that may be committed, and from which a new fold is opened."""
        self._delivered = committed.offset if committed else None
        self._next = committed.low_watermark if committed else None
        """The offset after the last record that was replayed or delivered."""
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Fold] | None = None
        self._running: asyncio.Task[None] | None = None
        self._inner: Fold | None = None
        self._stateful: Fold | None = None
        self.due_at: float | None = None
        """The inner fold's `due_at`, as of the last `_refresh`: after each delivery, and before each commit."""
        self._delivering: asyncio.Task[None] | None = None
        self._exchanging = 0
        self._reopening: asyncio.Task[None] | None = None
        self._ended = False

    @property
    def takes_unreadable(self) -> bool:
        return getattr(self._inner, "takes_unreadable", False)

    @property
    def low_watermark(self) -> int | None:
        self._refresh()
        return self._state.low_watermark if self._state else None

    @property
    def metadata(self) -> str:
        """The metadata of the same state as the last `low_watermark`."""
        return self._state.metadata if self._state else ""

    def _refresh(self) -> None:
        """Read the state of the inner fold, if it has one that may be committed."""
        stateful, delivered = self._stateful, self._delivered
        if stateful is None or delivered is None or (self._next is not None and self._next < delivered):
            return  # it is closed, or replays
        if self._delivering is None and self._reopening is None:
            low, self.due_at = stateful.low_watermark, stateful.due_at
            self._state = Committed(delivered if low is None else min(low, delivered), delivered, stateful.metadata)

    async def open_first(self) -> None:
        """Open the inner fold. An exchange meanwhile waits: else this partition would keep the old fold."""
        async with self._lock:
            await self._open()

    async def end(self) -> None:
        """Close for good, because the partition is taken away, perhaps during an exchange."""
        self._ended = True
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.wait([self._reopening])
        await self._close()

    async def _open(self) -> None:
        opening = self._folds.open_inner(self._partition, self._state)
        self._closing, self._ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        self._running = self._tasks.create_task(_hold(opening, self._ready, self._closing))
        await asyncio.wait([self._ready, self._running], return_when=asyncio.FIRST_COMPLETED)
        self._inner = inner = self._ready.result() if self._ready.done() else None
        self._stateful = inner.stateful if isinstance(inner, FoldWrapper) else inner

    async def _close(self) -> None:
        self._inner = self._stateful = self.due_at = None
        if self._ready is not None and self._running is not None:
            self._closing.set()
            if not self._ready.done():
                self._running.cancel()
            await asyncio.wait([self._running])

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        async with self._lock:
            assert self._inner is not None
            await self._inner.replay(records)
            self._next = records[-1].offset + 1

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`. If the fold is exchanged meanwhile, the new one gets the records."""
        was_delivered = False
        while not was_delivered:
            async with self._lock:
                assert self._inner is not None
                if self._delivered is None:
                    self._next = self._delivered = records[0].offset
                if self._state is None or self._state.offset != self._delivered:
                    self._refresh()
                self._delivering = delivering = asyncio.ensure_future(self._inner.deliver(records))
                try:
                    await asyncio.wait([delivering])
                except asyncio.CancelledError:
                    delivering.cancel()
                    await asyncio.wait([delivering])
                    raise
                finally:
                    self._delivering = None
                was_delivered = not (delivering.cancelled() and self._exchanging)
                if was_delivered:
                    delivering.result()
                    self._next = self._delivered = records[-1].offset + 1

    async def exchange(self) -> None:
        """Close the inner fold, open a new one, and bring it to the same position."""
        self._exchanging += 1
        try:
            if self._delivering is not None:
                self._delivering.cancel()
            await self._lock.acquire()
        finally:
            self._exchanging -= 1
        try:
            if self._inner is not None and not self._ended:
                self._refresh()
                await self._exchange_inner()
        finally:
            self._lock.release()

    async def _exchange_inner(self) -> None:
        self._reopening = reopening = asyncio.ensure_future(self._reopen())
        try:
            await asyncio.wait([reopening])
        except asyncio.CancelledError:
            reopening.cancel()
            await asyncio.wait([reopening])
            raise
        finally:
            self._reopening = None
        if not reopening.cancelled():  # otherwise the partition was taken away
            reopening.result()

    async def _reopen(self) -> None:
        await self._close()
        await self._open()
        await self._replay()

    async def _replay(self) -> None:
        """Replay the records that the consumer has replayed or delivered already."""
        if self._state is None or self._next is None:
            return
        start, end = self._state.low_watermark, self._next

        async def replay() -> None:
            nonlocal start
            async for batch in self._folds.log.read(self._partition, start):
                records = [record for record in batch if record.offset < end]
                if not self.takes_unreadable:
                    records = [record for record in records if type(record) is not UnreadableRecords]
                if records and self._inner is not None:
                    await self._inner.replay(records)
                start = batch[-1].offset + 1
                if start >= end:
                    return

        if start < end:
            await READING.repeat(replay, LogUnavailable, action="reading a partition back")
