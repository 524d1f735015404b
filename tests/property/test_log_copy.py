"""Logs that are copied at any moment, to any number of partitions, again and again, are gone on with as if nothing were.

Users talk; turns come twice; evaluations are pending and conversations open when the service stops or is killed. Nothing
is judged twice, nothing is lost, no conversation is torn, and every exporter gets everything.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from gated_deliveries import until_taken
from plan_histories import OnePlan, one_plan
from test_conversation_machine import GATE, IDLE, LATENESS, Gate, Moody, Priced, Whole, Words, expected

from collector.assemble.open_traces import TraceLimits
from collector.commands.log_copy.copying import LogCopy
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import EvaluateStage, StageTiming
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import TICK, Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.open_logs import NAMES, Logs
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.judge import NoJudge
from evaluators.results import Evaluation

EXPORTERS = ("early", "late")
MONITOR = Monitor(
    name="m",
    assignments=tuple(Assignment(each, NoJudge(), each.version) for each in (Words(name="w"), Whole(name="c"))),
    match={},
    window_settings=SessionWindowSettings(idle_gap=IDLE, allowed_lateness=LATENESS),
)
PRICED = replace(
    MONITOR,
    assignments=(
        *(replace(each, rate=1.0) for each in MONITOR.assignments),
        Assignment(Moody(name="p"), Priced(), "v", expected_usd=Priced.usd),
    ),
    budget=Budget(usd_per_hour=8 * Priced.usd, hard_cap=1.0),
)


class Deployment:
    """The evaluate stage and exporters over logs in memory, moved by hand."""

    def __init__(self, chance: random.Random, monitor: Monitor) -> None:
        self.chance = chance
        self.now = 1_000.0
        self.happened: list[tuple[float, str, str]] = []
        self.exported: dict[str, Counter[str]] = {name: Counter() for name in EXPORTERS}
        self.plan = Plan((monitor,))
        self.logs = self._logs(chance.randint(1, 4))
        self.committed: dict[int, Committed] = {}
        self._stack = AsyncExitStack()
        self._positions: dict[int, int] = {}
        self._folds = {}
        self._inbox: dict[int, asyncio.Queue] = {}

    def _logs(self, partitions: int) -> Logs:
        timing = ConsumerTiming(clock=lambda: self.now, batch_records=7)
        return Logs(**{name: MemoryLog(name, partitions, timing=timing) for name in NAMES})

    async def start(self) -> None:
        GATE[:] = [Gate()]
        budget = BudgetController(self.plan, self.logs.turns.partitions)
        stage = EvaluateStage(
            self.plan,
            Dispatcher(
                self.logs.evaluations,
                EvaluationGuardrails(Telemetry()),
                limits=BulkheadLimits(slots=10_000),
                clocks=Clocks(now=lambda: datetime.fromtimestamp(self.now, UTC)),
                budget=budget,
            ),
            turns=self.logs.turns,
            limits=StateLimits(snapshot_records=6, snapshot_seconds=40.0),
            timing=StageTiming(lambda: self.now),
            definitions=one_plan(),
        )
        self._tasks = {}
        commits = await self.logs.turns.committed("evaluate")
        for partition in range(self.logs.turns.partitions):
            inbox = self._inbox[partition] = asyncio.Queue()
            committed = commits.get(partition)
            opened = asyncio.Event()
            self._tasks[partition] = asyncio.create_task(self._live(stage, partition, committed, inbox, opened))
            await opened.wait()
            self._positions[partition] = committed.offset if committed else 0
            low = committed.low_watermark if committed else 0
            old = [each for each in await records_of(self.logs.turns, partition, low) if each.offset < self._positions[partition]]  # fmt: skip
            await self._give(partition, old, replay=True)

    async def _live(self, stage, partition, committed, inbox, opened) -> None:
        try:
            async with stage.open_fold(partition, committed) as fold:
                self._folds[partition] = fold
                opened.set()
                while True:
                    records, replay, done = await inbox.get()
                    await (fold.replay(records) if replay else fold.deliver(records))
                    done.set()
        finally:
            opened.set()

    async def _give(self, partition: int, records: list[StoredRecord], *, replay: bool = False) -> None:
        done = asyncio.Event()
        self._inbox[partition].put_nowait((records, replay, done))
        waiting = asyncio.create_task(done.wait())
        await until_taken(waiting, self._tasks[partition], self.finish)
        waiting.cancel()
        if self._tasks[partition].done():
            self._tasks[partition].result()

    async def happen(self) -> None:
        self.now += self.chance.choice([0.5, 4.0, 11.0, 35.0, 62.0])
        turn = (self.now, self.chance.choice("abcdef"), f"t{len(self.happened)}")
        self.happened.append(turn)
        await self._put(turn)

    async def again(self) -> None:
        recent = [each for each in self.happened if each[0] + LATENESS >= self.now]
        if recent:
            await self._put(self.chance.choice(recent))

    async def _put(self, turn: tuple[float, str, str]) -> None:
        at, conversation, turn_id = turn
        ended = datetime.fromtimestamp(at, UTC)
        value = turn_to_json(Turn(turn_id=turn_id, conversation_id=conversation, ended_at=ended, input=turn_id))
        await self.logs.turns.append([Record(conversation.encode(), value)])

    async def tick(self) -> None:
        every = range(self.logs.turns.partitions)
        await self.logs.turns.append([Record(None, b"", TICK, each) for each in every if self.chance.random() < 0.7])

    async def deliver(self, most: int, least: int = 0) -> int:
        total = 0
        for partition in range(self.logs.turns.partitions):
            records = (await records_of(self.logs.turns, partition, self._positions[partition]))[
                : self.chance.randint(least, most)
            ]
            if records:
                await self._give(partition, records)
                self._positions[partition] = records[-1].offset + 1
                total += len(records)
        return total

    async def commit(self) -> None:
        for partition, fold in self._folds.items():
            position, low = self._positions[partition], fold.low_watermark
            await self.logs.turns.set_committed("evaluate", {partition: Committed(min(low, position), position, fold.metadata)})  # fmt: skip

    async def export(self, name: str, most: int) -> None:
        """An exporter's next evaluations of some partitions, and its commit."""
        committed = await self.logs.evaluations.committed(f"export.{name}")
        for partition in range(self.logs.evaluations.partitions):
            start = committed[partition].offset if partition in committed else 0
            records = (await records_of(self.logs.evaluations, partition, start))[:most]
            for each in records:
                if not each.headers:
                    self.exported[name][evaluation_from_json(each.value).evaluation_id] += 1
            if records:
                offset = records[-1].offset + 1
                await self.logs.evaluations.set_committed(f"export.{name}", {partition: Committed(offset, offset)})

    async def finish(self, most: int) -> None:
        for _ in range(most):
            GATE[0].passes.release()
        for _ in range(20):
            await asyncio.sleep(0)
        while not GATE[0].passes.locked():
            await GATE[0].passes.acquire()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values())
        self._folds.clear()

    async def crash(self) -> None:
        await self.stop()
        await self.start()

    async def copy(self) -> None:
        """Stop, perhaps without a last commit; copy; continue with the copy."""
        if self.chance.random() < 0.7:
            await self.commit()
        await self.stop()
        before = await ledger(self.logs)
        target = self._logs(self.chance.randint(1, 4))
        copying = LogCopy(self.plan, TraceLimits(), EXPORTERS, self.logs, target, self.now, OnePlan())
        await copying.run()
        await copying.commit()
        assert sorted(map(key_of, await ledger(target))) == sorted(map(key_of, before)), "with all their weights"
        self.logs = target
        await self.start()

    async def wind_up(self) -> None:
        for _ in range(4):
            self.now += 2000.0
            await self.logs.turns.append([Record(None, b"", TICK, each) for each in range(self.logs.turns.partitions)])
            while await self.deliver(9, least=9):
                await self.commit()
            await self.finish(sum(len(fold.jobs) for fold in self._folds.values()) + 5)
        assert sum(fold.in_flight for fold in self._folds.values()) == 0
        for name in EXPORTERS:
            await self.export(name, 10_000)
        await self.stop()


