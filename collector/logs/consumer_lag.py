"""The lag of this process's consumers: the records that they have not received, and how close retention is to the
records that they still need.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from collector.logs.log import Committed, Fold, FoldWrapper, Log, LogRefused, LogUnavailable, OpenFold, StoredRecord
from collector.telemetry import series
from collector.telemetry.drop_reasons import LossReason
from collector.telemetry.registry import Telemetry

logger = logging.getLogger(__name__)

SAMPLE_EVERY = 5.0
"""Seconds between two samples."""
GAP_AFTER = 60.0
"""Seconds without an answer after which the last figures of a log are removed: a broker restarts in less."""
RETENTION_EVERY = 600.0
"""Seconds between two looks at a log's retention, which may be changed from outside."""
_STEP = 5.0
"""Seconds of log time between two remembered offsets: the precision of the age of the oldest needed record."""

PROBLEM_AFTER, WARN_AFTER = 5.0, 30.0
"""A partition whose fold takes longer than this (s) to open is a problem of the process, and is logged, as none of its
records are read meanwhile."""
STALLED_AFTER = 90.0
"""Seconds without progress after which a consumer that lags is stalled: longer than an exporter waits for the first
scrape (`SETTLING`)."""
_GAUGES = series.CONSUMER_LAG_RECORDS, series.CONSUMER_LAG_SECONDS, series.OLDEST_NEEDED


@dataclass(frozen=True, slots=True)
class TopicOfSource:
    """One topic of a source, in which its reader's lag is measured as in a log. Partitions have the numbers that
    records have.
    """

    name: str
    end_offsets: Callable[[Collection[int]], Coroutine[Any, Any, dict[int, int]]]
    retention: Callable[[], Coroutine[Any, Any, float | None]]


@dataclass(slots=True)
class _Progress:
    """A consumer's progress in a partition: the next offset, and the timestamp (s since the epoch) before it.

    `needed` has the offset and timestamp of a record every few seconds, from the oldest one that the fold still needs.
    """

    offset: int
    timestamp: float
    needed: deque[tuple[int, float]] = field(default_factory=deque[tuple[int, float]])

    def oldest_needed(self, low_watermark: int | None, end: int) -> float | None:
        """The time by which the log had received the oldest needed record; None if no record is needed."""
        low = self.offset if low_watermark is None else min(low_watermark, self.offset)
        while len(self.needed) > 1 and self.needed[1][0] <= low:
            self.needed.popleft()
        if low >= self.offset:  # of records not received yet, only the timestamp of the one before them is known
            return self.timestamp if self.offset < end else None
        return self.needed[0][1] if self.needed else self.timestamp


