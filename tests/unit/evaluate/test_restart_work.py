"""What a restart has to read is bounded, in records, and so is what snapshots take in the log."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

import pytest
from plan_histories import one_plan

from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS, parse_snapshot
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.snapshot_writer import TURNS_PER_SNAPSHOT_TURN
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Dispatcher
from collector.evaluate.stage import EvaluateStage, PartitionProcessor
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import TICK, Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import turn_to_json
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge, NoJudge
from evaluators.results import Score

AT_ONCE = 40
"""Turns that come together."""
PASSED_OVER = 0.2
"""The work of a turn that is not sampled, in sampled ones."""


class TurnCount(Evaluator[Conversation]):
    kind: ClassVar[str] = "turn_count"
    scope: ClassVar[Any] = "conversation"
    needs_judge: ClassVar[bool] = False
    gate: ClassVar[asyncio.Event | None] = None

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        if self.gate is not None:
            await self.gate.wait()
        return Score(value=len(case.turns) / 1000)


class Service:
    """The evaluate stage over logs in memory; what it appends to the turns log comes back to it."""

    def __init__(
        self, limits: StateLimits, *, partitions: int = 1, rate: float = 1.0, idle: float = 1e6, **log: Any
    ) -> None:
        self.now = 1000.0
        timing = ConsumerTiming(clock=lambda: self.now)
        self.turns = MemoryLog("turns", partitions, timing=timing, **log)
        self.evaluations = MemoryLog("evaluations", partitions, timing=timing)
        self.limits = limits
        evaluator = TurnCount(name="c")
        windows = SessionWindowSettings(idle_gap=idle, allowed_lateness=idle, max_age=1e9, max_turns=10**6)
        self.plan = Plan(
            (Monitor("m", (Assignment(evaluator, NoJudge(), "v"),), {}, rate=rate, window_settings=windows),)
        )
        self.folds: dict[int, PartitionProcessor] = {}
        self.positions = dict.fromkeys(range(partitions), 0)
        self.committed: dict[int, Committed] = {}
        self.sent = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Service]:
        dispatcher = Dispatcher(self.evaluations, EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=64))
        stage = EvaluateStage(self.plan, dispatcher, turns=self.turns, limits=self.limits, definitions=one_plan())
        async with AsyncExitStack() as stack:
            for partition in self.positions:
                committed = self.committed.get(partition)
                self.folds[partition] = await stack.enter_async_context(stage.open_fold(partition, committed))
            for partition, committed in self.committed.items():
                old = await self.read(partition, committed.low_watermark)
                await self.folds[partition].replay([each for each in old if each.offset < committed.offset])
            yield self

    async def read(self, partition: int, start: int) -> list[StoredRecord]:
        return [each async for batch in self.turns.read(partition, start) for each in batch]

    async def send(self, conversations: Sequence[str], *, text: str = "") -> None:
        """A turn of each conversation, some of them at a time."""
        for start in range(0, len(conversations), AT_ONCE):
            batch: list[Record] = []
            for name in conversations[start : start + AT_ONCE]:
                self.sent += 1
                of = Turn(turn_id=f"t{self.sent}", conversation_id=name, input=f"{self.sent} {text}")
                batch.append(Record(name.encode(), turn_to_json(of)))
            await self.turns.append(batch)
            await self.settle(1)

    async def tick(self) -> None:
        await self.turns.append([Record(None, b"", TICK, partition) for partition in self.positions])
        await self.settle(1)

    async def settle(self, rounds: int) -> None:
        """Deliver what there is, and commit."""
        for _ in range(rounds):
            for partition, fold in self.folds.items():
                if records := await self.read(partition, self.positions[partition]):
                    await fold.deliver(records)
                    self.positions[partition] = records[-1].offset + 1
                self.commit(partition, fold)
        for _ in range(5):
            await asyncio.sleep(0)

    def commit(self, partition: int, fold: PartitionProcessor) -> None:
        low = fold.low_watermark
        assert low is not None
        self.committed[partition] = Committed(low, self.positions[partition], fold.metadata)

    async def to_read(self) -> Counter[str]:
        """What a restart would have to read: turns and snapshots."""
        found: Counter[str] = Counter()
        for partition, committed in self.committed.items():
            for each in await self.read(partition, committed.low_watermark):
                found["snapshots" if each.headers == SNAPSHOT_HEADERS else "turns"] += 1
        return found

    async def written(self) -> list[StoredRecord]:
        everything = [each for partition in self.positions for each in await self.read(partition, 0)]
        return [each for each in everything if each.headers == SNAPSHOT_HEADERS]

    def state(self) -> dict[str, list[str]]:
        """The turns of each conversation."""
        return {
            name: [turn_id for window in conversation.windows for turn_id in window.turns]
            for fold in self.folds.values()
            for name, conversation in fold.state.sessions_by_monitor["m"].items()
        }


@pytest.mark.parametrize("rate", [1.0, 0.02], ids=["all", "one in fifty"])
@pytest.mark.parametrize("partitions", [1, 8])
@pytest.mark.parametrize("turns_each", [1, 6, 12])
async def test_a_restart_of_the_process_reads_few_turns_one_by_one(
    turns_each: int, partitions: int, rate: float
) -> None:
    """Some 300 of all partitions together, or a quarter of those that are open; the others are in snapshots."""
    conversations = (3600 if rate == 1.0 else 14_400) // turns_each
    service = Service(StateLimits(snapshot_turns=300), partitions=partitions, rate=rate)
    held = 0
    async with service.running():
        for _ in range(turns_each):
            for start in range(0, conversations, 600):
                await service.send([f"c{n}" for n in range(start, min(start + 600, conversations))])
                found, state = await service.to_read(), service.state()
                held = sum(map(len, state.values()))
                assert found["turns"] * (rate + PASSED_OVER) <= 1.35 * max(300.0, held / TURNS_PER_SNAPSHOT_TURN)
                assert found["snapshots"] <= 1.3 * len(state) + 20
        before = service.state()
    assert held > (3000 if rate == 1.0 else 200)
    assert len(copied(await service.written())) <= TURNS_PER_SNAPSHOT_TURN * service.sent * (rate + PASSED_OVER)
    async with service.running():
        assert service.state() == before


async def test_what_stays_open_for_long_is_written_again_only_as_fast_as_turns_come() -> None:
    """However often time passes and records come that are no turns: snapshots are no reason for snapshots."""
    service = Service(StateLimits(snapshot_turns=200))
    async with service.running():
        await service.send([f"c{n}" for n in range(800)])
        await service.settle(50)
        settled = len(await service.written())
        for _ in range(100):
            service.now += 70.0
            await service.tick()
            await service.settle(3)
        assert len(await service.written()) - settled <= 150, "ticks are a little work"
        service.now += 300.0  # beyond the two hours of `snapshot_seconds`
        await service.tick()
        await service.settle(20)
        assert len(await service.written()) - settled <= 960
        rounds = 20
        for _ in range(rounds):
            await service.send([f"c{n}" for n in range(100)])
        turns = 2 * sum(map(len, service.state().values()))
        assert len(copied(await service.written())) <= TURNS_PER_SNAPSHOT_TURN * turns


async def test_what_is_too_large_for_a_snapshot_stays_open_until_it_needs_records_far_back() -> None:
    limits = StateLimits(snapshot_turns=5)
    service = Service(limits, max_record_bytes=3000)
    rng = random.Random(1)
    async with service.running():
        for _ in range(12):
            await service.send(["large"], text=rng.randbytes(300).hex())
        await service.send([f"c{n}" for n in range(100)])
        assert len(service.state()["large"]) == 12
        names = {each.key for each in await service.written()}
        assert (b"large" in names, len(names) >= 40) == (False, True)
        service.now += limits.snapshot_seconds + 1.0
        await service.tick()
        await service.settle(1)
        assert "large" not in service.state()
        judged = [each async for batch in service.evaluations.read(0, 0) for each in batch if not each.headers]
        assert len(judged) == 1


async def test_a_single_partition_writes_no_snapshots_while_a_restart_reads_few_turns() -> None:
    service = Service(StateLimits(snapshot_turns=300))
    async with service.running():
        await service.send([f"c{n}" for n in range(200)])  # their work is 240
        assert not await service.written()
        await service.send([f"d{n}" for n in range(100)])
        assert await service.written()


async def test_one_that_is_too_large_keeps_no_other_from_its_snapshot() -> None:
    """They are written together, and the large one may be the second of two."""
    service = Service(StateLimits(snapshot_seconds=100.0), max_record_bytes=3000)
    async with service.running():
        await service.tick()
        await service.send(["small", *["large"] * 12], text=random.Random(1).randbytes(300).hex())
        assert not await service.written()
        service.now += 101.0
        await service.tick()
        await service.settle(1)
        assert [each.key for each in await service.written()] == [b"small"]
        assert list(service.state()) == ["small"], "the large one would hold the low watermark back"


async def test_snapshots_of_long_conversations_keep_nobody_waiting_for_much_more_than_a_mebibyte() -> None:
    service = Service(StateLimits(snapshot_seconds=100.0))
    async with service.running():
        await service.tick()
        await service.send([f"c{n}" for n in range(30)], text=random.Random(1).randbytes(50_000).hex())
        appended: list[int] = []
        append = service.turns.append

        async def noted(records: Sequence[Record]) -> None:
            appended.append(sum(len(each.value) for each in records))
            await append(records)

        service.turns.append = noted
        service.now += 101.0
        await service.tick()
        await service.settle(1)
        assert len(await service.written()) == 30
        assert 900_000 < max(appended) < 1_600_000, "bytes are written as base64"


async def test_nothing_is_snapshotted_while_that_would_not_help_a_restart() -> None:
    """An evaluation that is pending holds back the low watermark; when it has ended, snapshots catch up."""
    TurnCount.gate = asyncio.Event()
    try:
        service = Service(StateLimits(snapshot_turns=50), idle=1000.0)
        async with service.running():
            await service.send(["first"])
            service.now += 1001.0
            await service.send([f"c{n}" for n in range(300)])
            assert service.folds[0].in_flight == 1
            assert len(await service.written()) <= 50
            TurnCount.gate.set()
            await service.settle(5)
            await service.send([f"d{n}" for n in range(80)])
            assert (await service.to_read())["turns"] <= 1.5 * 380 / TURNS_PER_SNAPSHOT_TURN
    finally:
        TurnCount.gate = None


async def test_the_oldest_is_evicted_first_though_its_snapshot_is_newer() -> None:
    service = Service(StateLimits(snapshot_turns=20, conversations=100))
    async with service.running():
        await service.send([f"c{n}" for n in range(100)])
        assert len(await service.written()) >= 40
        await service.send(["new", "newer"])
        assert next(iter(service.state())) not in {"c2", "c3"}, "by replay points"
        assert set(service.state()) == {*map("c{}".format, range(2, 100)), "new", "newer"}


def copied(snapshots: Sequence[StoredRecord]) -> list[str]:
    """The turns in snapshots."""
    return [name for each in snapshots for window in parse_snapshot(each.value).windows for name in window.turns]
