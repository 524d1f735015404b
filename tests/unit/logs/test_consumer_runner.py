"""The driver that feeds folds, with a clock and a stream of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest

from collector.logs.consumer_runner import TICK_PATIENCE, Batch, ConsumerRunner, ConsumerTiming, PartitionFeed
from collector.logs.log import TICK, Committed, LogUnavailable, Record, StoredRecord


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeStream:
    def __init__(self) -> None:
        self.waiting = False
        self.chunks: asyncio.Queue[Batch | Exception] = asyncio.Queue()

    async def next(self) -> Batch:
        self.waiting = self.chunks.empty()
        chunk = await self.chunks.get()
        self.waiting = False
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


class FakeFold:
    def __init__(self) -> None:
        self.due_at: float | None = None
        self.low_watermark: int | None = None
        self.metadata = ""
        self.replayed: list[int] = []
        self.delivered: list[int] = []
        self.finishes_delivery = False
        self.awaits_commits = False
        self.deliver_until = asyncio.Event()
        self.deliver_until.set()

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.replayed += [record.offset for record in records]

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        await self.deliver_until.wait()
        self.delivered += [record.offset for record in records]


class Rig:
    """One feed of one fold; `ticks` are what was appended."""

    def __init__(
        self,
        committed: Committed | None = None,
        append_fails: bool = False,
        patience: float = 10.0,
        tick_interval: float = 0.0001,
    ) -> None:
        self.clock = Clock()
        self.stream = FakeStream()
        self.fold = FakeFold()
        self.ticks: list[Record] = []
        self.commits: list[Committed] = []
        self.append_fails = append_fails
        self.commit_fails = False
        timing = ConsumerTiming(
            clock=self.clock, tick_interval=tick_interval, commit_interval=3600.0, patience=patience
        )
        self.feed = PartitionFeed(0, committed, 0, self.stream, timing)
        self.following = ConsumerRunner(self.open_fold, self.commit, self.append, timing)

    @asynccontextmanager
    async def open_fold(self, _partition: int, _committed: Committed | None):
        yield self.fold

    async def commit(self, states) -> None:
        if self.commit_fails:
            raise LogUnavailable("no answer")
        self.commits += states.values()

    async def append(self, records: Sequence[Record]) -> None:
        if self.append_fails:
            raise LogUnavailable("full")
        self.ticks += records

    def give(self, *positions: int, end: int | None = None, timestamp: float = 1000.0, tick: bool = False) -> None:
        records = [StoredRecord(0, at, timestamp, None, b"", TICK if tick else ()) for at in positions]
        self.stream.chunks.put_nowait(Batch(records, end if end is not None else positions[-1] + 1))

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.following.feed_all([self.feed]))
        await settle()
        yield task
        task.cancel()
        await asyncio.wait([task])


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0.0003)


async def test_a_chunk_across_the_position_is_replayed_before_and_delivered_behind() -> None:
    rig = Rig(Committed(2, 5))
    async with rig.running():
        rig.give(2, 3)
        rig.give(4, 5, 6)
        rig.give(7)
        await settle()
    assert (rig.fold.replayed, rig.fold.delivered) == ([2, 3, 4], [5, 6, 7])


async def test_a_partition_that_is_lost_and_given_again_continues_where_its_delivery_ended() -> None:
    """A delivery that only appends may end; neither it nor what could not be committed is delivered again."""
    rig, finishing = Rig(Committed(2, 5)), asyncio.Event()
    rig.fold.low_watermark, rig.fold.finishes_delivery = 4, True
    async with rig.running():
        rig.give(2, 3, 4)
        rig.give(5, 6)
        await settle()
        rig.fold.deliver_until = finishing
        rig.give(7)
        await settle()
        revoking = asyncio.create_task(rig.following.revoke(0))
        await settle()
        finishing.set()
        await revoking
        again = PartitionFeed(0, Committed(2, 5), 2, rig.stream, rig.feed.timing)
        rig.following.assign(again)
        rig.give(2, 3, 4, 5, 6, 7, 8)
        await settle()
    assert (rig.fold.replayed, rig.fold.delivered) == ([2, 3, 4, 4, 5, 6, 7], [5, 6, 7, 8])
    assert rig.commits == [Committed(4, 9)]


async def test_a_commit_that_came_late_is_the_partitions_own() -> None:
    """The log took a commit whose answer was lost; what was delivered after it is not delivered again."""
    rig = Rig(Committed(2, 5))
    rig.commit_fails = True
    async with rig.running():
        rig.give(2, 3, 4, 5)
        await settle()
        await rig.following.commit()
        rig.give(6)
        await settle()
        await rig.following.revoke(0)
        rig.commit_fails = False
        again = PartitionFeed(0, Committed(6, 6), 6, rig.stream, rig.feed.timing)
        rig.following.assign(again)
        rig.give(6, 7)
        await settle()
    assert rig.fold.delivered == [5, 6, 7]


@pytest.mark.parametrize("committed", [None, Committed(3, 5), Committed(2, 6)])
async def test_where_another_owner_or_somebody_has_committed_since_a_partition_begins_there(committed) -> None:
    rig = Rig(Committed(2, 5))
    async with rig.running():
        rig.give(2, 3, 4, 5, 6)
        await settle()
        await rig.following.revoke(0)
        start = committed.low_watermark if committed else 0
        again = PartitionFeed(0, committed, start, rig.stream, rig.feed.timing)
        rig.following.assign(again)
        rig.give(*range(start, 8))
        await settle()
    assert rig.fold.delivered[2:] == list(range(committed.offset if committed else 0, 8))


@pytest.fixture
def _overdue_at_once(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr("collector.logs.consumer_runner.ANSWERED_WITHIN", 0.0)


async def until_a_commit_fails(rig: Rig) -> None:
    """Record 5 is delivered, its commit has failed, and record 6 has come."""
    rig.give(5)
    await settle()
    await rig.following.commit()
    rig.give(6)
    await settle()


@pytest.mark.usefixtures("_overdue_at_once")
async def test_a_fold_whose_effects_must_not_be_repeated_gets_nothing_while_commits_fail() -> None:
    rig = Rig(Committed(5, 5))
    rig.fold.awaits_commits = rig.commit_fails = True
    async with rig.running():
        rig.give(5)
        await settle()
        for position in (6, 7):
            await rig.following.commit()
            rig.give(position)
            await settle()
        assert rig.fold.delivered == [5]
        rig.commit_fails = False
        await rig.following.commit()
        await settle()
        assert (rig.fold.delivered, rig.commits) == ([5, 6, 7], [Committed(6, 6)])
        rig.give(8)
        await settle()
        assert rig.fold.delivered == [5, 6, 7, 8]


@pytest.mark.usefixtures("_overdue_at_once")
async def test_a_fold_that_waits_for_a_commit_closes_when_its_partition_goes() -> None:
    """What waited is delivered once the partition comes back, and nothing else."""
    rig = Rig(Committed(5, 5))
    rig.fold.awaits_commits = rig.commit_fails = True
    async with rig.running():
        await until_a_commit_fails(rig)
        await rig.following.revoke(0)
        rig.following.assign(PartitionFeed(0, Committed(5, 5), 5, rig.stream, rig.feed.timing))
        rig.give(5, 6)
        await settle()
        rig.commit_fails = False
    assert (rig.fold.delivered, rig.commits) == ([5, 6], [Committed(7, 7)])


@pytest.mark.usefixtures("_overdue_at_once")
async def test_a_fold_waits_for_a_commit_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.logs.consumer_runner.COMMIT_PATIENCE", 0.2)
    rig = Rig(Committed(5, 5))
    rig.fold.awaits_commits = rig.commit_fails = True
    async with rig.running():
        await until_a_commit_fails(rig)
        assert rig.fold.delivered == [5]
        async with asyncio.timeout(30.0):
            while rig.fold.delivered != [5, 6]:
                await settle()
        await rig.following.commit()
        rig.give(7)
        await settle()
        assert rig.fold.delivered == [5, 6, 7], "it does not wait for each delivery anew"


@pytest.mark.parametrize("fold", ["delivers on", "commits are young"])
async def test_a_delivery_waits_for_no_commit(fold: str) -> None:
    """Other folds know what they have done, and every commit is unanswered for a moment."""
    rig = Rig(Committed(5, 5))
    rig.commit_fails, rig.fold.awaits_commits = True, fold == "commits are young"
    async with rig.running():
        rig.give(5)
        await settle()
        await rig.following.commit()
        rig.give(6)
        await settle()
    assert rig.fold.delivered == [5, 6]


async def test_what_can_never_be_read_is_behind_the_position() -> None:
    rig = Rig()
    async with rig.running():
        rig.give(0, 1, end=9)
        rig.stream.chunks.put_nowait(Batch((), 12))
        await settle()
    assert rig.commits[-1] == Committed(12, 12)


async def test_a_replay_that_ends_in_what_can_never_be_read_is_over() -> None:
    rig = Rig(Committed(2, 5))
    async with rig.running():
        rig.give(2, end=5)
        await settle()
        rig.fold.low_watermark = 2
        rig.fold.metadata = "new"
    assert rig.commits == [Committed(2, 5, "new")]


async def test_what_has_not_changed_is_not_committed_again() -> None:
    rig = Rig(Committed(5, 5))
    async with rig.running():
        await rig.following.commit()
        assert rig.commits == []
        rig.give(5)
        await settle()
        await rig.following.commit()
        await rig.following.commit()
    assert rig.commits == [Committed(6, 6)]


async def test_a_low_watermark_beyond_the_position_is_the_position() -> None:
    rig = Rig()
    async with rig.running():
        rig.give(0)
        await settle()
        rig.fold.low_watermark = 99
    assert rig.commits == [Committed(1, 1)]


async def test_one_tick_is_on_its_way_until_it_comes_back() -> None:
    rig = Rig()
    async with rig.running():
        rig.give(0)
        await settle()
        rig.fold.due_at = 1005.0
        await settle()
        assert rig.ticks == []
        rig.clock.now = 1005.0
        await settle()
        assert rig.ticks == [Record(None, b"", TICK, 0)]
        rig.give(1, timestamp=1005.0, tick=True)
        rig.fold.due_at = None
        await settle()
        assert len(rig.ticks) == 1
        rig.fold.due_at = 1005.0
        rig.clock.now = 1005.1
        await settle()
        assert len(rig.ticks) == 2


async def test_records_bring_the_time_and_only_when_they_stop_a_tick_does() -> None:
    rig = Rig(tick_interval=0.1)
    async with rig.running():
        rig.fold.due_at = 999.0
        rig.give(0, timestamp=1000.0)
        await settle()
        assert not rig.feed.is_due(1000.09)
        assert rig.feed.is_due(1000.11)
        rig.give(1, timestamp=1000.1)
        await settle()
        assert not rig.feed.is_due(1000.19)
        assert rig.feed.is_due(1000.21)


async def test_a_log_whose_clock_is_behind_gets_time() -> None:
    rig = Rig()
    async with rig.running():
        rig.fold.due_at = 1000.0
        await settle()
        assert len(rig.ticks) == 1
        rig.give(0, timestamp=997.0, tick=True)
        await settle()
        assert len(rig.ticks) == 1
        rig.clock.now = 1002.9
        await settle()
        assert len(rig.ticks) == 1
        rig.clock.now = 1003.1
        await settle()
        assert len(rig.ticks) == 2


async def test_what_is_due_late_holds_no_tick_up_for_what_comes_and_is_due_before() -> None:
    """A trace that lingers is due in a minute; one that comes after the tick is due in ten seconds."""
    rig = Rig()
    async with rig.running():
        rig.fold.due_at = 1000.0
        await settle()
        rig.fold.due_at = 1060.0
        rig.give(0, timestamp=1000.0, tick=True)
        await settle()
        rig.fold.due_at = 1001.0
        rig.give(1, timestamp=1000.5)
        rig.clock.now = 1000.5
        await settle()
        assert len(rig.ticks) == 1
        rig.clock.now = 1001.1
        await settle()
        assert len(rig.ticks) == 2


async def test_a_tick_that_was_lost_is_sent_again() -> None:
    rig = Rig()
    async with rig.running():
        rig.fold.due_at = 1000.0
        await settle()
        rig.clock.now += TICK_PATIENCE + 0.1
        await settle()
        assert len(rig.ticks) == 2


async def test_a_tick_that_cannot_be_written_is_tried_again() -> None:
    rig = Rig(append_fails=True)
    async with rig.running() as task:
        rig.fold.due_at = 1000.0
        await settle()
        assert not task.done()
        rig.append_fails = False
        rig.clock.now += 1.1
        await settle()
        assert len(rig.ticks) == 1


async def test_there_are_no_ticks_while_records_are_there_to_be_read() -> None:
    rig = Rig()
    rig.fold.due_at = 1000.0
    gate = asyncio.Event()
    deliver = rig.fold.deliver

    async def slow(records: Sequence[StoredRecord]) -> None:
        await gate.wait()
        await deliver(records)

    rig.fold.deliver = slow
    async with rig.running():
        rig.give(0)
        rig.ticks.clear()
        rig.feed.no_tick_before = 0.0
        await settle()
        assert rig.ticks == []
        gate.set()


async def test_reading_is_tried_again_within_the_patience() -> None:
    rig = Rig(patience=0.05)
    async with rig.running() as task:
        rig.clock.now += 3600  # waiting for records is no failure
        rig.stream.chunks.put_nowait(LogUnavailable("away"))
        rig.give(0)
        await asyncio.sleep(0.05)
        assert rig.fold.delivered == [0]
        rig.stream.chunks.put_nowait(LogUnavailable("away"))
        await settle()
        rig.clock.now += 1
        rig.stream.chunks.put_nowait(LogUnavailable("gone"))
        await asyncio.wait([task], timeout=60)
        with pytest.raises(LogUnavailable, match="gone"):
            task.result()


async def test_nothing_is_committed_before_or_within_a_replay() -> None:
    rig = Rig(Committed(2, 5))
    async with rig.running():
        await rig.following.commit()
        rig.give(2, 3)
        await settle()
        await rig.following.commit()
        assert rig.commits == []
    assert rig.commits == []
