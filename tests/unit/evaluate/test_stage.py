"""The evaluate stage over a log in memory, with evaluators and a judge of the test's own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, ClassVar

import pytest
from plan_histories import one_plan
from pydantic import BaseModel

from collector.backoff import Backoff
from collector.evaluate.budget.controller import BudgetController, Reservation
from collector.evaluate.budget.demand import FLOOR
from collector.evaluate.budget.windows import FIRST_STEP, Budget
from collector.evaluate.conversations.session_window import EndRule, SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, parse_control_record
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.draw import UpstreamTrust, draw
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import EvaluateStage, StageReports, StageTiming
from collector.logs.consumer_runner import ConsumerTiming, SlewedClock
from collector.logs.log import LogUnavailable, Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_from_json, turn_to_json
from collector.telemetry.registry import Telemetry
from evaluators.cases import Conversation, ToolCall, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Answer, Judge, NoJudge, Prompt, Verdict
from evaluators.results import Evaluation, Score, Skipped, Usage

TIMING = ConsumerTiming(tick_interval=0.01, commit_interval=0.01)


class Gate:
    """Lets evaluations through when it is open, and counts how many were begun."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began = asyncio.Condition()
        self.begun = 0

    async def enter(self) -> None:
        async with self.began:
            self.begun += 1
            self.began.notify_all()
        await self.open.wait()

    async def until(self, begun: int) -> None:
        async with asyncio.timeout(60), self.began:
            await self.began.wait_for(lambda: self.begun >= begun)


GATES: dict[str, Gate] = {}


class Length(Evaluator[Turn]):
    kind: ClassVar[str] = "length_of_answer"
    needs_judge: ClassVar[bool] = False
    gate: str = ""

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score | Skipped:
        if self.gate:
            await GATES[self.gate].enter()
        return Score(value=min(1.0, len(case.actual_output or "") / 100))


class Turns(Evaluator[Conversation]):
    kind: ClassVar[str] = "turns"
    scope: ClassVar[Any] = "conversation"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score | Skipped:
        return Score(value=len(case.turns) / 10, explanation=" ".join(t.turn_id for t in case.turns))


def assignment(evaluator: Evaluator[Any]) -> Assignment:
    return Assignment(evaluator, NoJudge(), evaluator.version)


def monitor(*evaluators: Evaluator[Any], **changes: Any) -> Monitor:
    values: dict[str, Any] = {
        "name": "all",
        "match": {},
        "window_settings": SessionWindowSettings(idle_gap=0.05, allowed_lateness=60.0),
    } | changes
    return Monitor(assignments=tuple(map(assignment, evaluators)), **values)


def turn(number: int, conversation: str = "c", **changes: Any) -> Turn:
    values: dict[str, Any] = {
        "input": f"question {number}",
        "actual_output": "x" * number,
        "trace_id": f"{number:032x}",
    }
    return Turn(turn_id=f"turn-{number}", conversation_id=conversation, **(values | changes))


def record(of: Turn) -> Record:
    return Record((of.conversation_id or "").encode(), turn_to_json(of), partition=0)


class Counts(OutcomeCounter):
    """A tally that can be looked at."""

    def __init__(self) -> None:
        self.turns: Counter[tuple[str, str]] = Counter()
        self.evaluations: Counter[tuple[str, str]] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.started: Counter[tuple[str, str]] = Counter()
        self.closed_by: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        """Due, and not ended."""
        due = sum(number for (_, what), number in self.evaluations.items() if what in ("matched", "resumed"))
        return 2 * due - self.evaluations.total()

    def count_turn(self, monitor: str, outcome: str, number: int = 1) -> None:
        self.turns[monitor, outcome] += number

    def count_evaluation(self, monitor: str, evaluator: str, outcome: str, reason: str = "", number: int = 1) -> None:
        self.evaluations[evaluator, outcome] += number
        self.reasons[evaluator, reason] += number

    def count_started(self, monitor: str, evaluator: str) -> None:
        self.started[monitor, evaluator] += 1

    def count_closed(self, monitor: str, by: str, missing: int) -> None:
        self.closed_by[by] += 1


