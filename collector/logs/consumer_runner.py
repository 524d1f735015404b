"""The consumer loop of one process and group: replay, delivery, ticks and commits, the same for every log.

Its clock is the time of day without jumps: if the machine's clock is set, not everything may become due at once, and
not nothing for an hour. Between two looks at the log it waits a little, to take more records at once: a look, a
delivery and the fold's append together cost as much as tens of small records. A tenth of a second does no harm, since
traces stay open for seconds and judges take seconds.
"""

import asyncio
import math
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import InitVar, dataclass, field
from functools import partial
from math import copysign
from operator import attrgetter
from typing import Protocol

from collector.backoff import Backoff, FailureLog
from collector.errors import first_of
from collector.logs.log import (
    TICK,
    Committed,
    Confirm,
    Fold,
    FoldWrapper,
    LogUnavailable,
    OpenFold,
    Record,
    StoredRecord,
    UnreadableRecords,
)

STEP = 1.0
"""Seconds: a larger difference to the machine's clock is a jump."""

CATCH_UP = 0.1
"""How much faster or slower time passes until a jump is made up for: an hour takes ten."""


since_boot: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds that have passed on this machine, asleep or not."""


class SlewedClock:
    """Seconds since the epoch, never decreasing. Follows `wall`, but slews after a jump, as NTP does.

    `elapsed` counts seconds and never jumps. Safe in several threads.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._now = wall()
        self._last = elapsed()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            last, self._last = self._last, self._elapsed()
            elapsed = self._last - last
            off = self._wall() - (self._now + elapsed)
            if abs(off) <= STEP:
                self._now = max(self._now, self._now + elapsed + off)
            else:
                self._now += elapsed * (1.0 + copysign(CATCH_UP, off))
            return self._now


TICK_PATIENCE = 10.0
"""Seconds after which a tick that was appended and has not been delivered counts as lost."""

OPENING = Backoff(cap=1.0)
"""How the opening of a fold is repeated: without end, as long as the partition is this process's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTiming:
    """The intervals and batch sizes of a consumer.

    `clock` gives seconds since the epoch, without jumps. `tick_interval` is the time between two checks whether a fold
    is due, and the lag of the last record's time at which a tick brings it up to date; `commit_interval` is the time
    between two commits; both in seconds. A batch holds at most `batch_records` records and about `batch_bytes` bytes.
    `patience` is how long (s) a log may be unavailable before `follow` gives up.
    """

    clock: Callable[[], float] = field(default_factory=SlewedClock)
    tick_interval: float = 0.1
    commit_interval: float = 1.0
    batch_records: int = 500
    batch_bytes: int = 4 << 20
    patience: float = 60.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition, and the offset after them.

    `end_offset` may lie beyond the last record: the offsets between have no readable records.
    """

    records: Sequence[StoredRecord]
    end_offset: int


class Stream(Protocol):
    """The records of one partition, from the group's low watermark on."""

    @property
    def waiting(self) -> bool:
        """Whether `next` waits because every record of the partition was delivered."""
        ...

    async def next(self) -> Batch:
        """The next records; waits until there are some.

        Raises:
            LogUnavailable: the log could not be read; a retry may succeed.
        """
        ...


