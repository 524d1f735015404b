"""Folds that are exchanged: the new one has all that the old one had, once, and the consumer notices nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.exchangeable_folds import ExchangeableFolds
from collector.logs.log import Committed, Fold, OpenFold, Record, StoredRecord
from collector.logs.memory import MemoryLog


class Needing:
    """A fold that needs the last two records, and remembers what it has. A closed gate holds deliveries back."""

    due_at = None

    def __init__(self, committed: Committed | None, gate: asyncio.Event) -> None:
        self.committed = committed
        self.gate = gate
        self.replayed: list[int] = []
        self.delivered: list[int] = []

    @property
    def low_watermark(self) -> int | None:
        last = [*self.replayed, *self.delivered][-2:]
        return last[0] if last else None

    @property
    def metadata(self) -> str:
        return f"{len(self.replayed) + len(self.delivered)}"

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.replayed += [each.offset for each in records]

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        for each in records:
            await self.gate.wait()
            self.delivered.append(each.offset)


class World:
    def __init__(self) -> None:
        self.log = MemoryLog("turns", partitions=1, timing=ConsumerTiming(commit_interval=0.01, batch_records=4))
        self.gate = asyncio.Event()
        self.gate.set()
        self.opened: list[Needing] = []
        self.folds = ExchangeableFolds(self.log, self.opening())

    def opening(self) -> OpenFold:
        @asynccontextmanager
        async def open_fold(_partition: int, committed: Committed | None) -> AsyncGenerator[Needing]:
            fold = Needing(committed, self.gate)
            self.opened.append(fold)
            yield fold

        return open_fold

    def opening_slowly(self, opened: asyncio.Event) -> OpenFold:
        """As when the ledger is read back."""
        open_at_once = self.opening()

        @asynccontextmanager
        async def open_fold(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            await opened.wait()
            async with open_at_once(partition, committed) as fold:
                yield fold

        return open_fold

    async def put(self, number: int) -> None:
        await self.log.append([Record(None, b"", partition=0) for _ in range(number)])

    async def until_delivered(self, last: int) -> None:
        async with asyncio.timeout(20):
            while not (self.opened and self.opened[-1].delivered and self.opened[-1].delivered[-1] == last):
                await asyncio.sleep(0)


@asynccontextmanager
async def following(world: World) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(world.log.follow("group", world.folds.open_fold))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_at_rest_the_new_one_replays_what_is_needed() -> None:
    world = World()
    await world.put(6)
    async with following(world):
        await world.until_delivered(5)
        await world.folds.exchange(world.opening())
        assert world.opened[1].committed == Committed(4, 6, "6")
        assert (world.opened[1].replayed, world.opened[1].delivered) == ([4, 5], [])
        await world.put(2)
        async with asyncio.timeout(20):
            while (state := (await world.log.committed("group")).get(0)) is None or state.offset < 8:
                await asyncio.sleep(0.01)


async def test_what_is_being_delivered_is_given_to_the_new_one_from_the_start() -> None:
    world = World()
    await world.put(3)
    async with following(world):
        await world.until_delivered(2)
        world.gate.clear()
        await world.put(3)
        for _ in range(20):
            await asyncio.sleep(0)
        world.gate = asyncio.Event()
        world.gate.set()
        await world.folds.exchange(world.opening())
        await world.until_delivered(5)
    assert (world.opened[1].replayed, world.opened[1].delivered) == ([1, 2], [3, 4, 5])


async def test_twice_at_once_is_twice_one_after_the_other() -> None:
    world = World()
    await world.put(4)
    async with following(world):
        await world.until_delivered(3)
        await asyncio.gather(world.folds.exchange(world.opening()), world.folds.exchange(world.opening()))
        await world.put(1)
        await world.until_delivered(4)
    assert len(world.opened) == 3
    assert (world.opened[2].replayed, world.opened[2].delivered) == ([2, 3], [4])


async def test_a_new_one_that_cannot_be_opened_ends_the_consumer() -> None:
    @asynccontextmanager
    async def broken(_partition: int, _committed: Committed | None) -> AsyncGenerator[Needing]:
        raise ValueError("no")
        yield  # pragma: no cover

    world = World()
    await world.put(1)
    task = asyncio.create_task(world.log.follow("group", world.folds.open_fold))
    await world.until_delivered(0)
    await world.folds.exchange(broken)
    with pytest.raises(ValueError, match="no"):
        await task


async def some_steps() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_that_is_being_opened_is_exchanged_too() -> None:
    world, opened = World(), asyncio.Event()
    await world.put(2)
    world.folds.open_inner = world.opening_slowly(opened)
    async with following(world):
        await some_steps()
        exchanging = asyncio.create_task(world.folds.exchange(world.opening()))
        await some_steps()
        assert not exchanging.done(), "the one of before is not open yet"
        opened.set()
        await exchanging
        await world.until_delivered(1)
    assert [each.delivered for each in world.opened] == [[], [0, 1]]


async def test_a_partition_that_is_taken_away_meanwhile_stays_closed() -> None:
    world, opened = World(), asyncio.Event()
    await world.put(2)
    async with following(world) as task:
        await world.until_delivered(1)
        exchanging = asyncio.create_task(world.folds.exchange(world.opening_slowly(opened)))
        await some_steps()
        task.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait([task])
            await exchanging
    assert len(world.opened) == 1


class Closing:
    """A fold whose closing takes its time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closing, self.closed = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        async with self.world.opening()(partition, committed) as fold:
            try:
                yield fold
            finally:
                self.closing.set()
                await self.closed.wait()


async def test_a_partition_that_is_taken_away_while_the_one_of_before_closes_stays_closed() -> None:
    world = World()
    before = Closing(world)
    world.folds.open_inner = before.open_fold
    async with asyncio.timeout(5):
        async with world.folds.open_fold(0, None):
            exchanging = asyncio.create_task(world.folds.exchange(world.opening()))
            await before.closing.wait()
            asyncio.get_running_loop().call_later(0.01, before.closed.set)
        await exchanging
    assert len(world.opened) == 1
