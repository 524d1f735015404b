"""Appends, deliveries, commits, stops, crashes and truncation in any order: a fold ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from log_stores import MemoryStore, SqliteStore, Store

from collector.logs import consumer_runner as driver
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Committed, Log, LogUnavailable, Record, StoredRecord

PARTITIONS = 2
TIMING = ConsumerTiming(commit_interval=3600.0, tick_interval=3600.0, batch_records=3)


@dataclass
class Conversations:
    """What records lead to, as a pure function: the open ones with their records, and those that were closed."""

    open: dict[bytes, list[StoredRecord]] = field(default_factory=dict)
    closed: list[tuple[bytes, tuple[int, ...]]] = field(default_factory=list)

    def take(self, record: StoredRecord) -> None:
        assert record.key is not None
        if record.value == b"close":
            members = self.open.pop(record.key, [])
            self.closed.append((record.key, tuple(each.offset for each in members)))
        else:
            self.open.setdefault(record.key, []).append(record)


class World:
    """What outlives every process: what was said to be durable, and what was delivered."""

    def __init__(self) -> None:
        self.appended: list[Record] = []
        self.delivered: set[tuple[int, int]] = set()
        self.effects: set[tuple[int, bytes, tuple[int, ...]]] = set()


class FoldingConsumer:
    """Keeps what is open, and makes an effect of what closes, unless it is replayed."""

    due_at = None

    def __init__(self, partition: int, committed: Committed | None, world: World, gate: asyncio.Event) -> None:
        self.partition = partition
        self.offset = committed.offset if committed else 0
        self.state = Conversations()
        self._world = world
        self._gate = gate

    @property
    def low_watermark(self) -> int | None:
        return min((members[0].offset for members in self.state.open.values()), default=None)

    @property
    def metadata(self) -> str:
        return f"after {self.offset}"

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        for record in records:
            await self._gate.wait()
            self.state.take(record)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        for record in records:
            await self._gate.wait()
            known = len(self.state.closed)
            self.state.take(record)
            for key, members in self.state.closed[known:]:
                self._world.effects.add((self.partition, key, members))
            self._world.delivered.add((record.partition, record.offset))
            self.offset = record.offset + 1


class LogMachine(RuleBasedStateMachine):
    """One log, one group that follows it at times, and a process that dies at any moment."""

    store: Store
    log: Log

    def make_store(self) -> Store:
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.world = World()
        self.folds: dict[int, FoldingConsumer] = {}
        self.follow: asyncio.Task[None] | None = None
        self.following: list[driver.ConsumerRunner] = []
        self.gate = self.run(self.make_gate())
        self.store = self.make_store()
        self.log = self.run(self.store.open(PARTITIONS, TIMING))

    def run(self, coroutine):
        return self.runner.run(coroutine)

    async def make_gate(self) -> asyncio.Event:
        gate = asyncio.Event()
        gate.set()
        return gate

    @rule(
        records=st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"turn", b"turn", b"close"])),
            min_size=1,
            max_size=6,
        )
    )
    def append(self, records: list[tuple[bytes, bytes]]) -> None:
        made = [Record(key, value) for key, value in records]
        self.run(self.log.append(made))
        self.world.appended += made

    @precondition(lambda self: self.follow is None)
    @rule()
    def begin_to_follow(self) -> None:
        self.run(self._begin())

    @precondition(lambda self: self.follow is not None)
    @rule(turns=st.integers(1, 30))
    def let_it_work(self, turns: int) -> None:
        self.run(self._turn(turns))

    @precondition(lambda self: self.follow is not None)
    @rule()
    def commit(self) -> None:
        self.run(self.following[-1].commit())

    @rule()
    def hold_deliveries(self) -> None:
        self.gate.clear()

    @rule()
    def let_deliveries_go_on(self) -> None:
        self.gate.set()

    @precondition(lambda self: self.follow is not None)
    @rule()
    def stop(self) -> None:
        self.run(self._end())

    @rule()
    def crash(self) -> None:
        """Nothing is committed any more, and the process comes again."""
        self.run(self._crash())

    @rule()
    def truncate(self) -> None:
        """Once the group has committed: before, the log does not know of it."""
        if self.run(self.store.commits("g")):
            self.run(self.log.truncate(before=2e10))

    @precondition(lambda self: self.follow is not None)
    @rule()
    def commit_and_truncate_and_come_again(self) -> None:
        self.commit()
        self.truncate()
        self.crash()
        self.begin_to_follow()

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            self.gate.set()
            if self.follow is None:
                self.run(self._begin())
            self.run(self._catch_up())
            self._check()
        finally:
            self.run(self._end())
            self.run(self.store.close())
            self.runner.close()

    async def _begin(self) -> None:
        self.folds.clear()
        made = driver.ConsumerRunner.__init__

        def kept(following: driver.ConsumerRunner, *arguments: object) -> None:
            made(following, *arguments)
            self.following.append(following)

        driver.ConsumerRunner.__init__ = kept
        try:
            self.follow = asyncio.create_task(self.log.follow("g", self.open_fold))
            await asyncio.sleep(0.002)
            while len(self.folds) < PARTITIONS:
                await asyncio.sleep(0.001)
        finally:
            driver.ConsumerRunner.__init__ = made

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncIterator[FoldingConsumer]:
        self.folds[partition] = FoldingConsumer(partition, committed, self.world, self.gate)
        yield self.folds[partition]

    async def _turn(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0.0002)

    async def _end(self) -> None:
        if self.follow is not None:
            self.follow.cancel()
            with suppress(asyncio.CancelledError):
                await self.follow
            self.follow = None

    async def _crash(self) -> None:
        async def refuse(_states: object) -> None:
            raise LogUnavailable("the process is dead")

        if self.follow is not None:
            self.following[-1]._commit = refuse
            await self._end()
        self.log = await self.store.restart()

    async def _catch_up(self) -> None:
        async with asyncio.timeout(20):
            for partition in range(PARTITIONS):
                while self.folds[partition].offset < await self.log.end_offset(partition):
                    await asyncio.sleep(0.001)
            await self._turn(5)  # the replay of an empty stretch has no end to wait for

    def _check(self) -> None:
        expected = [Conversations() for _ in range(PARTITIONS)]
        places = self._places()
        for record, (partition, position) in zip(self.world.appended, places, strict=True):
            expected[partition].take(StoredRecord(partition, position, 0.0, record.key, record.value))
        for partition, conversations in enumerate(expected):
            state = self.folds[partition].state.open
            assert positions(state) == positions(conversations.open)
            effects = {(key, members) for at, key, members in self.world.effects if at == partition}
            assert effects == set(conversations.closed)
        assert self.world.delivered == set(places)

    def _places(self) -> list[tuple[int, int]]:
        """Where the records are, by what every log promises: their key's partition, in order."""
        from collector.logs.log import partition_of

        ends = [0] * PARTITIONS
        places = []
        for record in self.world.appended:
            assert record.key is not None
            partition = partition_of(record.key, PARTITIONS)
            places.append((partition, ends[partition]))
            ends[partition] += 1
        return places


def positions(conversations: dict[bytes, list[StoredRecord]]) -> dict[bytes, list[int]]:
    return {key: [member.offset for member in members] for key, members in conversations.items()}


class MemoryMachine(LogMachine):
    def make_store(self) -> Store:
        return MemoryStore()


class SqliteMachine(LogMachine):
    def make_store(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteStore(Path(self.folder.name))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


few = settings(max_examples=40, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow])
TestMemoryLog = MemoryMachine.TestCase
TestMemoryLog.settings = few
TestSqliteLog = SqliteMachine.TestCase
TestSqliteLog.settings = few
