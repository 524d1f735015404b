from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from collector.logs.consumer_lag import ConsumerLag
from collector.logs.log import Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.telemetry.registry import Telemetry


class Consumer:
    due_at = None
    low_watermark = None
    metadata = ""

    async def replay(self, records: Sequence[StoredRecord]) -> None: ...

    async def deliver(self, records: Sequence[StoredRecord]) -> None: ...


async def test_the_lag_is_what_a_consumer_has_not_been_given():
    telemetry, log = Telemetry(), MemoryLog("turns", partitions=1)
    lag = ConsumerLag(telemetry, clock=lambda: 1060.0)

    @asynccontextmanager
    async def open_fold(partition: int, committed: Committed | None) -> AsyncGenerator[Consumer]:
        del partition, committed
        yield Consumer()

    def value(name: str) -> float | None:
        return telemetry.registry.get_sample_value(name, {"consumer": "evaluate", "log": "turns"})

    measured = lag.measured("evaluate", log, open_fold)
    await log.append([Record(None, b"x", partition=0) for _ in range(5)])
    async with measured(0, None) as fold:
        await fold.deliver([StoredRecord(0, position, 1000.0, None, b"x") for position in range(2)])
        await lag.sample()
        assert value("evalstream_consumer_lag_records") == 3
        assert value("evalstream_consumer_lag_seconds") == 60
        await fold.deliver([StoredRecord(0, position, 1050.0, None, b"x") for position in range(2, 5)])
        await lag.sample()
        assert value("evalstream_consumer_lag_records") == 0
        assert value("evalstream_consumer_lag_seconds") == 0
    await log.append([Record(None, b"x", partition=0)])
    await lag.sample()
    assert value("evalstream_consumer_lag_records") == 0, "what somebody else owns is somebody else's"


async def test_a_consumer_may_start_during_a_sample():
    lag = ConsumerLag(Telemetry())

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    class Slow(MemoryLog):
        """While its end is asked for, another stage starts."""

        async def end_offset(self, partition: int) -> int:
            lag.measured("export", MemoryLog("evaluations", partitions=1), open_fold)
            return await super().end_offset(partition)

    async with lag.measured("evaluate", Slow("turns", partitions=1), open_fold)(0, Committed(0, 0)):
        await lag.sample()


async def test_a_consumer_that_lags_without_progress_is_stalled():
    now, log = 1000.0, MemoryLog("turns", partitions=1)
    lag = ConsumerLag(Telemetry(), clock=lambda: now)

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    await log.append([Record(None, b"x", partition=0) for _ in range(3)])
    async with lag.measured("evaluate", log, open_fold)(0, Committed(0, 0)) as fold:
        await lag.sample()
        assert lag.stalled() is None
        now += 61
        await lag.sample()
        assert lag.stalled() == "no progress of evaluate for 61 s"
        await fold.deliver([StoredRecord(0, 0, now, None, b"x")])
        await lag.sample()
        assert lag.stalled() is None, "it lags still, and moves"
        now += 61
        await fold.deliver([StoredRecord(0, offset, now, None, b"x") for offset in (1, 2)])
        await lag.sample()
        assert lag.stalled() is None, "it has all"
