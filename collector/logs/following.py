"""Feeds the folds of the partitions that one process owns: replay, delivery, ticks, commits. The same for every log."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from collector.errors import first_of
from collector.logs.clock import SteadyClock
from collector.logs.log import TICK, Committed, Fold, LogUnavailable, OpenFold, Record, Stored, Unreadable

logger = logging.getLogger(__name__)

TICK_PATIENCE = 10.0
"""Seconds after which a tick that was appended and never came back is taken for lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often things are done.

    `clock` gives seconds since the epoch, without jumps. `tick_interval` is the time between two looks at what is due
    and `commit_interval` between two commits, in seconds. A chunk holds at most `chunk_records` records and about
    `chunk_bytes` bytes. `patience` is how long (s) a log may be out of reach before `follow` gives up.
    """

    clock: Callable[[], float] = field(default_factory=SteadyClock)
    tick_interval: float = 0.1
    commit_interval: float = 1.0
    chunk_records: int = 500
    chunk_bytes: int = 4 << 20
    patience: float = 60.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition in order, and the position behind them.

    `end` may lie further than the last record: what is between can never be read.
    """

    records: Sequence[Stored]
    end: int


class Stream(Protocol):
    """The records of one partition, from the group's low watermark on."""

    @property
    def waiting(self) -> bool:
        """Whether `next` waits because every record that is there was given."""
        ...

    async def next(self) -> Chunk:
        """The next records; waits until there are some.

        Raises:
            LogUnavailable: the log could not be read; asking again may help.
        """
        ...


class Feed:
    """Feeds the fold of one partition and knows what may be committed for it.

    What may be committed is read from the fold only between two deliveries. While one is under way the state before it
    stays good: it says that the records under way will be delivered again.
    """

    def __init__(self, partition: int, committed: Committed | None, start: int, stream: Stream, pace: Pace) -> None:
        """`start` is the position of the oldest record, for a group that has committed nothing."""
        self.partition = partition
        self._committed = committed
        self._position = committed.position if committed else start
        self._replayed = committed is None or committed.low_watermark >= committed.position
        self._stream = stream
        self._pace = pace
        self._fold: Fold | None = None
        self._delivering = False
        self._state: Committed | None = None
        self._tick_until = 0.0

    async def run(self, open_fold: OpenFold) -> None:
        """Feed until cancelled. The fold is closed on return, whatever the reason."""
        async with open_fold(self.partition, self._committed) as fold:
            self._fold = fold
            try:
                while True:
                    await self._take(fold, await self._next())
            finally:
                self._look()
                self._fold = None

    def snapshot(self) -> Committed | None:
        """What is to be committed now; None if nothing has changed."""
        self._look()
        return self.pending

    @property
    def pending(self) -> Committed | None:
        """What `snapshot` found last and is not committed. Only looks, so that another thread may ask."""
        return None if self._state == self._committed else self._state

    def committed(self, state: Committed) -> None:
        """The log has taken this commit."""
        self._committed = state

    def due(self, now: float) -> bool:
        """Whether only a tick can tell the fold that its time has come."""
        if self._fold is None or not self._replayed or not self._stream.waiting or now < self._tick_until:
            return False
        due_at = self._fold.due_at
        return due_at is not None and due_at <= now

    def ticked(self, now: float) -> None:
        """A tick is on its way."""
        self._tick_until = now + TICK_PATIENCE

    def tick_failed(self, now: float) -> None:
        """The tick was not appended; try again in a second."""
        self._tick_until = now + 1.0

    async def _next(self) -> Chunk:
        failing_since: float | None = None
        while True:
            try:
                return await self._stream.next()
            except LogUnavailable as error:
                now = self._pace.clock()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since >= self._pace.patience:
                    raise
                logger.warning("partition %d cannot be read (%s); trying again", self.partition, error)
                await asyncio.sleep(min(1.0, self._pace.patience / 10))

    async def _take(self, fold: Fold, chunk: Chunk) -> None:
        self._delivering = True
        records = chunk.records
        if not getattr(fold, "takes_unreadable", False) and any(type(each) is Unreadable for each in records):
            records = [each for each in records if type(each) is not Unreadable]
        if not self._replayed:
            old = bisect_left(records, self._position, key=attrgetter("position"))
            if old:
                await fold.replay(records[:old])
            records = records[old:]
            self._replayed = chunk.end >= self._position
        if records:
            await fold.deliver(records)
            self._mind_ticks(fold, records)
        self._position = max(self._position, chunk.end)
        self._delivering = False
        self._look()

    def _mind_ticks(self, fold: Fold, records: Sequence[Stored]) -> None:
        """A tick has come back. If the log's clock is behind ours, leave it the time to catch up."""
        ticks = [record for record in records if record.is_tick]
        if ticks and self._tick_until:
            due_at = fold.due_at
            behind = 0.0 if due_at is None else max(0.0, due_at - ticks[-1].timestamp)
            self._tick_until = self._pace.clock() + min(behind, TICK_PATIENCE) if behind else 0.0

    def _look(self) -> None:
        if self._fold is None or self._delivering or not self._replayed:
            return
        low = self._fold.low_watermark
        low = self._position if low is None else min(low, self._position)
        self._state = Committed(low, self._position, self._fold.note)


