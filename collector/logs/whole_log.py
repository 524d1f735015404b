"""A log read as a whole: all partitions, one after the other, from an offset or from a time.

The offset at which a time begins is found by bisection, as records are in the order of their times.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from collector.logs.log import Log, StoredRecord, records_from


async def read_partitions(log: Log, starts: Sequence[int] | None = None) -> AsyncIterator[Sequence[StoredRecord]]:
    """Read the batches of every partition from `starts` on (by partition; all from the oldest record if None).

    A partition is read to its end as it is when its turn comes. Between batches other tasks run.

    Raises:
        LogUnavailable: the log cannot be read now.
    """
    for partition in range(log.partitions):
        async for batch in log.read(partition, 0 if starts is None else starts[partition]):
            yield batch
            await asyncio.sleep(0)


async def read_records(log: Log, starts: Sequence[int] | None = None) -> AsyncIterator[StoredRecord]:
    """Read single records in the same order, ticks among them. Raises LogUnavailable."""
    async for batch in read_partitions(log, starts):
        for record in batch:
            yield record


async def notes_in(log: Log, key: bytes) -> AsyncIterator[dict[str, Any]]:
    """All notes under a key of the definitions log, the oldest first; of other definitions there, the first counts.

    Raises:
        LogUnavailable: the log cannot be read now.
    """
    async for record in records_from(log, 0, await log.start_offset(0)):
        if record.key == key:
            yield orjson.loads(record.value)


async def start_offsets(log: Log) -> list[int]:
    """The offset of the oldest record of each partition. Raises LogUnavailable."""
    return [await log.start_offset(partition) for partition in range(log.partitions)]


async def end_offsets(log: Log) -> list[int]:
    """The offset behind the newest record of each partition. Raises LogUnavailable."""
    return [end for _, end in sorted((await log.end_offsets(range(log.partitions))).items())]


async def first_offsets(log: Log, since: float) -> list[int]:
    """An offset of each partition before which everything is older than `since` (s). Raises LogUnavailable."""
    return [await first_offset(log, partition, since) for partition in range(log.partitions)]


class IncrementalReader:
    """Reads a log step by step, each time the records since the last reading, the first time from `starts`."""

    def __init__(self, log: Log, starts: Sequence[int] | None = None) -> None:
        self._log = log
        self._next = [0] * log.partitions if starts is None else list(starts)

    async def batches(self) -> AsyncIterator[Sequence[StoredRecord]]:
        """The batches since the last reading, partition by partition. Raises LogUnavailable."""
        async for batch in read_partitions(self._log, tuple(self._next)):
            yield batch
            # Only now: a batch whose processing failed is read again.
            self._next[batch[-1].partition] = batch[-1].offset + 1

    async def records(self) -> AsyncIterator[StoredRecord]:
        """The records since the last reading, in the same order. Raises LogUnavailable."""
        async for batch in self.batches():
            for record in batch:
                yield record


async def first_offset(log: Log, partition: int, since: float) -> int:
    """An offset of a partition before which everything is older than `since` (s)."""
    low, high = await log.start_offset(partition), await log.end_offset(partition)
    while low < high:
        middle = (low + high) // 2
        record = await _record_at(log, partition, middle)
        if record is None or record.timestamp >= since:
            high = middle
        else:
            low = record.offset + 1
    return low


async def _record_at(log: Log, partition: int, offset: int) -> StoredRecord | None:
    async for batch in log.read(partition, offset):
        return batch[0]
    return None
