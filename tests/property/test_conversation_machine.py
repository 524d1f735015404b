"""Any interleaving, duplication and delay of turns, and any crash points, lead to the same final evaluations."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar
from unittest.mock import AsyncMock, patch

import pytest
from gated_deliveries import until_taken
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from plan_histories import one_plan
from pydantic import BaseModel

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.ledger import Ledger
from collector.evaluate.sampling.draw import draw
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import EvaluateStage, PartitionProcessor, StageReports, StageTiming
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import TICK, Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_from_json, turn_to_json
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, Turn
from evaluators.errors import JudgeUnavailable
from evaluators.evaluator import Evaluator
from evaluators.judge import Answer, Judge, NoJudge, Prompt, Verdict
from evaluators.results import Evaluation, Score, Skipped, Usage

IDLE, LATENESS = 10.0, 50.0
APART = IDLE + LATENESS
PAUSES = [0.5, 4.0, 11.0, 35.0, 59.0, 62.0, 130.0]


class Gate:
    """Lets evaluations through one by one."""

    def __init__(self) -> None:
        self.passes = asyncio.Semaphore(0)


GATE: list[Gate] = []


class Words(Evaluator[Turn]):
    kind: ClassVar[str] = "words"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        await GATE[0].passes.acquire()
        return Score(value=1.0)


class Whole(Evaluator[Conversation]):
    kind: ClassVar[str] = "whole"
    scope: ClassVar[Any] = "conversation"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        await GATE[0].passes.acquire()
        return Score(value=1.0, explanation=" ".join(turn.turn_id for turn in case.turns))


class Moody(Evaluator[Turn]):
    """Asks a judge about every third turn; skips and fails for the others."""

    kind: ClassVar[str] = "moody"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score | Skipped:
        await GATE[0].passes.acquire()
        match int(case.turn_id[1:]) % 3:
            case 0:
                return Skipped(reason="not today")
            case 1:
                raise JudgeUnavailable("not there")
        await judge.ask(Prompt("?"), Nothing)
        return Score(value=1.0, method="single")


class Nothing(BaseModel):
    """What the judge answers."""


class Priced:
    """A judge that answers at once, at a price."""

    model = "priced"
    usd = 0.01

    async def ask(self, prompt: Any, reply: Any, *, logprobs: bool = False, samples: int = 1) -> Any:
        return Verdict([Answer(reply(), "{}")], self.model, None, Usage(input_tokens=1, calls=1), self.usd)


class Counts(OutcomeCounter):
    """A tally of all lives of a service, and of its last one."""

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.life: Counter[tuple[str, str]] = Counter()
        self.closed_by: Counter[str] = Counter()

    def count_turn(self, monitor: str, outcome: str, number: int = 1) -> None:
        self.turns[outcome] += number

    def count_evaluation(self, monitor: str, evaluator: str, outcome: str, reason: str = "", number: int = 1) -> None:
        self.life[evaluator, outcome] += number

    def count_closed(self, monitor: str, by: str, missing: int) -> None:
        self.closed_by[by] += 1


class Service:
    """The evaluate stage over logs in memory, moved by hand: delivers, commits and dies when told."""

    def __init__(self, monitor: Monitor, bounds: StateLimits, shed_after: float | None) -> None:
        self.now = 1000.0
        timing = ConsumerTiming(clock=lambda: self.now)
        self.turns = MemoryLog("turns", partitions=1, timing=timing)
        self.evaluations = MemoryLog("evaluations", partitions=1, timing=timing)
        self.outcomes = Counts()
        self.committed: Committed | None = None
        self.position = 0
        self.fold: PartitionProcessor | None = None
        self.delivered = 0
        """The turns of this life that no life before it has counted: it has `counted` those before an offset."""
        self.counted = 0
        self._plan = Plan((monitor,))
        self._limits = bounds
        self._shed_after = shed_after
        self._work: asyncio.Queue[tuple[Sequence[StoredRecord], bool]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        GATE[:] = [Gate()]
        self.outcomes.life.clear()
        self.delivered = 0
        budget = BudgetController(self._plan, 1)
        stage = EvaluateStage(
            self._plan,
            Dispatcher(
                self.evaluations,
                EvaluationGuardrails(Telemetry()),
                limits=BulkheadLimits(slots=10_000, shed_after=self._shed_after),
                clocks=Clocks(now=lambda: datetime.fromtimestamp(self.now, UTC)),
                budget=budget,
            ),
            turns=self.turns,
            limits=self._limits,
            reports=StageReports(self.outcomes),
            timing=StageTiming(lambda: self.now),
            definitions=one_plan(),
        )
        self._task = asyncio.create_task(self._live(stage))
        self.position = self.committed.offset if self.committed else 0
        low = self.committed.low_watermark if self.committed else 0
        await self._give([each for each in await self._records(low) if each.offset < self.position], replay=True)

    async def _live(self, stage: EvaluateStage) -> None:
        async with stage.open_fold(0, self.committed) as self.fold:
            while True:
                records, replay = await self._work.get()
                await (self.fold.replay(records) if replay else self.fold.deliver(records))
                self._work.task_done()

    async def _give(self, records: Sequence[StoredRecord], *, replay: bool = False) -> None:
        self._work.put_nowait((records, replay))
        done = asyncio.create_task(self._work.join())
        await until_taken(done, self._task, self.finish)
        if self._task.done():
            done.cancel()
            self._task.result()

    async def _records(self, start: int) -> list[StoredRecord]:
        return [each async for batch in self.turns.read(0, start) for each in batch]

    async def deliver(self, most: int) -> int:
        records = (await self._records(self.position))[:most]
        if records:
            await self._give(records)
            self.position = records[-1].offset + 1
            self.delivered += sum(not each.headers and each.offset >= self.counted for each in records)
        return len(records)

    def commit(self) -> None:
        low = self.fold.low_watermark
        self.committed = Committed(min(low, self.position), self.position, self.fold.metadata)
        assert len(self.fold.metadata) <= 2000
        assert self.fold.metadata.isascii()

    async def crash(self, *, killed: bool) -> None:
        with patch.object(Ledger, "write_stopped", AsyncMock()) if killed else nullcontext():
            await self.end()
        self.counted = 0 if killed else max(self.counted, self.position)
        self._work = asyncio.Queue()
        await self.start()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def finish(self, most: int) -> None:
        for _ in range(most):
            GATE[0].passes.release()
        for _ in range(20):
            await asyncio.sleep(0)
        while not GATE[0].passes.locked():  # let nobody through who comes later
            await GATE[0].passes.acquire()

    async def ledger(self) -> list[Evaluation]:
        return [
            evaluation_from_json(each.value)
            async for batch in self.evaluations.read(0, 0)
            for each in batch
            if not each.headers
        ]

    def assert_conserved(self) -> None:
        """Every turn of this life fell due for its evaluators, and what fell due has ended or is under way."""
        due, ended = Counter[str](), Counter[str]()
        for (evaluator, what), number in self.outcomes.life.items():
            (due if what in ("matched", "resumed") else ended)[evaluator] += number
        assert due.total() == ended.total() + len(self.fold.jobs)
        assert all(number <= due[evaluator] for evaluator, number in ended.items())
        for each in self._plan.monitors[0].of_scope("turn"):
            assert self.outcomes.life[each.evaluator.name, "matched"] == self.delivered


class World(RuleBasedStateMachine):
    """Users talk; turns come late, twice and in any order; the service crashes."""

    monitor = Monitor(
        name="m",
        assignments=tuple(Assignment(each, NoJudge(), each.version) for each in (Words(name="w"), Whole(name="c"))),
        match={},
        window_settings=SessionWindowSettings(idle_gap=IDLE, allowed_lateness=LATENESS),
    )
    bounds = StateLimits(snapshot_records=6, snapshot_seconds=40.0)
    shed_after: float | None = None
    twice = True
    killed = True

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.service = Service(self.monitor, self.bounds, self.shed_after)
        self.happened: list[tuple[float, str, str]] = []
        self.under_way: list[tuple[float, str, str]] = []
        self.runner.run(self.service.start())

    @rule(conversation=st.sampled_from("abc"), after=st.sampled_from(PAUSES))
    def happen(self, conversation: str, after: float) -> None:
        self.service.now += after
        for turn in [each for each in self.under_way if each[0] + LATENESS < self.service.now]:
            self._arrive(turn, at=turn[0] + LATENESS)
        turn = (self.service.now, conversation, f"t{len(self.happened)}")
        self.happened.append(turn)
        self.under_way.append(turn)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        self._arrive(data.draw(st.sampled_from(self.under_way)))

    def _arrive(self, turn: tuple[float, str, str], at: float | None = None) -> None:
        self.under_way.remove(turn)
        now, self.service.now = self.service.now, at or self.service.now
        self._put(turn)
        self.service.now = now

    @precondition(lambda self: self.recent())
    @rule(data=st.data())
    def arrive_again(self, data: st.DataObject) -> None:
        self._put(data.draw(st.sampled_from(self.recent())))

    def recent(self) -> list[tuple[float, str, str]]:
        """What came, and may come once more."""
        came = [each for each in self.happened if each not in self.under_way]
        return [each for each in came if self.twice and each[0] + LATENESS >= self.service.now]

    def _put(self, turn: tuple[float, str, str]) -> None:
        at, conversation, turn_id = turn
        ended = datetime.fromtimestamp(at, UTC)
        record = turn_to_json(Turn(turn_id=turn_id, conversation_id=conversation, ended_at=ended, input=turn_id))
        self.runner.run(self.service.turns.append([Record(conversation.encode(), record, partition=0)]))

    @rule()
    def tick(self) -> None:
        self.runner.run(self.service.turns.append([Record(None, b"", TICK, 0)]))

    @rule(most=st.integers(1, 12))
    def deliver(self, most: int) -> None:
        self.runner.run(self.service.deliver(most))

    @rule(most=st.integers(1, 8))
    def finish(self, most: int) -> None:
        self.runner.run(self.service.finish(most))

    @rule()
    def commit(self) -> None:
        self.service.commit()

    @rule()
    def crash(self) -> None:
        self.runner.run(self.service.crash(killed=self.killed))

    @invariant()
    def conserved(self) -> None:
        self.service.assert_conserved()

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            self.wind_up()
        finally:
            self.end()

    def end(self) -> None:
        self.runner.run(self.service.end())
        self.runner.close()

    def live(self, history: str) -> None:
        """Live through a history, one word or three a step; turns are named by their place among those there are."""
        self.begin()
        try:
            for step in history.split(", "):
                self.step(*step.split())
                self.service.assert_conserved()
                self.bounded()
            self.wind_up()
        except Exception as error:
            raise AssertionError(f"{type(self).__name__}: {history}") from error
        finally:
            self.end()

    def step(self, word: str, first: str = "", second: str = "") -> None:
        match word:
            case "happen":
                self.happen(first, float(second))
            case "arrive" if self.under_way:
                self._arrive(self.under_way[int(first) % len(self.under_way)])
            case "again" if recent := self.recent():
                self._put(recent[int(first) % len(recent)])
            case "deliver" | "finish":
                getattr(self, word)(int(first))
            case "tick" | "commit" | "crash":
                getattr(self, word)()

    def bounded(self) -> None:
        """Nothing to be said of memory here."""

    def wind_up(self) -> None:
        """Everything arrives, time passes, everything is judged."""
        for turn in list(self.under_way):
            self._arrive(turn)
        for _ in range(3):
            self.service.now += 2000.0
            self.tick()
            while self.runner.run(self.service.deliver(5)):
                self.service.commit()
            self.runner.run(self.service.finish(len(self.service.fold.jobs)))
        self.service.assert_conserved()
        self.check(self.runner.run(self.service.ledger()))
        self.service.commit()
        assert self.service.committed.low_watermark == self.service.position, "nothing is held back for ever"

    def check(self, ledger: list[Evaluation]) -> None:
        assert all(number == 1 for number in Counter(each.evaluation_id for each in ledger).values())
        turns = sorted(each.subject.turn_id for each in ledger if each.evaluator == "w")
        assert turns == sorted(turn_id for _, _, turn_id in self.happened)
        self.check_conversations(finals(ledger))

    def check_conversations(self, found: list[tuple[str, ...]]) -> None:
        assert sorted(found) == sorted(expected(self.happened))


def finals(ledger: list[Evaluation]) -> list[tuple[str, ...]]:
    """The turns of every conversation's evaluation that no other one supersedes."""
    superseded = {each for evaluation in ledger for each in evaluation.supersedes}
    whole = [each for each in ledger if each.evaluator == "c" and each.evaluation_id not in superseded]
    return [tuple((each.explanation or "").split()) for each in whole]