class Bench:
    """Two logs in memory and the counts of turns; the stage can be started and stopped over them."""

    def __init__(self) -> None:
        self.turns = MemoryLog("turns", partitions=1, timing=TIMING)
        self.evaluations = MemoryLog("evaluations", partitions=1, timing=TIMING)
        self.outcomes = Counts()
        self.bad: list[str] = []

    async def put(self, *turns: Turn) -> None:
        await self.turns.append(list(map(record, turns)))

    @asynccontextmanager
    async def running(
        self,
        *monitors: Monitor,
        concurrency: int = 8,
        waiting: int = 0,
        grace: float = 0.0,
        shed_after: float | None = None,
        bounds: StateLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> AsyncIterator[EvaluateStage]:
        budget = BudgetController(Plan(monitors), 1)
        stage = EvaluateStage(
            Plan(monitors, trust=UpstreamTrust(everybody=True)),
            Dispatcher(
                self.evaluations,
                EvaluationGuardrails(Telemetry()),
                limits=BulkheadLimits(slots=concurrency, waiting=waiting, shed_after=shed_after),
                backoff=Backoff(cap=0.01),
                budget=budget,
                clocks=Clocks(seconds=clock),
            ),
            timing=StageTiming(clock, lambda: grace),
            turns=self.turns,
            reports=StageReports(self.outcomes, lambda _record, error: self.bad.append(str(error))),
            limits=bounds or StateLimits(),
            definitions=one_plan(),
        )
        following = asyncio.create_task(self.turns.follow("evaluate", stage.open_fold))
        try:
            yield stage
        finally:
            following.cancel()
            await asyncio.wait([following])
            if not following.cancelled() and following.exception():
                raise following.exception()  # type: ignore[misc]

    async def ledger(self) -> list[Evaluation]:
        return [
            evaluation_from_json(each.value)
            async for batch in self.evaluations.read(0, 0)
            for each in batch
            if not each.headers
        ]

    async def until(self, count: int) -> list[Evaluation]:
        async with asyncio.timeout(60):
            while len(found := await self.ledger()) < count:
                await asyncio.sleep(0.005)
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_every_turn_is_judged_by_every_evaluator_of_its_monitor(bench: Bench) -> None:
    await bench.put(turn(10), turn(20, "d", actual_output=None, error="boom"))
    async with bench.running(monitor(Length(name="a", threshold=0.05), Length(name="b"))):
        ledger = await bench.until(4)
    by_key = {(each.evaluator, each.subject.turn_id): each for each in ledger}
    assert len(by_key) == 4
    scored = by_key["a", "turn-10"]
    assert (scored.score, scored.passed, scored.subject.conversation_id) == (0.1, True, "c")
    assert by_key["b", "turn-10"].passed is None
    assert by_key["b", "turn-20"].outcome == "skipped"
    assert bench.outcomes.turns == {("all", "sampled"): 2}


async def test_a_turn_that_comes_again_is_not_judged_again(bench: Bench) -> None:
    await bench.put(turn(1), turn(1))
    async with bench.running(monitor(Length(name="a"))):
        await bench.until(1)
        await bench.put(turn(1), turn(2))
        ledger = await bench.until(2)
    assert [each.subject.turn_id for each in ledger] == ["turn-1", "turn-2"]
    assert bench.outcomes.started == {("all", "a"): 2}


async def test_a_turn_that_comes_again_is_known_also_when_a_backlog_lets_time_fly(bench: Bench) -> None:
    """The times of the turns are hours apart, and all of them come at once."""
    turns = [turn(hour, ended_at=datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in range(6)]
    async with bench.running(monitor(Length(name="a"))):
        for number, each in enumerate(turns[:5], 1):
            await bench.put(each)
            await bench.until(number)
        await bench.put(turns[0], turns[5])
        ledger = await bench.until(6)
    assert [each.subject.turn_id for each in ledger] == [each.turn_id for each in turns]


async def test_what_was_under_way_at_a_stop_is_made_after_it_and_nothing_twice(bench: Bench) -> None:
    gate = GATES["stop"] = Gate()
    gated = monitor(Length(name="gated", gate="stop"), Length(name="free"))
    await bench.put(*(turn(n) for n in range(1, 6)))
    async with bench.running(gated, concurrency=100):
        await bench.until(5)  # those of `free`; the others hang
        await asyncio.sleep(0.05)  # a commit
    assert gate.begun == 5
    assert bench.outcomes.evaluations["gated", "reassigned"] == 5
    gate.open.set()
    await bench.put(turn(6))
    async with bench.running(gated):
        ledger = await bench.until(12)
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    assert Counter(each.evaluator for each in ledger) == {"gated": 6, "free": 6}
    assert bench.outcomes.in_flight == 0, "the sums of both lives agree"


async def test_running_evaluations_may_end_within_the_grace(bench: Bench) -> None:
    gate = GATES["grace"] = Gate()
    await bench.put(turn(1))
    async with bench.running(monitor(Length(name="gated", gate="grace")), grace=5.0):
        await gate.until(1)
        asyncio.get_running_loop().call_later(0.05, gate.open.set)
    assert [each.outcome for each in await bench.ledger()] == ["scored"]


async def test_no_more_than_concurrency_run_and_the_rest_is_left_in_the_log(bench: Bench) -> None:
    gate = GATES["places"] = Gate()
    await bench.put(*(turn(n) for n in range(1, 51)))
    async with bench.running(monitor(Length(name="gated", gate="places")), concurrency=3) as stage:
        await gate.until(3)
        await asyncio.sleep(0.05)
        assert gate.begun == 3
        assert bench.outcomes.turns["all", "sampled"] <= 5
        assert stage.running == 3 < stage.in_flight == bench.outcomes.in_flight
        gate.open.set()
        await bench.until(50)


async def test_a_conversation_is_judged_when_it_has_been_idle(bench: Bench) -> None:
    await bench.put(turn(1), turn(2), turn(3, "other"))
    async with bench.running(monitor(Turns(name="turns"))) as stage:
        ledger = await bench.until(2)
        assert stage.open_conversations == 0
    found = {each.subject.conversation_id: each for each in ledger}
    assert found["c"].explanation == "turn-1 turn-2"
    assert found["c"].subject.links == (("", "turn-1"), ("", "turn-2"))
    assert found["other"].attributes == {"closed_by": "idle", "turns": 1}


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_copy_of_a_turn_whose_conversation_is_over_is_no_second_conversation(
    bench: Bench, *, restarted: bool
) -> None:
    """`assemble` was killed, and after an outage of 40 s wrote 82 turns again: 30 conversations were judged once more, by
    their last turns alone.
    """
    short = monitor(Turns(name="turns"), window_settings=SessionWindowSettings(idle_gap=0.02, allowed_lateness=0.0))
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(bench.running(short))
        await bench.put(turn(1), turn(2))
        await bench.until(1)
        async with asyncio.timeout(60):
            while len(stage._processors[0].state.sessions_by_monitor["all"]):
                await asyncio.sleep(0.005)
        if restarted:
            await stack.aclose()
            await stack.enter_async_context(bench.running(short))
        await bench.put(turn(2), turn(3, "other"))
        await bench.until(2)
        await bench.put(turn(4, "last"))
        ledger = await bench.until(3)
    assert sorted(str(each.explanation) for each in ledger) == ["turn-1 turn-2", "turn-3", "turn-4"]
    assert bench.outcomes.turns["all", "duplicate"] == 1


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        (EndRule(events=frozenset({"session.end", "left"})), {"events": ("saved", "left")}),
        (EndRule(tools=frozenset({"end_chat"})), {"tools_called": (ToolCall(name="end_chat"),)}),
        (EndRule(attributes={"status": frozenset({"closed"})}), {"attributes": {"status": "closed"}}),
    ],
)
async def test_a_conversation_ends_by_a_turns_own_word(bench: Bench, rule: EndRule, last: dict[str, Any]) -> None:
    others = {"events": ("saved",), "tools_called": (ToolCall(name="look"),), "attributes": {"status": "open"}}
    await bench.put(turn(1, **others), turn(2, "other", **others), turn(3, **{**others, **last}))
    patient = monitor(Turns(name="turns"), window_settings=SessionWindowSettings(idle_gap=1000.0), end_rule=rule)
    async with bench.running(patient) as stage:
        (evaluation,) = await bench.until(1)
        assert stage.open_conversations == 1
    assert evaluation.explanation == "turn-1 turn-3"
    assert evaluation.attributes.items() >= {"closed_by": "explicit", "turns": 2}.items()


