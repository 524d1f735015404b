"""Any interleaving, duplication and delay of turns, and any crash points, lead to the same final evaluations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from collector.evaluate.conversations import Ends
from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.fold import Bounds, EvaluateFold
from collector.evaluate.plan import Assignment, Monitor, NoJudge, Plan
from collector.evaluate.stage import EvaluateStage
from collector.logs.following import Pace
from collector.logs.log import TICK, Committed, Record, Stored
from collector.logs.memory import MemoryLog
from collector.records import evaluation_from_json, turn_to_json
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.outcome import Evaluation, Score

IDLE, LATENESS = 10.0, 50.0
APART = IDLE + LATENESS


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


class Counts:
    """A tally of all lives of a service, and of its last one."""

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.life: Counter[tuple[str, str]] = Counter()
        self.closings: Counter[str] = Counter()

    def turn(self, monitor: str, outcome: str) -> None:
        self.turns[outcome] += 1

    def evaluation(self, monitor: str, evaluator: str, what: str, reason: str = "", number: int = 1) -> None:
        self.life[evaluator, what] += number

    def closed(self, monitor: str, by: str, gaps: int) -> None:
        self.closings[by] += 1


class Service:
    """The evaluate stage over logs in memory, moved by hand: delivers, commits and dies when told."""

    def __init__(self, ends: Ends, bounds: Bounds) -> None:
        self.now = 1000.0
        pace = Pace(clock=lambda: self.now)
        self.turns = MemoryLog("turns", partitions=1, pace=pace)
        self.evaluations = MemoryLog("evaluations", partitions=1, pace=pace)
        self.tally = Counts()
        self.committed: Committed | None = None
        self.position = 0
        self.fold: EvaluateFold | None = None
        self._plan = Plan(
            (
                Monitor(
                    name="m",
                    assignments=tuple(
                        Assignment(each, NoJudge(), each.version) for each in (Words(name="w"), Whole(name="c"))
                    ),
                    match={},
                    ends=ends,
                ),
            )
        )
        self._bounds = bounds
        self._work: asyncio.Queue[tuple[Sequence[Stored], bool]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        GATE[:] = [Gate()]
        self.tally.life.clear()
        stage = EvaluateStage(
            self._plan,
            self.evaluations,
            Dispatcher(self.evaluations, concurrency=10_000),
            turns=self.turns,
            bounds=self._bounds,
            tally=self.tally,
        )
        self._task = asyncio.create_task(self._live(stage))
        self.position = self.committed.position if self.committed else 0
        low = self.committed.low_watermark if self.committed else 0
        await self._give([each for each in await self._records(low) if each.position < self.position], replay=True)

    async def _live(self, stage: EvaluateStage) -> None:
        async with stage.open_fold(0, self.committed) as self.fold:
            while True:
                records, replay = await self._work.get()
                await (self.fold.replay(records) if replay else self.fold.deliver(records))
                self._work.task_done()

    async def _give(self, records: Sequence[Stored], *, replay: bool = False) -> None:
        self._work.put_nowait((records, replay))
        done = asyncio.create_task(self._work.join())
        await asyncio.wait([done, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            done.cancel()
            self._task.result()

    async def _records(self, start: int) -> list[Stored]:
        return [each async for batch in self.turns.read(0, start) for each in batch]

    async def deliver(self, most: int) -> int:
        records = (await self._records(self.position))[:most]
        if records:
            await self._give(records)
            self.position = records[-1].position + 1
        return len(records)

    def commit(self) -> None:
        low = self.fold.low_watermark
        self.committed = Committed(min(low, self.position), self.position, self.fold.note)
        assert len(self.fold.note) <= 2000
        assert self.fold.note.isascii()

    async def crash(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._work = asyncio.Queue()
        await self.start()

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
        """What fell due in this life has ended or is under way."""
        due = sum(number for (_, what), number in self.tally.life.items() if what in ("matched", "resumed"))
        ended = sum(number for (_, what), number in self.tally.life.items() if what not in ("matched", "resumed"))
        assert due == ended + len(self.fold.jobs)


class World(RuleBasedStateMachine):
    """Users talk; turns come late, twice and in any order; the service crashes."""

    ends = Ends(idle=IDLE, lateness=LATENESS)
    bounds = Bounds(records=6, seconds=40.0)
    twice = True

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.service = Service(self.ends, self.bounds)
        self.happened: list[tuple[float, str, str]] = []
        self.under_way: list[tuple[float, str, str]] = []
        self.runner.run(self.service.start())

    @rule(conversation=st.sampled_from("abc"), after=st.sampled_from([0.5, 4.0, 11.0, 35.0, 59.0, 62.0, 130.0]))
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

    @precondition(lambda self: self.twice and self.happened)
    @rule(data=st.data())
    def arrive_again(self, data: st.DataObject) -> None:
        recent = [
            each for each in self.happened if each not in self.under_way and each[0] + LATENESS >= self.service.now
        ]
        if recent:
            self._put(data.draw(st.sampled_from(recent)))

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
        self.runner.run(self.service.crash())

    @invariant()
    def conserved(self) -> None:
        self.service.assert_conserved()

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            self.wind_up()
        finally:
            self.service._task.cancel()
            self.runner.run(asyncio.wait([self.service._task]))
            self.runner.close()

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


class SmallWorld(World):
    """With limits so low that conversations are cut and evicted: the memory is bounded, and each turn is judged."""

    ends = Ends(idle=IDLE, lateness=LATENESS, max_turns=3)
    bounds = Bounds(conversations=2, records=6, seconds=40.0)
    twice = False

    @invariant()
    def bounded(self) -> None:
        if self.service.fold is not None:
            assert all(len(each) <= 2 for each in self.service.fold.state.conversations.values())

    def check_conversations(self, found: list[tuple[str, ...]]) -> None:
        assert all(len(turns) <= 2 + 2 + 1 for turns in found), "a turn that joins two of them makes one of both"
        judged = Counter(turn for turns in found for turn in turns)
        assert set(judged) == {turn_id for _, _, turn_id in self.happened}
        assert set(judged.values()) <= {1}


TestSmallWorld = SmallWorld.TestCase
TestSmallWorld.settings = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