def expected(happened: list[tuple[float, str, str]]) -> list[tuple[str, ...]]:
    """The conversations as somebody sees them who has all turns before him."""
    groups: list[list[tuple[float, str, str]]] = []
    for turn in sorted(happened, key=lambda each: (each[1], each[0])):
        if groups and groups[-1][-1][1] == turn[1] and turn[0] - groups[-1][-1][0] < APART:
            groups[-1].append(turn)
        else:
            groups.append([turn])
    return [tuple(turn_id for _, _, turn_id in group) for group in groups]


TestWorld = World.TestCase
TestWorld.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class StoppedWorld(World):
    """The service stops instead, before its commit: what is delivered again is counted once."""

    killed = False


TestStoppedWorld = StoppedWorld.TestCase
TestStoppedWorld.settings = settings(
    max_examples=30, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class SmallWorld(World):
    """With limits so low that conversations are cut and evicted: the memory is bounded, and each turn is judged."""

    monitor = replace(
        World.monitor, window_settings=SessionWindowSettings(idle_gap=IDLE, allowed_lateness=LATENESS, max_turns=3)
    )
    bounds = StateLimits(conversations=2, snapshot_records=6, snapshot_seconds=40.0)
    twice = False

    @invariant()
    def bounded(self) -> None:
        if self.service.fold is not None:
            assert all(len(each) <= 2 for each in self.service.fold.state.sessions_by_monitor.values())

    def check_conversations(self, found: list[tuple[str, ...]]) -> None:
        assert all(len(turns) <= 2 + 2 + 1 for turns in found), "a turn that joins two of them makes one of both"
        judged = Counter(turn for turns in found for turn in turns)
        assert set(judged) == {turn_id for _, _, turn_id in self.happened}
        assert set(judged.values()) <= {1}


TestSmallWorld = SmallWorld.TestCase
TestSmallWorld.settings = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class PricedWorld(World):
    """With sampling, a budget, evaluations that are skipped, fail and wait too long: each is counted, once."""

    monitor = replace(
        World.monitor,
        assignments=(
            *(replace(each, rate=0.6) for each in World.monitor.assignments),
            Assignment(Moody(name="p"), Priced(), "v", expected_usd=Priced.usd),
        ),
        budget=Budget(usd_per_hour=6 * Priced.usd, hard_cap=1.0),
    )
    shed_after = 1000.0

    def check(self, ledger: list[Evaluation]) -> None:
        assert all(number == 1 for number in Counter(each.evaluation_id for each in ledger).values())
        sampled = [(at, name, turn_id) for at, name, turn_id in self.happened if draw("evalstream", name) < 0.6]
        judged = [each.subject.turn_id for each in ledger if each.evaluator == "w"]
        assert sorted(judged) == sorted(turn_id for _, _, turn_id in sampled)
        outcomes = {(each.outcome, each.reason) for each in ledger if each.evaluator == "w"}
        assert outcomes <= {("scored", None), ("skipped", "shed")}
        for each in ledger:
            if each.evaluator == "p" and each.reason not in ("shed", "over_budget"):
                expected = ("skipped", "failed", "scored")[int((each.subject.turn_id or "")[1:]) % 3]
                assert (each.outcome, each.error and each.error.message) == (
                    expected,
                    None if expected != "failed" else "not there",
                )
        assert_within_the_cap(ledger)


def assert_within_the_cap(ledger: list[Evaluation]) -> None:
    """No hour costs more than the cap and what is under way at once; restarts have paid for it in the ledger."""
    bills = sorted((each.ended_at.timestamp(), each.cost_usd) for each in ledger if each.cost_usd)
    for start, _ in bills:
        assert sum(usd for at, usd in bills if start <= at < start + 3600.0) <= 7 * Priced.usd + 1e-9


TestPricedWorld = PricedWorld.TestCase
TestPricedWorld.settings = settings(
    max_examples=30, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class EagerWorld(World):
    """With snapshots of nearly everything, as soon as a restart would have a few turns to read."""

    bounds = StateLimits(snapshot_turns=2)


TestEagerWorld = EagerWorld.TestCase
TestEagerWorld.settings = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


class EagerSmallWorld(SmallWorld):
    """The same where conversations are cut and evicted."""

    bounds = StateLimits(conversations=2, snapshot_turns=1)


def random_history(chance: random.Random) -> str:
    """A history whose kinds of steps, pauses and conversations are as unevenly mixed as those of no two others."""
    weights = {
        "happen": chance.choice([2, 4, 8]),
        "arrive": chance.choice([1, 3, 8]),
        "again": chance.choice([0, 0, 1, 3]),
        "tick": chance.choice([0, 1, 3]),
        "deliver": chance.choice([1, 4, 8]),
        "finish": chance.choice([0, 1, 3]),
        "commit": chance.choice([0.5, 1, 4]),
        "crash": chance.choice([0.3, 1, 3]),
    }
    names = chance.choice(["a", "ab", "abc", "abc"])
    pauses = chance.choice([PAUSES, [0.5, 4.0], [4.0, 11.0, 35.0], [0.5, 4.0, 59.0, 62.0]])
    most = chance.choice([1, 2, 5, 12])
    details = {
        "happen": lambda: f" {chance.choice(names)} {chance.choice(pauses)}",
        "arrive": lambda: f" {chance.choice([0, 0, -1, chance.randrange(20)])}",
        "again": lambda: f" {chance.choice([0, -1, chance.randrange(20)])}",
        "deliver": lambda: f" {chance.randint(1, most)}",
        "finish": lambda: f" {chance.randint(1, 8)}",
    }
    steps = chance.choices(list(weights), list(weights.values()), k=chance.choice([20, 40, 80, 120, 200]))
    return ", ".join(step + details.get(step, str)() for step in steps)


HISTORIES = int(os.environ.get("EVALSTREAM_HISTORIES", "20"))
"""How many are tried of each world, and ten times as many by `make long`; EVALSTREAM_SEED tries others."""


@pytest.mark.parametrize("count", [HISTORIES, pytest.param(10 * HISTORIES, marks=pytest.mark.long)])
@pytest.mark.parametrize("world", [World, SmallWorld, PricedWorld, EagerWorld, EagerSmallWorld])
def test_random_histories(world: type[World], count: int) -> None:
    chance = random.Random(os.environ.get("EVALSTREAM_SEED", "1"))
    for _ in range(count):
        world().live(random_history(chance))


WENT_WRONG = [
    (
        SmallWorld,
        (
            "happen c 59.0, happen c 62.0, happen a 0.5, happen c 59.0, deliver 1, deliver 1, deliver 1, "
            "finish 7, commit, crash"
        ),
    ),
    (
        SmallWorld,
        (
            "happen a 0.5, arrive 19, happen b 0.5, arrive 0, happen c 4.0, arrive 0, deliver 2, deliver 1, "
            "deliver 1, finish 7, commit, crash"
        ),
    ),
    (
        SmallWorld,
        (
            "happen b 0.5, arrive 16, deliver 1, happen b 4.0, arrive 0, finish 5, happen a 4.0, arrive -1, "
            "happen b 0.5, happen b 0.5, arrive -1, arrive 8, crash, deliver 1, deliver 1, commit, crash"
        ),
    ),
    (
        SmallWorld,
        (
            "happen a 0.5, arrive 0, deliver 3, happen a 62.0, arrive 7, happen a 0.5, deliver 2, "
            "happen a 4.0, happen a 4.0, tick, crash, deliver 4, crash, arrive 12, tick, deliver 5, deliver 3, "
            "arrive 0, arrive 0, deliver 2, deliver 4, finish 8, commit, crash"
        ),
    ),
    (
        SmallWorld,
        (
            "happen a 11.0, arrive 0, happen a 11.0, arrive 0, deliver 6, happen a 11.0, finish 6, arrive 0, "
            "deliver 3, commit, crash"
        ),
    ),
    (
        World,
        (
            "happen a 11.0, happen b 35.0, happen a 11.0, happen b 4.0, happen a 4.0, arrive 0, deliver 5, "
            "happen a 35.0, happen c 35.0, arrive 5, happen b 35.0, arrive -1, finish 5, deliver 5, deliver 4, "
            "commit, crash, finish 7, commit, crash"
        ),
    ),
    (
        World,
        (
            "happen a 11.0, happen a 4.0, happen a 35.0, happen a 4.0, happen a 4.0, tick, happen a 11.0, "
            "happen a 11.0, happen a 35.0, deliver 3, deliver 2, happen a 35.0, tick, deliver 4, "
            "happen a 35.0, finish 4, finish 5, tick, deliver 5, commit, crash, commit, crash"
        ),
    ),
    (
        SmallWorld,
        (
            "happen b 4.0, happen a 130.0, deliver 1, deliver 1, happen b 62.0, happen a 130.0, deliver 2, "
            "happen b 130.0, happen b 59.0, happen c 11.0, happen a 4.0, deliver 1, happen b 130.0, deliver 1, "
            "deliver 2, deliver 2, deliver 2, happen a 130.0, happen c 130.0, deliver 2, happen a 130.0, "
            "finish 8, finish 7, finish 2, finish 2, deliver 2, finish 2, happen c 62.0, deliver 2, finish 2, "
            "crash, deliver 2"
        ),
    ),
    (PricedWorld, "happen a 0.5, happen a 130.0, happen b 59.0, arrive -1, deliver 3, crash, deliver 1"),
]
"""Histories after which something was judged twice or superseded by nobody, or a restart failed: evictions and
snapshots that a replay saw in part, revisions never made because their successors were, ids of evaluations forgotten
too early, a snapshot made under sampling rates that no longer held.
"""


@pytest.mark.parametrize(("world", "history"), WENT_WRONG)
def test_histories_that_went_wrong_once(world: type[World], history: str) -> None:
    world().live(history)