async def test_a_late_turn_makes_the_next_revision_also_after_a_restart(bench: Bench) -> None:
    await bench.put(turn(1))
    async with bench.running(monitor(Turns(name="turns"))):
        await bench.until(1)
        await asyncio.sleep(0.05)
    await bench.put(turn(2))
    async with bench.running(monitor(Turns(name="turns"))):
        ledger = await bench.until(2)
    assert [(each.subject.revision, each.explanation) for each in ledger] == [(1, "turn-1"), (2, "turn-1 turn-2")]
    assert ledger[1].supersedes == (ledger[0].evaluation_id,)


class LaterLength(Length):
    """The same as a later version calculates it."""

    revision: ClassVar[int] = 2


class LaterTurns(Turns):
    revision: ClassVar[int] = 2


async def test_what_is_done_is_not_judged_again_under_a_later_version(bench: Bench) -> None:
    """An upgrade that corrects an evaluator changes its version, and so the ids of its evaluations."""
    await bench.put(turn(1), turn(2), turn(3, "other"))
    async with bench.running(monitor(Length(name="a"), Turns(name="b"))):
        before = await bench.until(5)
    await bench.put(turn(4, "third"))
    async with bench.running(monitor(LaterLength(name="a"), LaterTurns(name="b"))):
        ledger = await bench.until(7)
    later = ledger[len(before) :]
    assert {(each.evaluator, each.subject.conversation_id) for each in later} == {("a", "third"), ("b", "third")}
    assert {each.evaluator_version for each in later}.isdisjoint(each.evaluator_version for each in before)


