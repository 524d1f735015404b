"""References and turns in any order, twice, and through crashes: each evaluation once, and the same.

A crash is a new state that replays from the low watermark, as a restart does; what was made before is in the ledger.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from plan_histories import one_plan

from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import EvaluateStage, StageTiming
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import TICK, Committed, Headers, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_from_json, turn_to_json
from collector.records.references import reference_of, reference_records
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.conversation.outcome import ConversationOutcome
from evaluators.judge import NoJudge
from evaluators.results import Evaluation
from evaluators.turn.exact_match import ExactMatch
from evaluators.turn.length import Length

EXACT, SHORT = ExactMatch(name="exact"), Length(name="short", maximum=9)
WAIT = 100.0
PLAN = Plan(
    (
        Monitor(
            "m",
            (Assignment(EXACT, NoJudge(), EXACT.version), Assignment(SHORT, NoJudge(), SHORT.version)),
            {},
            reference_wait=WAIT,
        ),
    )
)
TURNS = 5
LOG = MemoryLog("turns", 1)


@dataclass(frozen=True)
class Event:
    """What comes at a time (s): a turn, a reference of it by one of its ids, or only a tick."""

    kind: str
    number: int
    by: str
    at: float

    @property
    def answer(self) -> str:
        """What a reference expects; of the kind `other` not what the turn answers."""
        return f"{'answer' if self.kind == 'reference' else 'another'} {self.number}"

    def record(self, offset: int) -> StoredRecord:
        headers: Headers = ()
        key: bytes | None = f"c{self.number}".encode()
        match self.kind:
            case "turn":
                value = turn_to_json(turn(self.number))
            case "part":  # of a conversation of three
                key = f"c{self.number // 3}".encode()
                value = turn_to_json(replace(turn(self.number), conversation_id=key.decode()))
            case "tick":
                headers, value, key = TICK, b"", None
            case "outcome":
                document = {"conversation_id": f"c{self.number // 3}", "outcomes": {"sold": self.number % 2 == 0}}
                [made] = list(reference_records(reference_of(document, tenant=None), LOG))
                value, headers, key = made.value, made.headers, made.key
            case _:
                ids = {
                    "turn_id": f"t{self.number}",
                    "trace_id": f"{self.number + 1:032x}",
                    "conversation_id": f"c{self.number}",
                }
                document = {self.by: ids[self.by], "expected_output": self.answer}
                [made] = list(reference_records(reference_of(document, tenant=None), LOG))
                value, headers = made.value, made.headers
        return StoredRecord(0, offset, self.at, key, value, headers)


def turn(number: int) -> Turn:
    return Turn(
        turn_id=f"t{number}", conversation_id=f"c{number}", trace_id=f"{number + 1:032x}", input="?",
        actual_output=f"answer {number}",
    )  # fmt: skip


def at_once(applied: Coroutine[Any, Any, list[Job]]) -> list[Job]:
    """What a coroutine gives that waits for nothing; a loop for each record would take longer than the test."""
    try:
        applied.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Outcomes(OutcomeCounter):
    def __init__(self) -> None:
        self.evaluations: Counter[str] = Counter()
        self.references: Counter[str] = Counter()
        self.missing = 0

    def count_evaluation(self, monitor: str, evaluator: str, outcome: str, reason: str = "", number: int = 1) -> None:
        self.evaluations[outcome] += number

    def count_reference(self, outcome: str) -> None:
        self.references[outcome] += 1

    def count_missing(self, monitor: str, evaluator: str) -> None:
        self.missing += 1


class Service:
    """A partition whose jobs are made at once, and that may crash after any record."""

    def __init__(self) -> None:
        self.records: list[StoredRecord] = []
        self.ledger: dict[str, tuple[str, str | None, str | None]] = {}
        self.twice = 0
        self.state = PartitionState(PLAN, ReplayPoint(0))

    def receive(self, event: Event) -> None:
        record = event.record(len(self.records))
        self.records.append(record)
        self._make(at_once(self.state.apply(record)))

    def _make(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.evaluation_id not in self.ledger:
                case = job.case()
                assert isinstance(case, Turn)
                self.ledger[job.evaluation_id] = (f"{job.assignment.evaluator.name} {case.turn_id}", job.skip,
                                                  case.expected_output)  # fmt: skip

    def crash(self) -> None:
        low = self.state.references.low_watermark
        start = low if low is not None else self.state.replay_point
        delivered = len(self.records)
        self.state = PartitionState(PLAN, start)
        for record in self.records[start.offset :]:
            jobs = at_once(self.state.apply(record))
            self._make([job for job in jobs if job.trigger_offset >= delivered])


def outcomes_of(service: Service) -> dict[str, tuple[str | None, str | None]]:
    assert len({name for name, _, _ in service.ledger.values()}) == len(service.ledger)
    return {name: (skip, expected) for name, skip, expected in service.ledger.values()}


events = st.builds(
    Event,
    kind=st.sampled_from(["turn", "reference", "reference", "other", "tick"]),
    number=st.integers(0, TURNS - 1),
    by=st.sampled_from(["turn_id", "trace_id", "conversation_id"]),
    at=st.just(0.0),
)


def timed(steps: list[tuple[Event, float]]) -> list[Event]:
    now, made = 1000.0, list[Event]()
    for event, pause in steps:
        now += pause
        made.append(Event(event.kind, event.number, event.by, now))
    return made


def expected(stream: list[Event], number: int) -> tuple[str | None, str | None] | None:
    """What becomes of the first copy of a turn, by the rule: a reference within the wait, before it or after it.

    Of several before it the one whose last copy is the oldest, of several after it the first.
    """
    came = next((n for n, each in enumerate(stream) if each.kind == "turn" and each.number == number), None)
    if came is None:
        return None
    before: dict[tuple[str, str], Event] = {}
    for each in about(stream[:came], number):
        before.pop((each.by, each.kind), None)
        before[each.by, each.kind] = each
    for each in (*before.values(), *about(stream[came:], number)):
        if abs(each.at - stream[came].at) < WAIT:
            return None, each.answer
    return "reference_missing: expected_output", None


def about(stream: list[Event], number: int) -> list[Event]:
    return [each for each in stream if each.kind in ("reference", "other") and each.number == number]


AGAIN = [  # a reference that comes again before it is forgotten, and its turn only after the first copy would be
    (Event("reference", 0, "conversation_id", 0.0), 0.0),
    (Event("turn", 1, "turn_id", 0.0), 40.0),
    (Event("reference", 0, "conversation_id", 0.0), 40.0),
    (Event("turn", 0, "turn_id", 0.0), 40.0),
]


OTHERWISE = [  # the same, with another one between its copies that says it differently
    (Event("reference", 0, "turn_id", 0.0), 0.0),
    (Event("turn", 1, "turn_id", 0.0), 1.0),
    (Event("other", 0, "trace_id", 0.0), 40.0),
    (Event("reference", 0, "turn_id", 0.0), 40.0),
    (Event("turn", 0, "turn_id", 0.0), 40.0),
]


@example(AGAIN, set[int]())
@example(AGAIN, {3})
@example(OTHERWISE, set[int]())
@example(OTHERWISE, {3, 4})
@given(st.lists(st.tuples(events, st.sampled_from([0.0, 1.0, 40.0, 101.0])), max_size=25), st.sets(st.integers(0, 25)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_evaluation_is_made_once_by_the_rule_whatever_crashes(
    steps: list[tuple[Event, float]], crashes: set[int]
) -> None:
    stream = timed(steps)
    end = Event("tick", 0, "", (stream[-1].at if stream else 0.0) + 10 * WAIT)
    calm, shaken = Service(), Service()
    for number, event in enumerate([*stream, end]):
        for service in (calm, shaken):
            service.receive(event)
        if number in crashes:
            shaken.crash()
    assert outcomes_of(shaken) == outcomes_of(calm)
    for number in range(TURNS):
        rule = expected(stream, number)
        assert outcomes_of(calm).get(f"exact t{number}") == rule
        assert (f"short t{number}" in outcomes_of(calm)) == (rule is not None)
    assert len(calm.state.references) == 0
    assert calm.state.references.low_watermark is None, "nothing is needed any more"


@given(st.permutations([("turn", n) for n in range(3)] + [("reference", n) for n in range(3)] * 2))
@settings(max_examples=100, deadline=None)
def test_the_order_makes_no_difference(order: list[tuple[str, int]]) -> None:
    service = Service()
    counts = service.state.outcomes = Outcomes()
    for kind, number in order:
        service.receive(Event(kind, number, "trace_id", 1000.0))
    assert outcomes_of(service) == {
        **{f"exact t{n}": (None, f"answer {n}") for n in range(3)},
        **{f"short t{n}": (None, None) for n in range(3)},
    }
    assert counts.references == {"received": 3, "duplicate": 3, "joined": 3}
    assert (counts.evaluations["matched"], counts.missing) == (6, 0)


def test_what_does_not_need_a_reference_does_not_wait() -> None:
    service = Service()
    service.receive(Event("turn", 1, "", 1000.0))
    assert set(outcomes_of(service)) == {"short t1"}
    assert len(service.state.references) == 1
    assert service.state.references.due_at == 1100.0


def test_a_reference_of_another_tenant_is_for_nobody() -> None:
    service = Service()
    service.receive(Event("turn", 1, "", 1000.0))
    for tenant, done in (("acme", 1), ("", 2)):
        document: Any = {"trace_id": f"{2:032x}", "expected_output": "x"}
        [made] = list(reference_records(reference_of(document, tenant=tenant), LOG))
        record = StoredRecord(0, len(service.records), 1001.0, b"c1", made.value, made.headers)
        service.records.append(record)
        service._make(at_once(service.state.apply(record)))
        assert len(service.ledger) == done
    assert orjson.loads(made.value)["tenant"] == ""


def test_a_reference_that_comes_again_and_again_holds_back_nothing_and_is_forgotten_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collector.evaluate.references.join.MOST_REFERENCES", 2)
    service = Service()
    for at, number in ((1000.0, 0), (1040.0, 1), (1080.0, 0)):
        service.receive(Event("reference", number, "turn_id", at))
    low = service.state.references.low_watermark
    assert low is not None
    assert (low.offset, service.state.references.due_at) == (1, 1140.0)
    service.receive(Event("reference", 2, "turn_id", 1081.0))  # one too many
    low = service.state.references.low_watermark
    assert low is not None
    assert (low.offset, service.state.references.due_at) == (2, 1180.0)
    for number in (0, 1):
        service.receive(Event("turn", number, "", 1170.0))
    assert {name for name in outcomes_of(service) if "exact" in name} == {"exact t0"}


class Stage:
    """The evaluate stage over logs in memory, with evaluations of conversations; commits and dies when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        timing = ConsumerTiming(clock=lambda: self.now)
        self.turns = MemoryLog("turns", 1, timing=timing)
        self.evaluations = MemoryLog("evaluations", 1, timing=timing)
        self.committed: Committed | None = None
        self._position = 0
        self._open = AsyncExitStack()
        self._fold: Any = None

    async def start(self) -> None:
        dispatcher = Dispatcher(
            self.evaluations,
            EvaluationGuardrails(Telemetry()),
            limits=BulkheadLimits(slots=100),
            clocks=Clocks(now=lambda: datetime.fromtimestamp(self.now, UTC)),
        )
        stage = EvaluateStage(
            WHOLE, dispatcher, turns=self.turns, timing=StageTiming(lambda: self.now), definitions=one_plan()
        )
        self._fold = await self._open.enter_async_context(stage.open_fold(0, self.committed))
        self._position = self.committed.offset if self.committed else 0
        low = self.committed.low_watermark if self.committed else 0
        await self._fold.replay([each for each in await self._records(low) if each.offset < self._position])

    async def _records(self, start: int) -> list[StoredRecord]:
        return [each async for batch in self.turns.read(0, start) for each in batch]

    async def receive(self, event: Event) -> None:
        self.now = event.at
        record = event.record(0)
        await self.turns.append([Record(record.key, record.value, record.headers)])
        await self.deliver()

    async def deliver(self) -> None:
        records = await self._records(self._position)
        await self._fold.deliver(records)
        self._position = records[-1].offset + 1 if records else self._position
        for _ in range(10):
            await asyncio.sleep(0)

    async def commit(self) -> None:
        low = self._fold.low_watermark
        self.committed = Committed(
            self._position if low is None else min(low, self._position), self._position, self._fold.metadata
        )

    async def crash(self) -> None:
        await self._open.aclose()
        self._open = AsyncExitStack()
        await self.start()
        await self.deliver()

    async def ledger(self) -> list[Evaluation]:
        await self._open.aclose()
        return [
            evaluation_from_json(each.value)
            async for batch in self.evaluations.read(0, 0)
            for each in batch
            if not each.headers
        ]


