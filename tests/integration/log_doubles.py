"""Logs that fail or wait on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from collector.logs.log import Record, RecordTooLarge
from collector.logs.memory import MemoryLog


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


async def stored(log: MemoryLog):
    return [record for partition in range(log.partitions) async for batch in log.read(partition, 0) for record in batch]