async def test_sampling_keeps_or_leaves_whole_conversations(bench: Bench) -> None:
    await bench.put(*(turn(n, f"conversation-{n % 40}") for n in range(1, 201)))
    chosen = {f"conversation-{n}" for n in range(40) if draw("evalstream", f"conversation-{n}") < 0.3}
    assert 3 < len(chosen) < 25
    async with bench.running(monitor(Length(name="a"), rate=0.3)):
        ledger = await bench.until(5 * len(chosen))
        await asyncio.sleep(0.05)
    assert {each.subject.conversation_id for each in ledger} == chosen
    assert {each.sampling.probability for each in ledger} == {0.3}
    assert bench.outcomes.turns == {("all", "sampled"): 5 * len(chosen), ("all", "sampled_out"): 200 - 5 * len(chosen)}


async def test_monitors_match_fields_and_attributes(bench: Bench) -> None:
    await bench.put(turn(1, service="a"), turn(2, service="b", attributes={"tier": 1}), turn(3))
    named = monitor(Length(name="x"), name="named", match={"service": frozenset({"a", "b"})})
    tiered = monitor(Length(name="y"), name="tiered", match={"attributes.tier": frozenset({"1"})})
    async with bench.running(named, tiered):
        ledger = await bench.until(3)
    assert sorted((each.monitor, each.subject.turn_id) for each in ledger) == [
        ("named", "turn-1"),
        ("named", "turn-2"),
        ("tiered", "turn-2"),
    ]
    assert bench.outcomes.turns["", "unmatched"] == 1


async def test_a_record_that_is_no_turn_is_reported_and_passed(bench: Bench) -> None:
    await bench.turns.append([Record(b"c", b"{nonsense", partition=0)])
    await bench.put(turn(1))
    async with bench.running(monitor(Length(name="a"))):
        await bench.until(1)
    assert len(bench.bad) == 1


async def test_what_is_being_written_down_when_the_partition_goes_is_not_given_up(bench: Bench) -> None:
    append, begun = bench.evaluations.append, asyncio.Event()

    async def slowly(records: Any) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await append(records)

    bench.evaluations.append = slowly  # type: ignore[method-assign]
    await bench.put(turn(1))
    async with bench.running(monitor(Length(name="a")), grace=0.0):
        await begun.wait()
    assert [each.outcome for each in await bench.ledger()] == ["scored"]
    assert bench.outcomes.evaluations["a", "reassigned"] == 0


