from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from collector.export.segments import SETTLING
from collector.logs.consumer_lag import SAMPLE_EVERY, STALLED_AFTER, ConsumerLag
from collector.logs.log import Committed, LogUnavailable, NotPermitted, Record, StoredRecord
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
    assert value("evalstream_consumer_lag_records") is None, "what somebody else owns is somebody else's"


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


async def test_the_ends_of_a_log_are_asked_for_at_once():
    """Each question goes to a broker: a log of 16 partitions asked 16 of them every five seconds, at rest as well."""
    lag, asked = ConsumerLag(Telemetry()), list[list[int]]()

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    class Asked(MemoryLog):
        async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
            asked.append([*partitions])
            return await super().end_offsets(partitions)

    opened = lag.measured("evaluate", Asked("turns", partitions=3), open_fold)
    async with opened(0, Committed(0, 0)), opened(1, None), opened(2, Committed(0, 0)):
        await lag.sample()
    assert asked == [[0, 2]]


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
        now += 91
        await lag.sample()
        assert lag.stalled() == "no progress of evaluate for 91 s"
        await fold.deliver([StoredRecord(0, 0, now, None, b"x")])
        await lag.sample()
        assert lag.stalled() is None, "it lags still, and moves"
        now += 91
        await fold.deliver([StoredRecord(0, offset, now, None, b"x") for offset in (1, 2)])
        await lag.sample()
        assert lag.stalled() is None, "it has all"


async def test_progress_counts_while_brokers_answer_no_sample():
    """A source had caught up before its broker stopped: /readyz reckoned from when it had lagged, 17 s after the stop."""
    now, log = 1000.0, Troubled("chats", partitions=1)
    lag = ConsumerLag(Telemetry(), clock=lambda: now)

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    await log.append([Record(None, b"x", partition=0) for _ in range(2)])
    async with (
        lag.measured("live", log, open_fold)(0, Committed(0, 0)) as fold,
        lag.measured("live", MemoryLog("spans", partitions=1), open_fold)(0, Committed(0, 0)),
    ):
        await lag.sample()
        log.trouble, now = LogUnavailable("it restarts"), now + 91
        await lag.sample()
        assert lag.stalled() == "no progress of live for 91 s", "also beside a second topic without lag"
        await fold.deliver([StoredRecord(0, 0, now, None, b"x")])
        await lag.sample()
        assert lag.stalled() is None
        log.trouble = None
        await lag.sample()
        now += 89
        assert lag.stalled() is None, "it is reckoned from the first sample there"
        now += 2
        assert lag.stalled() == "no progress of live for 91 s"


def test_a_wait_for_the_first_scrape_is_no_stall() -> None:
    """Both limits were 60 s: an exporter that nobody scrapes was said to stall at each start."""
    assert STALLED_AFTER > SETTLING + 2 * SAMPLE_EVERY


@pytest.mark.parametrize(
    ("partitions", "why"), [(4, "it restores its state"), (3, "the partition was added meanwhile, and gets no records")]
)
async def test_a_partition_whose_fold_takes_long_to_open_has_interval(
    partitions: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer may wait for a broker, or read much back: /readyz said nothing for the first 30 s after a start."""
    now, entered = [1000.0], asyncio.Event()
    lag = ConsumerLag(Telemetry(), clock=lambda: now[0])

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        await entered.wait()
        yield Consumer()

    async def open_and_hold() -> None:
        async with lag.measured("evaluate", MemoryLog("turns", partitions=partitions), open_fold)(3, None):
            await asyncio.Event().wait()

    holding = asyncio.create_task(open_and_hold())
    await asyncio.sleep(0)
    now[0] += 5
    assert lag.stalled() is None
    now[0] += 1
    assert lag.stalled() == f"evaluate has not read turns[3] for 6 s: {why}"
    await lag.sample()
    assert caplog.text == ""
    now[0] += 25
    said = f"evaluate has not read turns[3] for 31 s: {why}"
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


class Troubled(MemoryLog):
    """A log whose ends can be asked for unless there is `trouble`."""

    trouble: Exception | None = None

    async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        if self.trouble is not None:
            raise self.trouble
        return await super().end_offsets(partitions)

    async def retention(self) -> float | None:
        if isinstance(self.trouble, NotPermitted):
            raise self.trouble
        return 60.0


LAG = ("evalstream_consumer_lag_records", "evalstream_consumer_lag_seconds", "evalstream_oldest_needed_seconds")


@pytest.mark.parametrize(
    ("trouble", "kept"),
    [(NotPermitted("READ"), 0), (LogUnavailable("it restarts"), 60), (RuntimeError("a mistake of ours"), 60)],
)
async def test_what_cannot_be_measured_any_more_has_no_lag(
    trouble: Exception, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The lag of a topic that was not permitted any more stayed 0. A broker that restarts leaves no gap."""
    now, telemetry, log = [1000.0], Telemetry(), Troubled("turns", partitions=1)
    lag = ConsumerLag(telemetry, clock=lambda: now[0])

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    def values() -> list[float | None]:
        labels = {"consumer": "evaluate", "log": "turns"}
        return [telemetry.registry.get_sample_value(name, labels) for name in LAG]

    def retention() -> float | None:
        return telemetry.registry.get_sample_value("evalstream_log_retention_seconds", {"log": "turns"})

    async with lag.measured("evaluate", log, open_fold)(0, Committed(0, 0)):
        assert values() == [None] * 3, "nothing is known yet"
        await lag.sample()
        assert values() == [0.0] * 3
        log.trouble = trouble
        for now[0], known in ((1000.0 + kept - 1, kept > 0), (1000.0 + kept, False)):
            await lag.sample()
            assert values() == [0.0 if known else None] * 3
        assert retention() == 60
        for now[0] in (1600.0, 2200.0):
            await lag.sample()
            assert retention() == (None if isinstance(trouble, NotPermitted) else 60)
        line = f"the retention of turns is not watched any more ({trouble})"
        assert caplog.messages.count(line) == isinstance(trouble, NotPermitted), "once"
        log.trouble = None
        now[0] += 600.0
        with caplog.at_level("INFO"):
            await lag.sample()
        assert values() == [0.0] * 3
        again = "the retention of turns is watched again"
        assert caplog.messages.count(again) == isinstance(trouble, NotPermitted)


async def test_a_partition_that_goes_while_it_is_measured_does_not_stall() -> None:
    """Its offset was noted after it had gone: /readyz said for ever that its consumer makes no progress."""
    now = [1000.0]
    lag = ConsumerLag(Telemetry(), clock=lambda: now[0])

    class Going(MemoryLog):
        async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
            await leaving.aclose()
            return await super().end_offsets(partitions)

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Consumer]:
        yield Consumer()

    leaving, log = AsyncExitStack(), Going("turns", partitions=1)
    await log.append([Record(None, b"x", partition=0)])
    await leaving.enter_async_context(lag.measured("evaluate", log, open_fold)(0, Committed(0, 0)))
    await lag.sample()
    now[0] += 100
    assert lag.stalled() is None
