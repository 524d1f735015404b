from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

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


async def test_a_partition_whose_fold_takes_long_to_open_has_interval(caplog: pytest.LogCaptureFixture) -> None:
    """A consumer may wait for a broker, or read much back: the service says what it waits for, after 30 s."""
    now, entered = [1000.0], asyncio.Event()
    lag = ConsumerLag(Telemetry(), clock=lambda: now[0])

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        await entered.wait()
        yield Consumer()

    async def open_and_hold() -> None:
        async with lag.measured("evaluate", MemoryLog("turns", partitions=4), open_fold)(3, None):
            await asyncio.Event().wait()

    holding = asyncio.create_task(open_and_hold())
    await asyncio.sleep(0)
    now[0] += 29
    assert lag.stalled() is None
    now[0] += 2
    said = "evaluate does not read turns[3] yet: to prepare for it has taken 31 s so far"
    assert lag.stalled() == said
    await lag.sample()
    assert said in caplog.text
    entered.set()
    await asyncio.sleep(0.01)
    assert lag.stalled() is None
    holding.cancel()
    await asyncio.wait([holding])


async def test_a_log_that_cannot_be_measured_ends_nothing_and_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """A deleted topic has no `retention.ms`: the process ended with a KeyError."""
    telemetry = Telemetry()
    lag = ConsumerLag(telemetry, clock=lambda: 1060.0)

    class Gone(MemoryLog):
        async def retention(self) -> float | None:
            raise KeyError("retention.ms")

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    log = MemoryLog("evaluations", partitions=1)
    await log.append([Record(None, b"x", partition=0) for _ in range(2)])
    lag.measured("evaluate", Gone("turns", partitions=1), open_fold)
    async with lag.measured("export", log, open_fold)(0, None) as fold:
        await fold.deliver([StoredRecord(0, 0, 1000.0, None, b"x")])
        await lag.sample()
    labels = {"consumer": "export", "log": "evaluations"}
    assert telemetry.registry.get_sample_value("evalstream_consumer_lag_records", labels) == 1
    assert "the lag of evaluate in turns cannot be measured: KeyError('retention.ms')" in caplog.text