@dataclass(eq=False, repr=False)
class PartitionFeed:
    """Feeds the fold of one partition and knows what may be committed for it.

    The committable position is read from the fold only between two deliveries: in the middle of a batch its state
    covers only some of the records. While one is in progress the state before it stays valid: it says that the records
    in progress will be delivered again.

    `start` is the offset of the oldest record, for a group that has committed nothing. Before each delivery `confirm`
    waits until this process certainly owns the partition; None where no other can.
    """

    partition: int
    committed: Committed | None
    start: InitVar[int]
    stream: Stream
    timing: ConsumerTiming
    confirm: Confirm | None = None

    def __post_init__(self, start: int) -> None:
        committed, timing = self.committed, self.timing
        self._offset = committed.offset if committed else start
        self._replayed = committed is None or committed.low_watermark >= committed.offset
        self._fold: Fold | None = None
        self._stateful: Fold | None = None
        """The stage's own fold, inside its wrappers. It is asked directly whether it is due, because that is asked
        often."""
        self._delivering = False
        self._state: Committed | None = None
        self.tick_until = 0.0
        """No tick is appended before this time: the last one has not been delivered yet."""
        self._delivered_time = -math.inf
        """The time that the last record has brought (s since the epoch)."""
        self._backoff = Backoff(cap=min(1.0, timing.patience / 10), deadline=timing.patience, clock=timing.clock)

    async def run(self, open_fold: OpenFold) -> None:
        """Feed until cancelled. The fold is closed on return, whatever the reason.

        A fold reads logs when it opens. While they are unavailable, opening is repeated: the records can wait, and a
        process that ended instead would stop all its other partitions.
        """
        async with AsyncExitStack() as stack:
            fold = await OPENING.repeat(
                lambda: stack.enter_async_context(open_fold(self.partition, self.committed)),
                LogUnavailable,
                action=f"opening partition {self.partition}",
            )
            self._fold = fold
            self._stateful = fold.stateful if isinstance(fold, FoldWrapper) else fold
            action = f"reading partition {self.partition}"
            try:
                while True:
                    try:
                        batch = await self.stream.next()
                    except LogUnavailable as error:
                        batch = await self._backoff.repeat(
                            self.stream.next, LogUnavailable, action=action, failed=error
                        )
                    await self._process(fold, batch)
                    await asyncio.sleep(0)  # lets other tasks run while records come without end
            finally:
                self._update_state()
                self._fold = self._stateful = None

    def uncommitted(self) -> Committed | None:
        """The positions to commit now; None if nothing has changed."""
        self._update_state()
        return self.last_uncommitted

    @property
    def last_uncommitted(self) -> Committed | None:
        """The last result of `uncommitted` that is not committed yet. Only reads: another thread may call it."""
        return None if self._state == self.committed else self._state

    def is_due(self, now: float) -> bool:
        """Whether the fold is due and only a tick can move its time, since every record was delivered.

        A record moves the time as a tick does, so no tick follows a record within a tick's interval.
        """
        if self._stateful is None or not self._replayed or not self.stream.waiting or now < self.tick_until:
            return False
        if now - self._delivered_time < self.timing.tick_interval:
            return False
        due_at = self._stateful.due_at
        return due_at is not None and due_at <= now

    async def _process(self, fold: Fold, batch: Batch) -> None:
        self._delivering = True
        records = batch.records
        if UnreadableRecords in map(type, records) and not getattr(fold, "takes_unreadable", False):
            records = [record for record in records if type(record) is not UnreadableRecords]
        if not self._replayed:
            old = bisect_left(records, self._offset, key=attrgetter("offset"))
            if old:
                await fold.replay(records[:old])
            records = records[old:]
            self._replayed = batch.end_offset >= self._offset
        if records:
            if self.confirm is not None:
                await self.confirm()
            await fold.deliver(records)
            self._delivered_time = records[-1].timestamp
            if self.tick_until:
                self._adjust_ticks(records)
        self._offset = max(self._offset, batch.end_offset)
        self._delivering = False
        self._update_state()

    def _adjust_ticks(self, records: Sequence[StoredRecord]) -> None:
        """Allow the next tick once this one was delivered; if the log's clock is behind ours, when it has caught up.

        Otherwise every tick would come too early, and a new one would be appended at each check. Work that is due later
        even by our clock does not delay ticks, because earlier work may come.
        """
        ticks = [record for record in records if record.headers == TICK]
        if ticks and self._stateful is not None:
            now, due_at = self.timing.clock(), self._stateful.due_at
            behind = due_at - ticks[-1].timestamp if due_at is not None and due_at <= now else 0.0
            self.tick_until = now + min(behind, TICK_PATIENCE) if behind > 0.0 else 0.0

    def _update_state(self) -> None:
        if self._stateful is None or self._delivering or not self._replayed:
            return
        low = self._stateful.low_watermark
        if isinstance(self._fold, FoldWrapper):
            self._fold.needed_from = low
        low = self._offset if low is None else min(low, self._offset)
        self._state = Committed(low, self._offset, self._stateful.metadata)


