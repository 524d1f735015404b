"""The consumer loop of one process and group: replay, delivery, ticks and commits, the same for every log.

A fold is *due* when time alone changes its state: a conversation becomes idle. A *tick* is an empty record that then
brings the time to the fold. The clock of the loop is the time of day without jumps: if the machine's clock jumps
an hour ahead, work must not all become due at once; if it jumps back, ticks must not stop for an hour.

The loop waits up to a tenth of a second between two reads of the log, to get more records at once: the fixed
cost of read, delivery and append is that of tens of small records. The wait is harmless, since traces stay open for
seconds and judges take seconds.
"""

import asyncio
import math
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import InitVar, dataclass, field
from functools import partial
from math import copysign
from operator import attrgetter
from typing import Protocol

from collector.backoff import Backoff, FailureLog
from collector.errors import first_of
from collector.logs import log

STEP = 1.0
"""If the machine's clock differs from the loop's by more than this number of seconds, it has jumped."""

CATCH_UP = 0.1
"""The share by which time passes faster or slower after a jump: ten hours make up for a jump of one hour."""


since_boot: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds since the machine started, including its sleep if the platform counts that."""


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
"""Seconds after which an appended tick that was not delivered counts as lost."""

OPENING = Backoff(cap=1.0)
"""How a failed opening of a fold is retried: without end, while this process owns the partition."""

FINISHES_WITHIN = 10.0
"""Seconds that a delivery may take to end when its partition is revoked, if its fold `finishes_delivery`."""

ANSWERED_WITHIN = 1.0
"""If a commit has no answer for so many seconds, deliveries wait for one, if their fold `awaits_commits`."""

COMMIT_PATIENCE = 300.0
"""So many seconds after that commit, the deliveries go on: effects so late are worse than repeated ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTiming:
    """The intervals and batch sizes of a consumer.

    `clock` gives seconds since the epoch, without jumps. `tick_interval` is the time (s) between two checks whether a
    fold is due, and the least time from a record to a tick after it. `commit_interval` is the time (s) between two
    commits. A batch has at most `batch_records` records and about `batch_bytes` bytes. `patience` is how long (s) a log
    may be unavailable before `follow` gives up.
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

    `end_offset` is more than 1 above the last record's offset if the offsets between hold no readable record.
    """

    records: Sequence[log.StoredRecord]
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
    """Feeds the fold of one partition, and knows which position may be committed for it.

    The position is read from the fold only between two deliveries: in the middle of a batch the fold's state covers
    only some of the records. During a delivery the earlier position stays valid: after a crash the next owner
    starts there and gets the whole batch again.

    `start` is the offset of the oldest record, where a group without a commit begins. Before each delivery `confirm`
    waits until this process certainly owns the partition; None if no other process can own it.
    """

    partition: int
    committed: log.Committed | None
    start: InitVar[int]
    stream: Stream
    timing: ConsumerTiming
    confirm: log.Confirm | None = None

    def __post_init__(self, start: int) -> None:
        timing = self.timing
        self._state: log.Committed | None = None
        self.unanswered: dict[log.Committed, float] = {}
        """Positions whose commit was sent since the last one that succeeded, and when (s, monotonic). The log may still
        take each of them."""
        self._delivered = asyncio.Event()
        self._delivered.set()
        self._answered = asyncio.Event()
        self.is_revoked = False
        self._begin_at(self.committed or log.Committed(start, start))
        self._fold: log.Fold | None = None
        self._stateful: log.Fold | None = None
        """The stage's own fold, inside its wrappers. Its state is read often, so it is read without the wrappers."""
        self._delivering = False
        self.no_tick_before = 0.0
        """The time before which no tick is appended; 0 for no such time. Each tick and each failed append sets it."""
        self.time = -math.inf
        """The timestamp (s since the epoch) of the last delivered record; during a delivery, of its first record."""
        self._backoff = Backoff(cap=min(1.0, timing.patience / 10), deadline=timing.patience, clock=timing.clock)

    def _begin_at(self, begin: log.Committed) -> None:
        self.offset = begin.offset
        """All records before it were delivered."""
        self._low, self._replayed = begin.low_watermark, begin.low_watermark >= begin.offset

    def continue_from(self, former: "PartitionFeed") -> None:
        """Begin where a former feed of the partition ended, unless another process has committed since.

        The effects of its deliveries are durable. They could not be committed if the partition was lost while no broker
        answered; without this, all of these records would be delivered again.
        """
        reached = former.last_uncommitted
        if (
            reached is not None
            and self.committed is not None
            and self.committed in {former.committed, *former.unanswered}
        ):
            self._state = reached
            self._begin_at(reached)

    async def finish(self) -> None:
        """Let a delivery end, if it may end late: if it were cancelled, its records would be appended again."""
        if getattr(self._stateful, "finishes_delivery", False):
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISHES_WITHIN):
                    await self._delivered.wait()

    async def run(self, open_fold: log.OpenFold) -> None:
        """Feed until cancelled. The fold is closed on return, whatever the reason.

        A fold reads logs while it opens. If a log is unavailable, the opening is retried: the partition's records can
        wait, but if the process ended instead, its other partitions would stop, too.
        """
        async with AsyncExitStack() as stack:
            fold = await OPENING.repeat(
                lambda: stack.enter_async_context(open_fold(self.partition, self._state or self.committed)),
                log.LogUnavailable,
                action=f"opening partition {self.partition}",
            )
            self._fold = fold
            self._stateful = fold.stateful if isinstance(fold, log.FoldWrapper) else fold
            action = f"reading partition {self.partition}"
            try:
                while True:
                    try:
                        batch = await self.stream.next()
                    except log.LogUnavailable as error:
                        batch = await self._backoff.repeat(
                            self.stream.next, log.LogUnavailable, action=action, failed=error
                        )
                    await self._process(fold, batch)
                    await asyncio.sleep(0)  # lets other tasks run while records come without end
            finally:
                self._update_state()
                self._fold = self._stateful = None

    def uncommitted(self) -> log.Committed | None:
        """The positions to commit now; None if nothing has changed, or if the partition is revoked."""
        self._update_state()
        return None if self.is_revoked else self.last_uncommitted

    @property
    def last_uncommitted(self) -> log.Committed | None:
        """The last result of `uncommitted`; None once it is committed. Another thread may read this."""
        return None if self._state == self.committed else self._state

    def commit_succeeded(self, state: log.Committed) -> None:
        """Note that the log has taken a commit. A log passes over partitions that were revoked before it was sent."""
        if not self.is_revoked:
            self.committed = state
            self.unanswered.clear()
            self._answered.set()

    async def _await_commit(self) -> None:
        """Wait while commits fail, if the fold `awaits_commits`: a restart repeats deliveries since the last commit."""
        overdue = time.monotonic() - next(iter(self.unanswered.values()))
        if overdue > ANSWERED_WITHIN and getattr(self._stateful, "awaits_commits", False):
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_PATIENCE - overdue):
                    await self._answered.wait()

    def is_due(self, now: float) -> bool:
        """Whether the fold is due and needs a tick, because every record was delivered.

        A record moves the fold's time like a tick, so no tick follows a record within `tick_interval`.
        """
        next_tick = max(self.no_tick_before, self.time + self.timing.tick_interval)
        if self._stateful is None or not self._replayed or not self.stream.waiting or now < next_tick:
            return False
        due_at = self._stateful.due_at
        return due_at is not None and due_at <= now

    async def _process(self, fold: log.Fold, batch: Batch) -> None:
        self._delivering = True
        records = batch.records
        if records and records[0].offset < self._low:
            records = records[bisect_left(records, self._low, key=attrgetter("offset")) :]
        if log.UnreadableRecords in map(type, records) and not getattr(fold, "takes_unreadable", False):
            records = [record for record in records if type(record) is not log.UnreadableRecords]
        if not self._replayed:
            old = bisect_left(records, self.offset, key=attrgetter("offset"))
            if old:
                await fold.replay(records[:old])
            records = records[old:]
            self._replayed = batch.end_offset >= self.offset
        if records:
            if self.unanswered:
                await self._await_commit()
            if self.confirm is not None:
                await self.confirm()
            self.time = records[0].timestamp
            self._delivered.clear()
            await fold.deliver(records)
            self._delivered.set()
            self.time = records[-1].timestamp
            if self.no_tick_before:
                self._adjust_ticks(records)
        self.offset = max(self.offset, batch.end_offset)
        self._delivering = False
        self._update_state()

    def _adjust_ticks(self, records: Sequence[log.StoredRecord]) -> None:
        """Once a tick was delivered, allow the next one when the log's clock has reached the time of due work.

        The log's clock may be behind this process's. Then the timestamp of each tick is too early for the due work, and
        without this delay each check would append another tick. If no work is due even by this process's clock, the
        next tick is not delayed: a record may bring earlier work.
        """
        ticks = [record for record in records if record.headers == log.TICK]
        if ticks and self._stateful is not None:
            now, due_at = self.timing.clock(), self._stateful.due_at
            behind = due_at - ticks[-1].timestamp if due_at is not None and due_at <= now else 0.0
            self.no_tick_before = now + min(behind, TICK_PATIENCE) if behind > 0.0 else 0.0

    def _update_state(self) -> None:
        if self._stateful is None or self._delivering or not self._replayed:
            return
        low = self._stateful.low_watermark
        if isinstance(self._fold, log.FoldWrapper):
            self._fold.needed_from, self._fold.read_to = low, self.offset
        low = self.offset if low is None else min(low, self.offset)
        self._state = log.Committed(low, self.offset, self._stateful.metadata)