async def test_while_the_ledger_cannot_be_written_evaluations_wait(bench: Bench) -> None:
    append, failures = bench.evaluations.append, 3

    async def sometimes(records: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise LogUnavailable("disk full")
        await append(records)

    bench.evaluations.append = sometimes  # type: ignore[method-assign]
    await bench.put(turn(1))
    async with bench.running(monitor(Length(name="a"))):
        assert [each.outcome for each in await bench.until(1)] == ["scored"]


async def test_a_log_that_cannot_say_its_end_is_waited_for(bench: Bench) -> None:
    end, away = bench.turns.end_offset, 1

    async def sometimes(partition: int) -> int:
        nonlocal away
        if away:
            away -= 1
            raise LogUnavailable("no broker")
        return await end(partition)

    bench.turns.end_offset = sometimes  # type: ignore[method-assign]
    await bench.put(turn(1))
    async with bench.running(monitor(Length(name="a"))):
        assert [each.outcome for each in await bench.until(1)] == ["scored"]
    assert away == 0


async def test_a_clock_that_is_set_sheds_nothing_and_frees_no_budget() -> None:
    wall, passed = 1e9, 50.0
    clock = SlewedClock(lambda: wall, lambda: passed)
    of = Assignment(Asked(name="asked"), Priced(0.06), "v", expected_usd=0.06)
    capped = Monitor(name="m", assignments=(of,), match={}, budget=Budget(usd_per_hour=0.1, hard_cap=1.0))
    budget = BudgetController(Plan((capped,)), 1)
    budget.add_partition(0, clock(), None, ())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"), EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=1, shed_after=60.0), budget=budget,
        clocks=Clocks(now=lambda: datetime.fromtimestamp(wall, UTC), seconds=clock),
    )  # fmt: skip

    async def reason(number: int) -> str | None:
        job = Job(
            evaluation_id=f"{number}", monitor=capped, assignment=of, case=lambda: turn(number), replay_point=ReplayPoint(0),
            trigger_offset=0, triggered_at=clock(),
        )  # fmt: skip
        nonlocal wall, passed
        passed += 1.0
        wall += 7200.0
        return (await dispatcher.execute([job], 0))[0].reason

    assert [await reason(number) for number in range(4)] == [None, None, "over_budget", "over_budget"]


@pytest.mark.parametrize("free", ["without a judge", "a backfill", "granted before"])
async def test_only_room_in_the_budget_is_said_to_end_its_hard_cap(free: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is done at the hard cap was said to be below it, several times a second."""
    caplog.set_level("INFO")
    now = 1.0
    priced = Assignment(Asked(name="asked"), Priced(0.06), "v", expected_usd=0.06, judge_name="main")
    capped = Monitor(name="m", assignments=(priced,), match={}, budget=Budget(usd_per_hour=0.1, hard_cap=1.0))
    budget = BudgetController(Plan((capped,)), 1)
    budget.add_partition(0, now, None, ())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"), EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=1), budget=budget,
        clocks=Clocks(seconds=lambda: now),
    )  # fmt: skip
    names = map("{}".format, count())

    def job(of: Assignment = priced, happened_at: datetime | None = None) -> Job:
        return Job(
            evaluation_id=next(names), monitor=capped, assignment=of, case=lambda: turn(0), replay_point=ReplayPoint(0),
            trigger_offset=0, triggered_at=now, happened_at=happened_at,
        )  # fmt: skip

    async def outcome(job: Job, *reservations: Reservation) -> str:
        (made,) = await dispatcher.execute([job], 0, reservations=reservations or None)
        return made.reason or made.outcome

    async def judge_free() -> str:
        if free == "without a judge":
            return await outcome(job(Assignment(Unasked(name="unasked"), NoJudge(), "v")))
        if free == "a backfill":
            return await outcome(job(happened_at=datetime.fromtimestamp(0, UTC)))
        return await outcome(batched, dispatcher.deferred_reservation(batched, 0, granted=True))

    batched = job()
    assert [await outcome(job()) for _ in range(2)] == ["scored"] * 2
    for _ in range(3):
        assert await outcome(job()) == "over_budget"
        assert await judge_free() == "scored"
    assert caplog.messages == [
        "monitor m: the hard cap of its budget is reached: no judge is asked until that budget has room"
    ]
    now += 7200.0
    assert [await outcome(job()) for _ in range(2)] == ["scored"] * 2
    assert caplog.messages[1:] == ["monitor m: below the hard cap of budgets again; judges are asked again"]


@pytest.mark.parametrize(
    ("own", "of_all", "whose"), [(0.1, 9.0, "its budget"), (9.0, 0.1, "the budget of all monitors")]
)
async def test_the_budget_whose_hard_cap_is_reached_is_named(
    own: float, of_all: float, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log said "its budget" of a monitor without one; it was that of all monitors."""
    priced = Assignment(Asked(name="asked"), Priced(0.06), "v", expected_usd=0.06, judge_name="main")
    capped = Monitor(name="m", assignments=(priced,), match={}, budget=Budget(usd_per_hour=own, hard_cap=1.0))
    budget = BudgetController(Plan((capped,), budget=Budget(usd_per_hour=of_all, hard_cap=1.0)), 1)
    budget.add_partition(0, 1.0, None, ())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"), EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=1), budget=budget,
        clocks=Clocks(seconds=lambda: 1.0),
    )  # fmt: skip
    for number in range(3):
        job = Job(
            evaluation_id=f"{number}", monitor=capped, assignment=priced, case=lambda: turn(0),
            replay_point=ReplayPoint(0), trigger_offset=0, triggered_at=1.0,
        )  # fmt: skip
        await dispatcher.execute([job], 0)
    [line] = caplog.messages
    assert line.startswith(f"monitor m: the hard cap of {whose} is reached: ")


