"""Records of several partitions of a log, in the order in which the log took them."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from collector.logs.log import Log, StoredRecord
from collector.records.shared_records import divide_records

CHUNK_RECORDS, CHUNK_BYTES = 5_000, 8 << 20
"""The number of records read from a partition at once, when others are read beside it."""


@dataclass(frozen=True, slots=True)
class PartitionStretch:
    """A part of a partition: the records from `start` up to and without `end`."""

    partition: int
    start: int
    end: int


async def in_order(log: Log, stretches: Sequence[PartitionStretch]) -> AsyncIterator[StoredRecord]:
    """The records of stretches of different partitions, by the times of the log; each partition's in its order."""
    readers = [_StretchReader(log, stretch) for stretch in stretches if stretch.start < stretch.end]
    heap: list[tuple[float, int, StoredRecord]] = []
    for number, reader in enumerate(readers):
        if (record := await reader.next()) is not None:
            heapq.heappush(heap, (record.timestamp, number, record))
    while heap:
        _, number, record = heap[0]
        yield record
        if (following := await readers[number].next()) is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following.timestamp, number, following))


class _StretchReader:
    """Reads in chunks, and releases the log in between: a log has few readers for all partitions."""

    def __init__(self, log: Log, stretch: PartitionStretch) -> None:
        self._log = log
        self._partition = stretch.partition
        self._start = stretch.start
        self._end = stretch.end
        self._chunk: list[StoredRecord] = []
        self._at = 0

    async def next(self) -> StoredRecord | None:
        """The next record; None at the end."""
        if self._at >= len(self._chunk):
            await self._read()
        if not self._chunk:
            return None
        self._at += 1
        return self._chunk[self._at - 1]

    async def _read(self) -> None:
        self._chunk, self._at = [], 0
        size = 0
        if self._start >= self._end:
            return
        batches = cast("AsyncGenerator[Sequence[StoredRecord]]", self._log.read(self._partition, self._start))
        async with aclosing(batches):
            async for batch in batches:
                records = [record for record in batch if record.offset < self._end]
                self._chunk += divide_records(records)
                size += sum(len(record.value) for record in records)
                if records:
                    self._start = records[-1].offset + 1
                if len(records) < len(batch) or len(self._chunk) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                    break
