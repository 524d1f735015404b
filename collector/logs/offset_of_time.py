"""The offset at which a time begins in a log: found by bisection, as records are in the order of their times."""

from __future__ import annotations

from collector.logs.log import Log, StoredRecord


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