SOLD = ConversationOutcome(name="sold", outcome="sold")
WHOLE = Plan(
    (
        Monitor(
            "m",
            (Assignment(SOLD, NoJudge(), SOLD.version), Assignment(EXACT, NoJudge(), EXACT.version)),
            {},
            window_settings=SessionWindowSettings(idle_gap=30.0, allowed_lateness=20.0),
            reference_wait=WAIT,
        ),
    )
)
steps_of_conversations = st.lists(
    st.tuples(
        st.builds(
            Event,
            kind=st.sampled_from(["part", "part", "part", "outcome", "tick"]),
            number=st.integers(0, 8),
            by=st.sampled_from(["conversation_id"]),
            at=st.just(0.0),
        ),
        st.sampled_from([1.0, 12.0, 35.0, 60.0]),
        st.sampled_from(["", "", "commit", "crash", "commit and crash"]),
    ),
    max_size=40,
)


def early(kind: str, number: int) -> Event:
    return Event(kind, number, "conversation_id", 0.0)


@example(  # judged by a reference that is forgotten; the replay begins within its conversation
    [
        (early("outcome", 0), 1.0, ""),
        (early("part", 0), 1.0, ""),
        (early("part", 1), 19.0, ""),
        (early("part", 2), 25.0, ""),
        (early("tick", 0), 31.0, ""),
        (early("tick", 0), 26.0, "commit and crash"),
    ]
)
@example(  # the same while another conversation waits that ended before
    [
        (early("part", 3), 1.0, ""),
        (early("outcome", 0), 10.0, ""),
        (early("part", 0), 1.0, ""),
        (early("part", 1), 19.0, ""),
        (early("tick", 0), 5.0, ""),
        (early("part", 2), 20.0, ""),
        (early("tick", 0), 31.0, ""),
        (early("tick", 0), 26.0, "commit and crash"),
    ]
)
@example(  # a turn comes again; a replay from the reference on takes it for the first of a conversation
    [
        (early("part", 0), 1.0, ""),
        (early("outcome", 0), 12.0, ""),
        (early("part", 0), 1.0, ""),
        (early("part", 0), 60.0, ""),
        (early("part", 1), 1.0, ""),
        (early("part", 0), 60.0, "commit and crash"),
    ]
)
@given(steps_of_conversations)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_conversations_that_wait_are_judged_once_and_whole_whatever_crashes(
    steps: list[tuple[Event, float, str]],
) -> None:
    async def run(*, shaken: bool) -> list[Evaluation]:
        stage, now = Stage(), 1000.0
        await stage.start()
        for event, pause, after in steps:
            now += pause
            await stage.receive(Event(event.kind, event.number, event.by, now))
            if shaken and "commit" in after:
                await stage.commit()
            if shaken and "crash" in after:
                await stage.crash()
        for _ in range(3):
            now += 3 * WAIT
            await stage.receive(Event("tick", 0, "", now))
        return await stage.ledger()

    calm, shaken = asyncio.run(run(shaken=False)), asyncio.run(run(shaken=True))
    names = [Counter((each.evaluation_id, each.outcome) for each in ledger) for ledger in (calm, shaken)]
    assert names[0] == names[1]
    assert set(names[0].values()) <= {1}


def test_a_replay_waits_as_long_as_before_where_a_broker_took_records_after_younger_ones() -> None:
    service = Service()
    for event in (Event("tick", 0, "", 1000.0), Event("turn", 0, "", 1000.0), Event("turn", 1, "", 1000.0)):
        service.receive(event)
    # The consumer of before had seen the tick, and gave its time to what a broker took later.
    service.records[1:] = [
        replace(record, timestamp=time) for record, time in zip(service.records[1:], (850.0, 955.0), strict=True)
    ]
    service.crash()
    service.receive(Event("reference", 0, "turn_id", 1050.0))
    assert outcomes_of(service)["exact t0"] == (None, "answer 0")
