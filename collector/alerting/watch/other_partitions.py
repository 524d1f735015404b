"""The partitions that other processes consume, read beside them: one process watches all, so alerts see all scores.

Consumers of a group divide the partitions of the evaluations log. A watcher that saw its share alone would tell a mean
of half of the scores, and another watcher that of the other half.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from collector.backoff import FailureLog
from collector.logs.log import Log, LogUnavailable, StoredRecord
from collector.logs.whole_log import first_offset
from collector.records.epochs import valid_evaluations

DECIDES = 0
"""The partition whose owner watches."""
_BATCH = 500


class _TakesRecords(Protocol):
    async def deliver(self, records: Sequence[StoredRecord]) -> None: ...


F = TypeVar("F", bound=_TakesRecords)


class OtherPartitions(Generic[F]):
    """Folds of the partitions of the evaluations log that this process does not own. `memory` is in seconds."""

    def __init__(self, log: Log, make_fold: Callable[[], F], memory: float) -> None:
        self._log = log
        self._make_fold = make_fold
        self._memory = memory
        self._next: dict[int, int] = {}
        self._failures = FailureLog("reading the evaluations of other processes")
        self.folds: dict[int, F] = {}

    async def read_on(self, owned: Collection[int], now: float) -> None:
        """Read what was appended since the last time, at `now` (s); forget the partitions that this process owns."""
        unowned = set(range(self._log.partitions)) - set(owned) if DECIDES in owned else set[int]()
        for partition in set(self.folds) - unowned:
            del self.folds[partition], self._next[partition]
        try:
            for partition in sorted(unowned):
                if partition not in self.folds:
                    self._next[partition] = await first_offset(self._log, partition, now - self._memory)
                    self.folds[partition] = self._make_fold()
                await self._read(partition)
        except LogUnavailable as error:
            self._failures.failed(error)
        else:
            self._failures.succeeded()

    async def _read(self, partition: int) -> None:
        batch: list[StoredRecord] = []
        async for record in valid_evaluations(self._log, partition, self._next[partition]):
            batch.append(record)
            if len(batch) == _BATCH:
                await self._take(partition, batch)
                batch = []
        await self._take(partition, batch)

    async def _take(self, partition: int, batch: Sequence[StoredRecord]) -> None:
        if batch:
            await self.folds[partition].deliver(batch)
            self._next[partition] = batch[-1].offset + 1