Commit = Callable[[Mapping[int, Committed]], Awaitable[None]]
"""Makes the commits of a group durable; raises LogUnavailable if that cannot be done now."""

Append = Callable[[Sequence[Record]], Awaitable[None]]


class Following:
    """All feeds of a process for one group, with one loop for ticks and one for commits.

    `append` is None for a log that is not ours to write: then there are no ticks.
    """

    def __init__(self, open_fold: OpenFold, commit: Commit, append: Append | None, pace: Pace) -> None:
        self._open_fold = open_fold
        self._commit = commit
        self._append = append
        self._pace = pace
        self._feeds: dict[int, Feed] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body`, which assigns and revokes and never returns; when cancelled, close the folds and commit.

        Raises:
            Exception: the first one of a fold, a feed or the body, as it was raised.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._commit_forever())
                if self._append is not None:
                    self._tasks.create_task(self._tick_forever(self._append))
                await body()
        except BaseExceptionGroup as failures:
            raise first_of(failures) from None
        finally:
            await self.commit_changes()

    def assign(self, feed: Feed) -> None:
        """Open the fold of a partition and feed it."""
        assert self._tasks is not None
        self._feeds[feed.partition] = feed
        self._running[feed.partition] = self._tasks.create_task(feed.run(self._open_fold))

    async def revoke(self, partition: int) -> None:
        """Close the fold of a partition; nothing of it is committed any more."""
        self._feeds.pop(partition, None)
        running = self._running.pop(partition, None)
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    def changes(self) -> dict[int, Committed]:
        """What is to be committed, by partition."""
        snapshots = {partition: feed.snapshot() for partition, feed in self._feeds.items()}
        return {partition: state for partition, state in snapshots.items() if state is not None}

    async def commit_changes(self) -> None:
        """Commit what has changed; what cannot be committed now stays a change."""
        changes = self.changes()
        if not changes:
            return
        try:
            await self._commit(changes)
        except LogUnavailable as error:
            logger.warning("positions cannot be committed (%s); trying again", error)
            return
        self.committed(changes)

    def committed(self, states: Mapping[int, Committed]) -> None:
        """The log has taken these commits."""
        for partition, state in states.items():
            if partition in self._feeds:
                self._feeds[partition].committed(state)

    async def _commit_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pace.commit_interval)
            await self.commit_changes()

    async def _tick_forever(self, append: Append) -> None:
        while True:
            await asyncio.sleep(self._pace.tick_interval)
            now = self._pace.clock()
            due = [feed for feed in self._feeds.values() if feed.due(now)]
            if due:
                await self._tick(due, now, append)

    @staticmethod
    async def _tick(due: Sequence[Feed], now: float, append: Append) -> None:
        for feed in due:
            feed.ticked(now)
        try:
            await append([Record(None, b"", TICK, feed.partition) for feed in due])
        except LogUnavailable as error:
            logger.warning("the passing of time cannot be written (%s); trying again", error)
            for feed in due:
                feed.tick_failed(now)


async def follow_all(following: Following, feeds: Sequence[Feed]) -> None:
    """Feed a fixed set of partitions until cancelled."""

    async def body() -> None:
        for feed in feeds:
            following.assign(feed)
        await asyncio.Event().wait()

    await following.run(body)
