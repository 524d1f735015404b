"""Throughput and latency of the logs: `python tests/bench/logs.py sqlite|kafka|memory [bootstrap]`."""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from collector.logs.log import Committed, Log, Record, StoredRecord

SIZE = 1000
VALUE = b"x" * SIZE


class Counting:
    due_at = None
    low_watermark = None
    metadata = ""

    def __init__(self) -> None:
        self.count = 0

    async def replay(self, records: Sequence[StoredRecord]) -> None: ...

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.count += len(records)


async def append_all(log: Log, total: int, per_append: int, writers: int) -> list[float]:
    latencies: list[float] = []

    async def write(writer: int) -> None:
        for n in range(total // per_append // writers):
            batch = [Record(b"%d-%d" % (writer, n + k), VALUE) for k in range(per_append)]
            start = time.perf_counter()
            await log.append(batch)
            latencies.append(time.perf_counter() - start)

    await asyncio.gather(*map(write, range(writers)))
    return latencies


async def measure(log: Log, total: int, per_append: int, writers: int) -> None:
    fold = Counting()

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncIterator[Counting]:
        yield fold

    cpu, start = cpu_seconds(), time.perf_counter()
    latencies = await append_all(log, total, per_append, writers)
    appended = time.perf_counter() - start
    report("append", total, appended, cpu_seconds() - cpu)
    quantiles = statistics.quantiles(latencies, n=100)
    print(f"    latency p50 {quantiles[49] * 1e3:.2f} ms, p99 {quantiles[98] * 1e3:.2f} ms")
    cpu, start = cpu_seconds(), time.perf_counter()
    task = asyncio.create_task(log.follow("bench", open_fold))
    await reached(fold, total, task)
    report("follow", total, time.perf_counter() - start, cpu_seconds() - cpu)
    cpu, start = cpu_seconds(), time.perf_counter()
    await append_all(log, total, per_append, writers)
    await reached(fold, 2 * total, task)
    report("both  ", total, time.perf_counter() - start, cpu_seconds() - cpu)
    task.cancel()
    await asyncio.wait([task])


async def reached(fold: Counting, total: int, task: asyncio.Task[None]) -> None:
    while fold.count < total and not task.done():
        await asyncio.sleep(0.001)
    if task.done():
        task.result()


def report(what: str, total: int, seconds: float, cpu: float) -> None:
    print(f"    {what} {total / seconds:>9,.0f} records/s, {cpu / total * 1e6:.1f} us CPU per record")


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@asynccontextmanager
async def opened(kind: str, folder: Path, arguments: Sequence[str]) -> AsyncIterator[Log]:
    if kind == "memory":
        from collector.logs.memory import MemoryLog

        log: Log = MemoryLog("spans", 8)
    elif kind == "sqlite":
        from collector.logs.sqlite import SqliteLog

        log = (await SqliteLog.open(folder / "bench.db", ["spans"], 8))["spans"]
    else:
        from collector.logs.kafka import KafkaLog, KafkaSettings

        settings = KafkaSettings(bootstrap_servers=[arguments[0]])
        log = (await KafkaLog.open(settings, {"spans": f"bench-{uuid.uuid4().hex}"}, partitions=8))["spans"]
    yield log
    await log.close()


async def main(kind: str, arguments: Sequence[str]) -> None:
    for total, per_append, writers in ((2_000, 1, 1), (19_200, 1, 64), (64_000, 10, 64), (100_000, 500, 8)):
        print(f"{kind}: {writers} writers of {per_append} records of {SIZE} bytes")
        with tempfile.TemporaryDirectory() as folder:
            async with opened(kind, Path(folder), arguments) as log:
                await measure(log, total, per_append, writers)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(sys.argv[1], sys.argv[2:]))
