"""Configurations change while turns come, evaluations run and processes die at any step: each is made once, by the one
configuration that a replay of the logs finds in force for it, or by a later one that it was left to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from gated_deliveries import until_taken
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.partition_state import PartitionState, StateLimits
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.configurations import Configurations
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, ControlRecord, parse_control_record
from collector.evaluate.recovery.past_plans import configurations_of
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import EvaluateStage, StageDefinitions, StageTiming
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.exchangeable_folds import ExchangeableFolds
from collector.logs.log import TICK, Committed, Fold, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_from_json, turn_to_json
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge, NoJudge
from evaluators.results import Evaluation, Score

GATE: list[asyncio.Semaphore] = []
"""Lets evaluations through one by one."""


class Worded(Evaluator[Turn]):
    kind: ClassVar[str] = "worded"
    needs_judge: ClassVar[bool] = False
    edition: int = 0

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        await GATE[0].acquire()
        return Score(value=1.0)


class WholeOne(Evaluator[Conversation]):
    kind: ClassVar[str] = "whole_one"
    scope: ClassVar[Any] = "conversation"
    needs_judge: ClassVar[bool] = False
    edition: int = 0

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        await GATE[0].acquire()
        return Score(value=1.0)


@dataclass(frozen=True)
class Choice:
    """What a configuration has."""

    edition: int = 0
    rate: float = 1.0
    idle: float = 10.0
    turns: bool = True
    conversations: bool = True
    second: bool = False

    def plan(self) -> Plan:
        chosen = [Worded(name="w", edition=self.edition)] * self.turns
        chosen += [WholeOne(name="c", edition=self.edition)] * self.conversations
        window = SessionWindowSettings(idle_gap=self.idle, allowed_lateness=20.0)
        first = Monitor("m", tuple(map(assigned, chosen)), {}, rate=self.rate, window_settings=window)
        second = Monitor("n", (assigned(WholeOne(name="d")),), {}, window_settings=window)
        return Plan((first, *[second] * self.second) if chosen else (second,))


def assigned(evaluator: Evaluator[Any]) -> Assignment:
    return Assignment(evaluator, NoJudge(), evaluator.version)


CHOICES = st.builds(
    Choice,
    edition=st.integers(0, 3),
    rate=st.sampled_from([1.0, 0.5]),
    idle=st.sampled_from([5.0, 10.0, 30.0]),
    turns=st.booleans(),
    conversations=st.booleans(),
    second=st.booleans(),
)


class History:
    """What the definitions log holds; it outlives every process. Plans are made anew each time, as they are read."""

    def __init__(self) -> None:
        self.choices = [Choice()]

    async def plan_of(self, number: int, _substitute: Plan | None = None) -> Plan | None:
        return self.choices[number - 1].plan() if 0 < number <= len(self.choices) else None


class MortalLog:
    """The evaluations log as one process sees it: from its death on, nothing of it gets there."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.lives = 1_000_000
        """Appends until the process dies."""
        self.readable = asyncio.Event()
        self.readable.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        await self.readable.wait()
        async for batch in self._log.read(partition, start):
            yield batch

    async def append(self, records: Sequence[Record]) -> None:
        if self.lives <= 0:
            await asyncio.Event().wait()  # a dead process waits for nothing
        self.lives -= 1
        await self._log.append(records)


