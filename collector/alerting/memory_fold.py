"""A fold of the evaluations log whose state depends only on the last `memory` seconds of the log.

A process that needs all scores reads the partitions that other processes own by such folds, too.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from collector.backoff import FailureLog
from collector.logs.log import Committed, Log, LogUnavailable, StoredRecord, UntimedFold
from collector.logs.whole_log import first_offset
from collector.records.epochs import RecentIds, valid_evaluations
from collector.records.json import evaluation_from_json, readable
from evaluators.results import Evaluation

OFFSET_EVERY = 3600.0
"""Seconds between two remembered offsets; the memory begins at one of them."""


class MemoryFold(UntimedFold, ABC):
    """The fold of one partition. A restart reads the last `memory` seconds of the log again."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._offsets: deque[tuple[float, int]] = deque()
        self._seen = RecentIds()
        self.read_until = self.replayed_until = 0
        """The offset behind the newest record, and up to which a restart reads the memory back."""

    @property
    def low_watermark(self) -> int | None:
        """The oldest evaluation within the memory, to the hour."""
        return self._offsets[0][1] if self._offsets else None

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Read the memory back."""
        await self.deliver(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take the evaluations; the exporters count unreadable records."""
        for record in records:
            self._remember_offset(record)
            if record.headers:  # a tick, a label, or a control record
                continue
            if (evaluation := readable(evaluation_from_json, record.value)) is not None:
                self.take(evaluation, record.timestamp)

    @abstractmethod
    def take(self, evaluation: Evaluation, time: float) -> None:
        """Take an evaluation that the log received at `time` (s since the epoch); it may come twice."""

    def _remember_offset(self, record: StoredRecord) -> None:
        self.read_until = record.offset + 1
        if not self._offsets or record.timestamp - self._offsets[-1][0] >= OFFSET_EVERY:
            self._offsets.append((record.timestamp, record.offset))
        while len(self._offsets) > 1 and self._offsets[1][0] < record.timestamp - self._memory:
            self._offsets.popleft()


F = TypeVar("F", bound=MemoryFold)


class PartitionFolds(Generic[F]):
    """Folds of the partitions of the evaluations log that this process owns and, while these are wanted, of the others.

    `memory` is in seconds. Without a `log`, it owns all.
    """

    def __init__(self, log: Log | None, make_fold: Callable[[], F], memory: float) -> None:
        self._log = log
        self._make_fold = make_fold
        self._memory = memory
        self._others: dict[int, F] = {}
        self._next: dict[int, int] = {}
        self._failures = FailureLog("reading the evaluations of other processes")
        self._others_are_read = log is None
        self.owned: dict[int, F] = {}
        self.changes = 0
        """How often a fold was added or removed."""

    def __iter__(self) -> Iterator[F]:
        """All folds that there are now, one of each partition: some may have come here while they were read."""
        return iter([*(self._others | self.owned).values()])

    @asynccontextmanager
    async def open(self, partition: int, committed: Committed | None) -> "AsyncGenerator[F]":
        """Open the fold of a partition, which is given the records of its memory again."""
        self.owned[partition] = fold = self._make_fold()
        if committed is not None and committed.low_watermark < committed.offset:
            fold.replayed_until = committed.offset
        self.changes += 1
        try:
            yield fold
        finally:
            del self.owned[partition]
            self.changes += 1

    @property
    def are_restored(self) -> bool:
        """Whether every fold has read its memory back, so that together they know all scores."""
        return self._others_are_read and all(fold.read_until >= fold.replayed_until for fold in self)

    def owns(self, partition: int) -> bool:
        """Whether this process owns a partition."""
        return self._log is None or partition in self.owned

    async def read_on(self, now: float, *, wanted: bool) -> None:
        """Read what others' partitions have got since the last time, at `now` (s); forget those that this process owns,
        and all if they are not `wanted`.
        """
        log = self._log
        unowned = set(range(log.partitions)).difference(self.owned) if log is not None and wanted else set[int]()
        for partition in self._others.keys() - unowned:
            del self._others[partition], self._next[partition]
            self.changes += 1
        if log is None:
            return
        self._others_are_read = False
        with self._failures.attempt(LogUnavailable):
            for partition in sorted(unowned):
                if partition not in self._others:
                    self._next[partition] = await first_offset(log, partition, now - self._memory)
                    self._others[partition] = self._make_fold()
                    self.changes += 1
                async for record in valid_evaluations(log, partition, self._next[partition]):
                    await self._others[partition].deliver([record])
                    self._next[partition] = record.offset + 1
            self._others_are_read = True