@pytest.mark.parametrize(("cost", "scored"), [(0.0004, 18), (0.002, 6), (0.0023, 6)])
async def test_a_small_budget_is_spent_to_its_cap_whatever_was_guessed_of_the_cost(cost: float, scored: int) -> None:
    """The guess before the first cost is known is 0.0023: of eighteen at once, thirteen were refused at 17 % of the cap."""
    of = Assignment(Asked(name="asked"), Priced(cost), "v", expected_usd=0.0023)
    capped = Monitor(name="m", assignments=(of,), match={}, budget=Budget(usd_per_hour=0.01))
    budget = BudgetController(Plan((capped,)), 1)
    budget.add_partition(0, 0.0, None, ())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"), EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=32), budget=budget,
        clocks=Clocks(seconds=lambda: 1.0),
    )  # fmt: skip
    jobs = [
        Job(
            evaluation_id=f"{number}",
            monitor=capped,
            assignment=of,
            case=lambda number=number: turn(number),
            replay_point=ReplayPoint(0),
            trigger_offset=0,
            triggered_at=1.0,
        )
        for number in range(18)
    ]
    ended = [made for (made,) in await asyncio.gather(*(dispatcher.execute([job], 0) for job in jobs))]
    assert [each.reason or each.outcome for each in ended].count("scored") == scored
    spent = budget.used_fraction("m", 1.0, with_reserved=False)
    assert spent <= 1.0 + cost / 0.012
    assert spent >= min(1.0, 18 * cost / 0.012) - 1e-9


class Priced:
    """A judge that answers at once, at a price."""

    def __init__(self, cost: float, model: str = "dear") -> None:
        self.model = model
        self._cost = cost

    async def ask(self, prompt: Any, reply: Any, *, logprobs: bool = False, samples: int = 1) -> Any:
        return Verdict([Answer(reply(), "{}")], self.model, None, Usage(input_tokens=1, calls=1), self._cost)


class Asked(Evaluator[Turn]):
    kind: ClassVar[str] = "asked"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score | Skipped:
        await judge.ask(Prompt("?"), Nothing)
        return Score(value=1.0, method="single")


class Unasked(Asked):
    kind: ClassVar[str] = "unasked"
    needs_judge: ClassVar[bool] = False

    async def evaluate(self, case: Turn, judge: Judge) -> Score | Skipped:
        return Score(value=1.0, method="single")


class Nothing(BaseModel):
    pass