class ConsumerLag:
    """The lag of every consumer that was opened through `measured`."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.time) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._consumers: dict[tuple[str, str], tuple[Log | TopicOfSource, dict[int, _MeasuredFold]]] = {}
        self._measured_at: dict[tuple[str, str], float] = {}
        self._retention_at: dict[str, float] = {}
        self._unwatched = set[str]()
        self._opening: dict[tuple[str, str, int], float] = {}

    def stalled(self) -> str | None:
        """The consumers that lag and have made no progress for long; None if there are none."""
        now = self._clock()
        longest: dict[str, float] = {}
        for (consumer, _), (_, folds) in self._consumers.items():
            longest[consumer] = max([longest.get(consumer, 0.0), *(fold.stands_for(now) for fold in folds.values())])
        stalled = [f"{name} for {age:.0f} s" for name, age in longest.items() if age > STALLED_AFTER]
        waits = [f"no progress of {', '.join(stalled)}"] if stalled else []
        return "; ".join([*waits, *self._long_openings(now, PROBLEM_AFTER)]) or None

    def _long_openings(self, now: float, after: float) -> list[str]:
        return [
            f"{consumer} has not read {log}[{partition}] for {now - since:.0f} s: "
            f"{self._reason(consumer, log, partition)}"
            for (consumer, log, partition), since in self._opening.items()
            if now - since > after
        ]

    def _reason(self, consumer: str, name: str, partition: int) -> str:
        log, _ = self._consumers[consumer, name]
        added = not isinstance(log, TopicOfSource) and partition >= log.partitions
        return "the partition was added meanwhile, and gets no records" if added else "it restores its state"

    def measured(self, consumer: str, log: Log | TopicOfSource, open_fold: OpenFold) -> OpenFold:
        """The same folds, with their progress recorded. `consumer` is their name in the metrics."""
        partitions: dict[int, _MeasuredFold] = {}
        self._consumers[consumer, log.name] = (log, partitions)
        for reason in (LossReason.RETENTION, LossReason.RETENTION_REPLAY):
            self._telemetry.counter(series.RECORDS_LOST, consumer, log.name, reason)

        @asynccontextmanager
        async def opened(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            where = (consumer, log.name, partition)
            self._opening[where] = self._clock()
            try:
                async with open_fold(partition, committed) as fold:
                    self._opening.pop(where, None)
                    measured = partitions[partition] = _MeasuredFold(fold)
                    if committed is not None:
                        measured.progress = _Progress(committed.offset, self._clock())
                    try:
                        yield measured
                    finally:
                        partitions.pop(partition, None)
            finally:
                self._opening.pop(where, None)

        return opened

    async def sample_forever(self) -> None:
        """Keep the gauges up to date."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_EVERY)

    async def sample(self) -> None:
        """Measure once. A consumer that owns nothing, is refused, or has long had no answer has no figures."""
        for wait in self._long_openings(self._clock(), WARN_AFTER):
            logger.warning("%s", wait)
        for where, (log, folds) in list(self._consumers.items()):  # consumers may be added meanwhile
            try:
                await self._sample_retention(log)
                figures = await self._measure(where, log, folds) if folds else None
            except Exception as error:  # noqa: BLE001 - the gauges of other logs have to go on
                if not isinstance(error, LogUnavailable):
                    logger.warning("the lag of %s in %s cannot be measured: %r", *where, error)
                if not isinstance(error, LogRefused) and self._clock() - self._measured_at.get(where, 0.0) < GAP_AFTER:
                    continue
                figures = None
            for number, gauge in enumerate(_GAUGES):
                if figures is None:
                    self._telemetry.remove(gauge, *where)
                else:
                    self._telemetry.gauge(gauge, *where).set(max(0.0, figures[number]))

    async def _measure(
        self, where: tuple[str, str], log: Log | TopicOfSource, folds: Mapping[int, "_MeasuredFold"]
    ) -> tuple[float, float, float]:
        """The figures of `_GAUGES`."""
        records, age, oldest, now = 0, 0.0, 0.0, self._clock()
        begun = {number: (fold, at) for number, fold in folds.items() if (at := fold.reached(now)) is not None}
        ends = await log.end_offsets(begun)
        now = self._measured_at[where] = self._clock()
        for partition, (fold, progress) in begun.items():
            behind = max(0, ends[partition] - progress.offset)
            records += behind
            fold.note_lag(behind, now)
            age = max(age, now - progress.timestamp if behind else 0.0)
            needed = progress.oldest_needed(fold.needed_from, ends[partition])
            oldest = max(oldest, 0.0 if needed is None else now - needed)
        return records, age, oldest

    async def _sample_retention(self, log: Log | TopicOfSource) -> None:
        now = self._clock()
        if now - self._retention_at.get(log.name, -math.inf) < RETENTION_EVERY:
            return
        try:
            seconds = await log.retention()
            self._telemetry.gauge(series.LOG_RETENTION, log.name).set(math.inf if seconds is None else seconds)
            if log.name in self._unwatched:
                self._unwatched.remove(log.name)
                logger.info("the retention of %s is watched again", log.name)
        except LogRefused as error:  # a source's need not be known: its lag is measured all the same
            if self._telemetry.remove(series.LOG_RETENTION, log.name):
                self._unwatched.add(log.name)
                logger.warning("the retention of %s is not watched any more (%s)", log.name, error)
        self._retention_at[log.name] = now


class _MeasuredFold(FoldWrapper):
    """A fold whose progress is recorded."""

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self.progress: _Progress | None = None
        self._lagged: tuple[int, float] | None = None
        """The offset at which it lagged at the last sample, and since when (s since the epoch)."""

    def note_lag(self, behind: int, now: float) -> None:
        """Note by how many records it lags."""
        if not behind or self.progress is None:
            self._lagged = None
        elif not self.stands_for(now):
            self._lagged = self.progress.offset, now

    def stands_for(self, now: float) -> float:
        """How long (s) it has stood where it lagged at the last sample. No sample comes while brokers do not answer."""
        progress = self.reached(now)
        return now - self._lagged[1] if progress and self._lagged and self._lagged[0] == progress.offset else 0.0

    def reached(self, now: float) -> _Progress | None:
        """The progress, also past offsets that are no records; None before anything is known."""
        if self.read_to is not None:
            self.progress = self.progress or _Progress(self.read_to, now)
            self.progress.offset = max(self.progress.offset, self.read_to)
        return self.progress

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._fold.replay(records)
        self._note(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        first = records[0]
        # set before the delivery, which may take long
        self.progress = self.progress or _Progress(first.offset, first.timestamp)
        await self._fold.deliver(records)
        self._note(records)

    def _note(self, records: Sequence[StoredRecord]) -> None:
        first, last = records[0], records[-1]
        progress = self.progress = self.progress or _Progress(first.offset, first.timestamp)
        if not progress.needed or first.timestamp - progress.needed[-1][1] >= _STEP:
            progress.needed.append((first.offset, first.timestamp))
        progress.offset, progress.timestamp = max(progress.offset, last.offset + 1), last.timestamp