class Deployment:
    """One partition, moved by hand: delivers, commits, takes configurations and dies when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        timing = ConsumerTiming(clock=lambda: self.now)
        self.turns = MemoryLog("turns", partitions=1, timing=timing)
        self.stored = MemoryLog("evaluations", partitions=1, timing=timing)
        self.history = History()
        self.committed: Committed | None = None
        self.position = 0

    async def start(self, *, behind: int = 0, changing: bool = False) -> None:
        """Start a process that is so many configurations behind; with `changing` it takes the newest as it opens."""
        GATE[:] = [asyncio.Semaphore(0)]
        self.evaluations = MortalLog(self.stored)
        self.number = max(1, len(self.history.choices) - behind)
        self.folds = ExchangeableFolds(self.turns, self._stage().open_fold)
        self.work: asyncio.Queue[tuple[Sequence[StoredRecord], bool]] = asyncio.Queue()
        self.task = asyncio.create_task(self._live())
        self.position = self.committed.offset if self.committed else 0
        low = self.committed.low_watermark if self.committed else 0
        if changing:
            self.evaluations.readable.clear()
            await asyncio.sleep(0)
            following = asyncio.create_task(self.follow())
            await asyncio.sleep(0)
            self.evaluations.readable.set()
            await following
        await self._give([each for each in await self._records(low) if each.offset < self.position], replay=True)

    def _stage(self) -> EvaluateStage:
        self.stage = EvaluateStage(
            self.history.choices[self.number - 1].plan(),
            Dispatcher(
                self.evaluations,
                EvaluationGuardrails(Telemetry()),
                limits=BulkheadLimits(slots=10_000),
                clocks=Clocks(now=lambda: datetime.fromtimestamp(self.now, UTC)),
            ),
            turns=self.turns,
            limits=StateLimits(snapshot_records=8, snapshot_seconds=60.0),
            timing=StageTiming(lambda: self.now),
            definitions=StageDefinitions(self.history, MemoryLog("definitions", partitions=1)),
        )
        self.stage.number = self.number
        return self.stage

    async def _live(self) -> None:
        async with self.folds.open_fold(0, self.committed) as self.fold:
            while True:
                records, replay = await self.work.get()
                if records:
                    await (self.fold.replay(records) if replay else self.fold.deliver(records))
                self.work.task_done()

    async def _give(self, records: Sequence[StoredRecord], *, replay: bool = False) -> None:
        self.work.put_nowait((records, replay))
        joined = asyncio.create_task(self.work.join())
        await until_taken(joined, self.task, self.finish)
        assert joined.done(), self.task

    async def _records(self, start: int) -> list[StoredRecord]:
        return [each async for batch in self.turns.read(0, start) for each in batch]

    async def deliver(self, most: int) -> int:
        records = (await self._records(self.position))[:most]
        if records:
            await self._give(records)
            self.position = records[-1].offset + 1
        return len(records)

    def commit(self) -> None:
        fold: Fold = self.fold
        low, metadata = fold.low_watermark, fold.metadata
        self.committed = Committed(self.position if low is None else min(low, self.position), self.position, metadata)

    async def change(self, choice: Choice, lives: int) -> None:
        """Take another configuration; the process dies after so many appends, if that is before the end."""
        self.history.choices.append(choice)  # from here on it counts for whoever starts
        self.evaluations.lives = lives
        changing = asyncio.create_task(self.follow())
        for _ in range(60):
            await asyncio.sleep(0)
        if changing.done():
            self.evaluations.lives = 1_000_000
            await changing
        else:
            assert lives < 3
            changing.cancel()
            await self.kill()

    async def follow(self) -> None:
        """Take the newest configuration."""
        self.number = len(self.history.choices)
        self.stage.handing_over = True
        await self.folds.exchange(self._stage().open_fold)

    async def kill(self) -> None:
        """What SIGKILL does: nothing is written any more."""
        self.evaluations.lives = 0
        await self.stop()

    async def stop(self) -> None:
        ending = asyncio.ensure_future(asyncio.wait([self.task]))
        self.task.cancel()
        for _ in range(200):
            await asyncio.sleep(0)
            if ending.done():
                return
            self.task.cancel()
        raise AssertionError(self.task)

    async def finish(self, most: int) -> None:
        for _ in range(most):
            GATE[0].release()
        for _ in range(20):
            await asyncio.sleep(0)
        while not GATE[0].locked():
            await GATE[0].acquire()

    async def evaluated(self) -> list[tuple[Evaluation, int]]:
        return [
            (evaluation_from_json(each.value), each.offset)
            async for batch in self.stored.read(0, 0)
            for each in batch
            if not each.headers
        ]

    async def controls(self) -> list[ControlRecord]:
        return [
            parse_control_record(each.value)
            async for batch in self.stored.read(0, 0)
            for each in batch
            if each.headers == CONTROL_HEADERS
        ]

    async def check(self) -> None:
        """Fold all turns again from the first one: what that makes due is made, once, and nothing else is."""
        made = Counter(each.evaluation_id for each, _ in await self.evaluated())
        assert all(number == 1 for number in made.values())
        controls = await self.controls()
        number = len(self.history.choices)
        newest = self.history.choices[-1].plan()
        configurations = await configurations_of((0, 0), controls, newest, number, self.history)
        state = PartitionState(newest, ReplayPoint(0), controls, configurations.former)
        explained, replaced, due = set[str](), set[str](), []
        for record in await self._records(0):
            due += await state.apply(record)
        for job in due:
            replaced.update(name for each in ways(configurations, job) for name in each.supersedes)
        for job in due:
            ids = {each.evaluation_id for each in ways(configurations, job)}
            done = ids & made.keys()
            explained |= ids
            assert len(done) <= 1, f"made by two configurations: {job}"
            removed = any(each.successor_of(job) is None for each in (*configurations.others, newest))
            assert done or removed or ids & replaced, f"never made: {job}"
        assert made.keys() <= explained, "what was made was due"


def ways(configurations: Configurations, job: Any) -> list[Any]:
    """A job as every configuration would make it."""
    newest = configurations.by_newest(job)
    return [job, *configurations.by_others(job), *([newest] if newest else [])]


async def put_turn(deployment: Deployment, number: int, conversation: str = "a") -> None:
    deployment.now += 1.0
    turn = Turn(
        turn_id=f"t{number}",
        conversation_id=conversation,
        ended_at=datetime.fromtimestamp(deployment.now, UTC),
        input=f"t{number}",
    )
    await deployment.turns.append([Record(conversation.encode(), turn_to_json(turn), partition=0)])


async def judge_turns(deployment: Deployment, numbers: range) -> None:
    for number in numbers:
        await put_turn(deployment, number)
    while await deployment.deliver(5):
        await deployment.finish(10)


async def versions_of(deployment: Deployment) -> dict[str, int]:
    """Which edition has judged each turn."""
    editions = {Worded(name="w", edition=number).version: number for number in range(4)}
    made = {each.subject.turn_id or "": each for each, _ in await deployment.evaluated()}
    return {name: editions[each.evaluator_version] for name, each in made.items()}


TURNS_ALONE = Choice(conversations=False)


async def started() -> Deployment:
    deployment = Deployment()
    deployment.history.choices = [TURNS_ALONE]
    await deployment.start()
    await judge_turns(deployment, range(2))
    return deployment


async def test_a_partition_that_opens_while_the_newest_is_taken_is_judged_as_its_log_says() -> None:
    """It comes from a process that has died, and its new owner is just told of the newest configuration."""
    deployment = await started()
    deployment.history.choices.append(replace(TURNS_ALONE, edition=1))
    await deployment.kill()
    await deployment.start(behind=1, changing=True)
    await judge_turns(deployment, range(2, 5))
    await deployment.check()
    assert (await deployment.controls())[-1].configuration == 2
    assert await versions_of(deployment) == {"t0": 0, "t1": 0, "t2": 1, "t3": 1, "t4": 1}
    await deployment.stop()


async def test_a_process_that_is_behind_judges_nothing_again_that_a_newer_one_has_judged() -> None:
    """A newer one has finished what the oldest one left; then the partition moves to a process that is behind."""
    deployment = await started()
    for number in (2, 3):
        await put_turn(deployment, number)
    await deployment.deliver(5)
    for edition in (1, 2):
        deployment.history.choices.append(replace(TURNS_ALONE, edition=edition))
    await deployment.kill()
    await deployment.start()
    await judge_turns(deployment, range(0))
    assert await versions_of(deployment) == {"t0": 0, "t1": 0, "t2": 2, "t3": 2}
    await deployment.kill()
    await deployment.start(behind=1)
    await judge_turns(deployment, range(4, 6))
    assert await versions_of(deployment) == {"t0": 0, "t1": 0, "t2": 2, "t3": 2, "t4": 1, "t5": 1}
    await deployment.check()
    await deployment.follow()
    await judge_turns(deployment, range(6, 8))
    assert (await versions_of(deployment))["t6"] == 2
    await deployment.check()
    await deployment.stop()


class ContestedLog(MemoryLog):
    """The turns log as two processes see it. Whoever is about to claim it is held up by what `meanwhile` does."""

    shared = True
    meanwhile: ClassVar[list[Callable[[], Awaitable[None]]]] = []

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        while self.meanwhile:
            await self.meanwhile.pop()()


async def test_a_switch_lies_behind_what_the_former_owner_has_judged_until_the_claim() -> None:
    """The former owner judges more turns while the next one has read the logs already, and dies."""
    deployment = Deployment()
    deployment.history.choices = [TURNS_ALONE]
    deployment.turns = turns = ContestedLog("turns", partitions=1)
    await deployment.start()
    await judge_turns(deployment, range(2))
    successor = Deployment()
    successor.now, successor.turns, successor.stored = deployment.now, deployment.turns, deployment.stored
    successor.history.choices = [TURNS_ALONE, replace(TURNS_ALONE, edition=1)]
    mine = GATE[0]

    async def judge_and_die() -> None:
        theirs, GATE[0] = GATE[0], mine
        await judge_turns(deployment, range(2, 4))
        await deployment.kill()
        GATE[0] = theirs

    turns.meanwhile.append(judge_and_die)
    await successor.start()
    await judge_turns(successor, range(4, 6))
    assert await versions_of(successor) == {"t0": 0, "t1": 0, "t2": 0, "t3": 0, "t4": 1, "t5": 1}
    await successor.check()
    await successor.stop()


class ConfigurationWorld(RuleBasedStateMachine):
    """People talk, somebody changes the configuration again and again, and the process dies."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.deployment = Deployment()
        self.happened = 0
        self.runner.run(self.deployment.start())

    @rule(conversation=st.sampled_from("abcd"), after=st.sampled_from([0.5, 4.0, 11.0, 35.0, 130.0]))
    def happen(self, conversation: str, after: float) -> None:
        self.deployment.now += after
        self.happened += 1
        turn = Turn(
            turn_id=f"t{self.happened}",
            conversation_id=conversation,
            ended_at=datetime.fromtimestamp(self.deployment.now, UTC),
            input=f"t{self.happened}",
        )
        self.put(Record(conversation.encode(), turn_to_json(turn), partition=0))

    @rule()
    def tick(self) -> None:
        self.put(Record(None, b"", TICK, 0))

    def put(self, record: Record) -> None:
        self.runner.run(self.deployment.turns.append([record]))

    @rule(most=st.integers(1, 6))
    def deliver(self, most: int) -> None:
        self.runner.run(self.deployment.deliver(most))

    @rule(most=st.integers(1, 8))
    def finish(self, most: int) -> None:
        self.runner.run(self.deployment.finish(most))

    @rule()
    def commit(self) -> None:
        self.deployment.commit()

    @rule(choice=CHOICES, lives=st.sampled_from([0, 1, 2, 100, 100, 100]))
    def change(self, choice: Choice, lives: int) -> None:
        async def change() -> None:
            await self.deployment.change(choice, lives)
            if self.deployment.task.done():
                await self.deployment.start()

        self.runner.run(change())

    @rule(choice=st.none() | CHOICES)
    def die(self, choice: Choice | None) -> None:
        """SIGKILL; it starts again, perhaps with another file."""
        self.runner.run(self.restart(choice, self.deployment.kill))

    @rule(choice=st.none() | CHOICES)
    def stop_and_start(self, choice: Choice | None) -> None:
        """A partition that moves, or SIGTERM before its commit."""
        self.runner.run(self.restart(choice, self.deployment.stop))

    @rule(choice=st.none() | CHOICES, behind=st.integers(0, 2), killed=st.booleans())
    def move(self, choice: Choice | None, behind: int, killed: bool) -> None:
        """The partition moves to a process that has not read what others have taken meanwhile."""
        end = self.deployment.kill if killed else self.deployment.stop
        self.runner.run(self.restart(choice, end, behind=behind))

    @rule(choice=st.none() | CHOICES, behind=st.integers(1, 2), killed=st.booleans())
    def move_and_change(self, choice: Choice | None, behind: int, killed: bool) -> None:
        """It takes the newest one while the partition opens."""
        end = self.deployment.kill if killed else self.deployment.stop
        self.runner.run(self.restart(choice, end, behind=behind, changing=True))

    @rule()
    def follow(self) -> None:
        """What others have taken reaches a process that was behind."""
        self.runner.run(self.deployment.follow())

    async def restart(self, choice: Choice | None, end: Any, *, behind: int = 0, changing: bool = False) -> None:
        await end()
        if choice is not None:
            self.deployment.history.choices.append(choice)
        await self.deployment.start(behind=behind, changing=changing)

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            for _ in range(3):
                self.deployment.now += 2000.0
                self.tick()
                while self.runner.run(self.deployment.deliver(5)):
                    self.deployment.commit()
                self.runner.run(self.deployment.finish(10_000))
            self.runner.run(self.deployment.check())
            self.deployment.commit()
            assert self.deployment.committed is not None
            assert self.deployment.committed.low_watermark == self.deployment.position, "nothing is held back for good"
        finally:
            self.runner.run(self.deployment.stop())
            self.runner.close()


