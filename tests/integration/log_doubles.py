"""Logs that fail or wait on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from collector.logs.log import Log, Record, RecordTooLarge, StoredRecord
from collector.logs.memory import MemoryLog
from collector.logs.whole_log import read_partitions
from collector.records.shared_records import divide_records


class FailingLog(MemoryLog):
    """Raises the given errors, one an append, then works."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("spans", 1)
        self.errors = list(errors)
        self.appends: list[list[Record]] = []

    async def append(self, records: Sequence[Record]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.appends.append(list(records))
        await super().append(records)


class PickyLog(FailingLog):
    """Takes no value longer than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    async def append(self, records: Sequence[Record]) -> None:
        if any(len(record.value) > self._limit for record in records):
            raise RecordTooLarge("too large")
        await super().append(records)


class GatedLog(MemoryLog):
    """Takes records only while its gate is open; `arrived` is released for each append that comes."""

    def __init__(self) -> None:
        super().__init__("spans", 1)
        self.gate = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    async def append(self, records: Sequence[Record]) -> None:
        self.arrived.release()
        await self.gate.wait()
        await super().append(records)


async def stored(log: Log) -> list[StoredRecord]:
    """The records of all partitions, shared ones divided into their pieces."""
    return [piece async for batch in read_partitions(log) for piece in divide_records(batch)]