async def test_beyond_the_hard_cap_nothing_is_asked_and_restarts_know_what_was_spent(bench: Bench) -> None:
    """Of eleven turns eight can be paid, over four lives: some are read back from records, some from a saved budget."""
    at_every_rate = (each for each in map("c{}".format, count()) if draw("evalstream", each) < FLOOR)
    numbered = enumerate(at_every_rate)
    capped = Monitor(
        name="m",
        assignments=(Assignment(Asked(name="asked"), Priced(0.25), "v", expected_usd=0.25),),
        match={},
        budget=Budget(usd_per_hour=2.0, hard_cap=1.0),
    )
    now = time.time()

    async def judge(number: int, after: float = 0.0) -> list[str | None]:
        nonlocal now
        now += after
        before = len(await bench.ledger())
        await bench.put(*(turn(*next(numbered)) for _ in range(number)))
        return sorted(each.reason or each.outcome for each in (await bench.until(before + number))[before:])

    async with bench.running(capped, clock=lambda: now):
        assert await judge(3) == ["scored"] * 3
    async with bench.running(capped, clock=lambda: now):
        assert await judge(2) == ["scored"] * 2
        assert await judge(1, after=FIRST_STEP) == ["scored"]
    async with bench.running(capped, clock=lambda: now):
        assert await judge(4) == ["over_budget"] * 2 + ["scored"] * 2
    async with bench.running(capped, clock=lambda: now):
        assert await judge(1) == ["over_budget"]
    decisions = [
        parse_control_record(each.value)
        async for batch in bench.evaluations.read(0, 0)
        for each in batch
        if each.headers == CONTROL_HEADERS
    ]
    assert [each for each in decisions if not each.stopped][-1].budget is not None
    assert sum(each.cost_usd or 0.0 for each in await bench.ledger()) == 2.0


async def test_what_waited_too_long_is_shed_and_counted(bench: Bench) -> None:
    await bench.put(turn(1))
    await asyncio.sleep(0.02)
    async with bench.running(monitor(Length(name="a")), shed_after=0.001):
        assert [(each.outcome, each.reason) for each in await bench.until(1)] == [("skipped", "shed")]
        await asyncio.sleep(0.02)
    assert bench.outcomes.reasons["a", "shed"] == bench.outcomes.evaluations["a", "matched"] == 1


async def test_a_boosted_stratum_is_judged_more_often_and_says_so(bench: Bench) -> None:
    await bench.put(*(turn(n, f"c{n}", error="boom" if n % 2 else None) for n in range(1, 201)))
    boosted = monitor(Length(name="a"), rate=0.2, strata=Strata((Boost("error", 4.0, failed),)))
    draws = {n: draw("evalstream", f"c{n}") for n in range(1, 201)}
    wanted = {n for n in range(1, 201) if draws[n] < (0.8 if n % 2 else 0.2)}
    async with bench.running(boosted):
        ledger = await bench.until(len(wanted))
    assert {each.subject.turn_id for each in ledger} == {f"turn-{n}" for n in wanted}
    assert {(each.sampling.stratum, each.sampling.probability) for each in ledger} == {("error", 0.8), ("all", 0.2)}


async def test_a_planned_rate_is_written_down_before_it_counts_and_a_restart_continues_with_it(bench: Bench) -> None:
    now = 1000.0
    planned = monitor(Length(name="a"), standard_error=0.001)
    numbers = iter(range(1, 10_000))

    async def come(count: int) -> set[float]:
        """So many turns; returns with which probabilities those of them that were drawn were judged."""
        due, known = bench.outcomes.turns.total() + count, len(await bench.ledger())
        await bench.put(*(turn(each, f"c{each}") for _ in range(count) for each in [next(numbers)]))
        async with asyncio.timeout(60):
            while bench.outcomes.turns.total() < due or bench.outcomes.in_flight:
                await asyncio.sleep(0.005)
        return {each.sampling.probability for each in (await bench.ledger())[known:]}

    async def saved() -> tuple[float, Any]:
        controls = [
            parse_control_record(each.value)
            async for batch in bench.evaluations.read(0, 0)
            for each in batch
            if each.headers == CONTROL_HEADERS
        ]
        last = next(each for each in reversed(controls) if each.rates is not None)
        assert last.rates is not None
        assert last.budget is not None
        return last.rates.of("all").factor, last.budget["planned"][0][2]

    async with bench.running(planned, clock=lambda: now):
        assert await come(400) == {0.1}, "before anything is known"
        judged = len(await bench.ledger())
        now += 60.0
        assert await come(400) == {(await saved())[0]}
        rate, figures = await saved()
        assert 0.2 < rate < 0.8, "0.25 / 0.001² of what are half a million a day"
        assert (figures["scored"], figures["arrivals"]) == pytest.approx((judged, 400.0), rel=0.001)
    learnt = len(await bench.ledger()) - judged
    async with bench.running(planned, clock=lambda: now):
        assert await come(100) == {rate}
        more = len(await bench.ledger()) - judged - learnt
        now += 300.0
        await come(1)
        _, figures = await saved()
        assert figures["scored"] == pytest.approx(judged + more, rel=0.01), "and what came after the last note is lost"


