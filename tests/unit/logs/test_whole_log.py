"""A log read as a whole, once and step by step."""

from __future__ import annotations

from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.logs.whole_log import (
    IncrementalReader,
    end_offsets,
    first_offsets,
    read_partitions,
    read_records,
    start_offsets,
)


async def filled() -> MemoryLog:
    log = MemoryLog("spans", partitions=3)
    await log.append([Record(None, b"%d" % number, partition=number % 2) for number in range(5)])
    return log


async def test_partitions_come_one_after_the_other() -> None:
    log = await filled()
    assert [record.value async for record in read_records(log)] == [b"0", b"2", b"4", b"1", b"3"]
    assert [record.value async for record in read_records(log, [2, 1, 0])] == [b"4", b"3"]
    assert [batch[0].partition async for batch in read_partitions(log)] == [0, 1]


async def test_offsets_of_all_partitions() -> None:
    log = await filled()
    assert (await start_offsets(log), await end_offsets(log)) == ([0, 0, 0], [3, 2, 0])
    assert await first_offsets(log, 0.0) == [0, 0, 0]


async def test_a_reader_gives_every_record_once() -> None:
    log = MemoryLog("evaluations", partitions=2)
    reader = IncrementalReader(log)
    seen: list[bytes] = []
    for batch in range(3):
        await log.append([Record(None, b"%d-%d" % (batch, partition), partition=partition) for partition in (0, 1)])
        seen += [record.value async for record in reader.records()]
    assert sorted(seen) == [b"0-0", b"0-1", b"1-0", b"1-1", b"2-0", b"2-1"]


async def test_a_batch_whose_processing_failed_is_read_again() -> None:
    reader = IncrementalReader(await filled(), [0, 1, 0])
    async for _ in reader.batches():
        break  # as an exception would leave it
    assert [record.value async for record in reader.records()] == [b"0", b"2", b"4", b"3"]
    assert [record.value async for record in reader.records()] == []