TestConfigurationWorld = ConfigurationWorld.TestCase
TestConfigurationWorld.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


async def put_all(deployment: Deployment, number: int, conversation: str) -> None:
    """A turn of a conversation, and what became due by it is made."""
    await put_turn(deployment, number, conversation)
    while await deployment.deliver(5):
        await deployment.finish(10)
        deployment.commit()


async def test_a_later_revision_supersedes_what_an_older_definition_has_judged_also_behind_a_snapshot() -> None:
    """A snapshot behind the change lets a restart begin there: it never sees that another configuration was in force."""
    whole = Choice(turns=False, idle=5.0)
    deployment = Deployment()
    deployment.history.choices = [whole]
    await deployment.start()
    await put_all(deployment, 0, "late")
    for number in range(1, 8):
        await put_all(deployment, number, "other")
    await deployment.change(replace(whole, edition=1), 1_000_000)
    for number in range(8, 24):
        await put_all(deployment, number, "other")
    (first,) = [each for each, _ in await deployment.evaluated() if each.subject.conversation_id == "late"]
    (switch,) = [each for each in await deployment.controls() if each.configuration == 2]
    assert deployment.committed is not None
    assert deployment.committed.low_watermark > switch.offset, "nothing before the change is read again"
    await deployment.stop()
    await deployment.start()
    await put_all(deployment, 24, "late")
    for number in range(25, 35):
        await put_all(deployment, number, "other")
    revisions = [each for each, _ in await deployment.evaluated() if each.subject.conversation_id == "late"]
    assert [each.evaluator_version == first.evaluator_version for each in revisions] == [True, False]
    assert first.evaluation_id in revisions[1].supersedes
    await deployment.stop()