async def records_of(log: MemoryLog, partition: int, start: int) -> list[StoredRecord]:
    return [each async for batch in log.read(partition, start) for each in batch]


async def ledger(logs: Logs) -> list[Evaluation]:
    return [
        evaluation_from_json(each.value)
        for partition in range(logs.evaluations.partitions)
        for each in await records_of(logs.evaluations, partition, 0)
        if not each.headers
    ]


def key_of(evaluation: Evaluation) -> tuple[str, float, str]:
    return evaluation.evaluation_id, evaluation.sampling.probability, evaluation.outcome


async def lived(seed: int, monitor: Monitor) -> tuple[Deployment, list[Evaluation]]:
    chance = random.Random(seed)
    world = Deployment(chance, monitor)
    await world.start()
    weights = {"happen": 6, "again": 1, "tick": 1, "deliver": 5, "finish": 2, "commit": 2, "crash": 0.5, "copy": 0.7, "export": 1}  # fmt: skip
    for step in chance.choices(list(weights), list(weights.values()), k=chance.choice([20, 60, 120])):
        match step:
            case "deliver":
                await world.deliver(chance.choice([1, 3, 12]))
            case "finish":
                await world.finish(chance.randint(1, 8))
            case "export":
                await world.export(chance.choice(EXPORTERS), chance.choice([2, 100]))
            case _:
                await getattr(world, step)()
    await world.copy()
    await world.wind_up()
    return world, await ledger(world.logs)


@pytest.mark.parametrize("first", range(0, 40, 10))
async def test_nothing_is_judged_twice_and_nothing_is_lost(first: int) -> None:
    for seed in range(first, first + 10):
        world, found = await lived(seed, MONITOR)
        twice = [name for name, number in Counter(each.evaluation_id for each in found).items() if number > 1]
        assert twice == [], seed
        turns = sorted(each.subject.turn_id or "" for each in found if each.evaluator == "w")
        assert turns == sorted(turn_id for _, _, turn_id in world.happened), seed
        superseded = {each for evaluation in found for each in evaluation.supersedes}
        finals = [
            tuple((each.explanation or "").split())
            for each in found
            if each.evaluator == "c" and each.evaluation_id not in superseded
        ]
        assert sorted(finals) == sorted(expected(world.happened)), seed
        for name in EXPORTERS:
            assert set(world.exported[name]) == {each.evaluation_id for each in found}, (seed, name)


async def test_budgets_go_along() -> None:
    for seed in range(20):
        world, found = await lived(seed, PRICED)
        assert max(Counter(each.evaluation_id for each in found).values(), default=1) == 1, seed
        turns = sorted(each.subject.turn_id or "" for each in found if each.evaluator == "w")
        assert turns == sorted(turn_id for _, _, turn_id in world.happened), seed
        bills = sorted((each.ended_at.timestamp(), each.cost_usd) for each in found if each.cost_usd)
        for start, _ in bills:
            spent = sum(usd for at, usd in bills if start <= at < start + 3600.0)
            assert spent <= 9 * Priced.usd + 1e-9, (seed, spent)