Commit = Callable[[Mapping[int, log.Committed]], Awaitable[None]]
"""Makes the commits of a group durable; raises LogUnavailable if they cannot be made now."""

Append = Callable[[Sequence[log.Record]], Awaitable[None]]
"""Appends ticks to the log."""


class ConsumerRunner:
    """All partition feeds of a process for one group, with one loop for ticks and one for commits.

    `append` is None for a topic that this process must not write; then there are no ticks.
    """

    def __init__(self, open_fold: log.OpenFold, commit: Commit, append: Append | None, timing: ConsumerTiming) -> None:
        self._open_fold = open_fold
        self._commit = commit
        self._append = append
        self._timing = timing
        self._feeds: dict[int, PartitionFeed] = {}
        self._former: dict[int, PartitionFeed] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._committing = FailureLog("committing offsets")
        self._ticking = FailureLog("writing the time to the log")

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body`, which assigns and revokes partitions and never returns. On cancellation close the folds, then
        commit.

        Raises:
            Exception: the first exception of a fold, a feed or `body`, as it was raised.
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

    async def feed_all(self, feeds: Sequence[PartitionFeed]) -> None:
        """Feed a fixed set of partitions until cancelled."""

        async def body() -> None:
            for feed in feeds:
                self.assign(feed)
            await asyncio.Event().wait()

        await self.run(body)

    def assign(self, feed: PartitionFeed) -> None:
        """Open the fold of a partition and feed it."""
        assert self._tasks is not None
        if (former := self._former.pop(feed.partition, None)) is not None:
            feed.continue_from(former)
        self._feeds[feed.partition] = feed
        self._running[feed.partition] = self._tasks.create_task(feed.run(self._open_fold))

    async def revoke(self, partition: int) -> None:
        """Close the fold of a partition; nothing is committed for it any more."""
        feed, running = self._feeds.pop(partition, None), self._running.pop(partition, None)
        if feed is not None and running is not None:
            await feed.finish()
            self._former[partition] = feed
            running.cancel()
            await asyncio.wait([running])

    async def commit(self) -> None:
        """Commit the changed positions. Positions that cannot be committed now are part of the next commit."""
        changes = {feed: state for feed in self._feeds.values() if (state := feed.uncommitted()) is not None}
        if not changes:
            return
        for feed, state in changes.items():
            feed.unanswered.setdefault(state, time.monotonic())
        with self._committing.attempt(log.LogUnavailable):
            await self._commit({feed.partition: state for feed, state in changes.items()})
            for feed, state in changes.items():
                feed.commit_succeeded(state)

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
                feed.no_tick_before = now + TICK_PATIENCE
            try:
                await append([log.Record(None, b"", log.TICK, feed.partition) for feed in due])
            except log.LogUnavailable as error:
                self._ticking.failed(error)
                for feed in due:
                    feed.no_tick_before = now + 1.0
            else:
                self._ticking.succeeded()


INTERVAL = 0.1
"""Seconds from one read of the log to the next while records come without a pause."""

AT_ONCE = 3
"""After a pause this number of reads may follow one another without a wait. So sparse records never wait."""

MANY, MUCH = 500, 1 << 20
"""After a read with at least this number of records, or of bytes, the next read follows at once: there are more."""


class DeliveryPace:
    """Says how long to wait before the next read of a log. Times are in seconds, by one clock without jumps."""

    def __init__(self) -> None:
        self._next_at = 0.0
        """The time from which the next read is allowed. A small read adds `INTERVAL`; after a pause it is added to
        `now` - (`AT_ONCE` - 1) intervals."""

    def add(self, records: int, size: int, now: float) -> None:
        """Note a read that returned `records` records with `size` bytes in all."""
        if 0 < records < MANY and size < MUCH:
            self._next_at = max(self._next_at, now - (AT_ONCE - 1) * INTERVAL) + INTERVAL

    def wait(self, now: float) -> float:
        """The seconds that the next read has to wait; at most `INTERVAL`, provided that earlier reads have waited."""
        return max(0.0, self._next_at - now)