Commit = Callable[[Mapping[int, Committed]], Awaitable[None]]
"""Makes the commits of a group durable; raises LogUnavailable if that cannot be done now."""

Append = Callable[[Sequence[Record]], Awaitable[None]]


class ConsumerRunner:
    """All partition feeds of a process for one group, with one loop for ticks and one for commits.

    `append` is None for a topic that this process must not write; then there are no ticks.
    """

    def __init__(self, open_fold: OpenFold, commit: Commit, append: Append | None, timing: ConsumerTiming) -> None:
        self._open_fold = open_fold
        self._commit = commit
        self._append = append
        self._timing = timing
        self._feeds: dict[int, PartitionFeed] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._committing = FailureLog("committing offsets")
        self._ticking = FailureLog("writing ticks")

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body`, which assigns and revokes and never returns. On cancellation close the folds, then commit.


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
            await self.commit()

    def assign(self, feed: PartitionFeed) -> None:
        """Open the fold of a partition and feed it."""
        assert self._tasks is not None
        self._feeds[feed.partition] = feed
        self._running[feed.partition] = self._tasks.create_task(feed.run(self._open_fold))

    async def revoke(self, partition: int) -> None:
        """Close the fold of a partition; nothing is committed for it any more."""
        self._feeds.pop(partition, None)
        running = self._running.pop(partition, None)
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    def uncommitted(self) -> dict[int, Committed]:
        """The positions to commit, by partition."""
        states = {partition: feed.uncommitted() for partition, feed in self._feeds.items()}
        return {partition: state for partition, state in states.items() if state is not None}

    async def commit(self) -> None:
        """Commit the changed positions. Positions that cannot be committed now are part of the next commit."""
        changes = self.uncommitted()
        if not changes:
            return
        with self._committing.attempt(LogUnavailable):
            await self._commit(changes)
            self.mark_committed(changes)

    def mark_committed(self, states: Mapping[int, Committed]) -> None:
        """The log has accepted these commits."""
        for partition, state in states.items():
            if partition in self._feeds:
                self._feeds[partition].committed = state

    async def _commit_forever(self) -> None:
        while True:
            await asyncio.sleep(self._timing.commit_interval)
            await self.commit()

    async def _tick_forever(self, append: Append) -> None:
        while True:
            await asyncio.sleep(self._timing.tick_interval)
            now = self._timing.clock()
            due = [feed for feed in self._feeds.values() if feed.is_due(now)]
            if not due:
                continue
            for feed in due:
                feed.tick_until = now + TICK_PATIENCE
            try:
                await append([Record(None, b"", TICK, feed.partition) for feed in due])
            except LogUnavailable as error:
                self._ticking.failed(error)
                for feed in due:
                    feed.tick_until = now + 1.0
            else:
                self._ticking.succeeded()


async def consume_all(following: ConsumerRunner, feeds: Sequence[PartitionFeed]) -> None:
    """Feed a fixed set of partitions until cancelled."""

    async def body() -> None:
        for feed in feeds:
            following.assign(feed)
        await asyncio.Event().wait()

    await following.run(body)


INTERVAL = 0.1
"""Seconds from one look to the next while records come without a pause."""

AT_ONCE = 3
"""The looks that may follow one another at once after a pause, so that sparse records never wait."""

MANY, MUCH = 500, 1 << 20
"""After so many records, or bytes, the next look follows at once, because there are more."""


class DeliveryPace:
    """When the log may be looked at next. Times are in seconds, by one clock without jumps."""

    def __init__(self) -> None:
        self._free_at = 0.0
        """When the next look is due, one in each `INTERVAL`. After a pause, up to `AT_ONCE` - 1 intervals are made up
        for."""

    def add(self, records: int, size: int, now: float) -> None:
        """Note a look that brought `records` records of `size` bytes."""
        if 0 < records < MANY and size < MUCH:
            self._free_at = max(self._free_at, now - (AT_ONCE - 1) * INTERVAL) + INTERVAL

    def wait(self, now: float) -> float:
        """For how long the next look has to wait: from 0 to `INTERVAL`, if each has waited."""
        return max(0.0, self._free_at - now)