async def test_evaluators_may_have_a_rate_of_their_own_and_upstream_counts(bench: Bench) -> None:
    await bench.put(*(turn(n, f"c{n}", trace_state="ot=th:8" if n % 2 else None) for n in range(1, 51)))
    both = Monitor(
        name="m",
        assignments=(
            Assignment(Length(name="all"), NoJudge(), "v", rate=1.0),
            Assignment(Length(name="some"), NoJudge(), "v"),
        ),
        match={},
        rate=0.2,
    )
    some = [n for n in range(1, 51) if draw("evalstream", f"c{n}") < 0.2]
    async with bench.running(both):
        ledger = await bench.until(50 + len(some))
    assert sorted(each.subject.turn_id for each in ledger if each.evaluator == "some") == sorted(
        f"turn-{n}" for n in some
    )
    seen = {(each.sampling.probability, each.sampling.upstream) for each in ledger if each.evaluator == "all"}
    assert seen == {(0.5, 0.5), (1.0, "unknown")}


async def test_where_keys_suffice_what_is_left_out_is_not_even_decoded(bench: Bench) -> None:
    left_out = next(f"c{n}" for n in range(100) if draw("evalstream", f"c{n}") > 0.5)
    await bench.turns.append([Record(left_out.encode(), b"{nonsense", partition=0)])
    async with bench.running(monitor(Length(name="a"), rate=0.5)):
        while not bench.outcomes.turns:
            await asyncio.sleep(0.005)
    assert bench.outcomes.turns == {("all", "sampled_out"): 1}
    assert not bench.bad
    assert bench.outcomes.evaluations == {("a", "matched"): 1, ("a", "sampled_out"): 1}


async def test_what_is_too_large_to_be_snapshotted_is_closed_early(bench: Bench) -> None:
    bench.turns = MemoryLog("turns", partitions=1, timing=TIMING, max_record_bytes=1500)
    small, large = turn(1, "small"), [turn(n, "large", input=random.Random(n).randbytes(350).hex()) for n in (2, 3, 4)]
    watched = monitor(Turns(name="turns"), window_settings=SessionWindowSettings(idle_gap=1000.0, allowed_lateness=0.0))
    async with bench.running(watched, bounds=StateLimits(snapshot_records=1)) as stage:
        await bench.put(small, *large, *(turn(n, "other") for n in range(5, 12)))
        (evaluation,) = await bench.until(1)
        assert stage.open_conversations == 2
    assert (evaluation.explanation, evaluation.attributes["closed_by"]) == ("turn-2 turn-3 turn-4", "evicted")


async def test_the_bound_in_bytes_holds_and_what_leaves_for_it_is_judged(bench: Bench) -> None:
    watched = monitor(Turns(name="turns"), window_settings=SessionWindowSettings(idle_gap=1000.0, allowed_lateness=0.0))
    async with bench.running(watched, bounds=StateLimits(bytes=5000)) as stage:
        await bench.put(*(turn(n, f"c{n}") for n in range(1, 31)))
        ledger = await bench.until(15)
        packed = next(iter(stage._processors.values())).state.sessions_by_monitor["all"]
        assert packed.size <= 5000
    assert {each.attributes["closed_by"] for each in ledger} == {"evicted"}
    assert [each.explanation for each in ledger] == [f"turn-{n}" for n in range(1, len(ledger) + 1)]


async def test_evaluators_of_a_monitor_share_the_draw_unless_told_otherwise(bench: Bench) -> None:
    await bench.put(*(turn(n, f"c{n}") for n in range(1, 101)))
    names = ("one", "other", "apart")
    assignments = tuple(
        Assignment(Length(name=name), NoJudge(), "v", salt="of its own" if name == "apart" else None) for name in names
    )
    chosen = {
        name: {n for n in range(1, 101) if draw("of its own" if name == "apart" else "evalstream", f"c{n}") < 0.3}
        for name in names
    }
    async with bench.running(Monitor(name="m", assignments=assignments, match={}, rate=0.3)):
        ledger = await bench.until(sum(map(len, chosen.values())))
    assert {name: {each.subject.turn_id for each in ledger if each.evaluator == name} for name in names} == {
        name: {f"turn-{n}" for n in some} for name, some in chosen.items()
    }
    assert chosen["one"] == chosen["other"] != chosen["apart"]
