"""What records and control records make of the state of a partition: jobs, times, counts and offsets."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS, snapshot_record
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.configurations import Configurations
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, ControlRecord
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.retry.request import RetryRequest
from collector.evaluate.sampling.draw import UpstreamTrust
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.evaluate.transfer.transfer_records import (
    CONVERSATION_HEADERS,
    JOB_HEADERS,
    START_HEADERS,
    transferred,
)
from collector.logs.log import TICK, Record, StoredRecord
from collector.records.json import turn_to_json
from collector.records.shared_records import share_records
from evaluators.cases import Conversation, Message, Turn
from evaluators.conversation.completeness import Completeness
from evaluators.identity import retry_id
from evaluators.judge import NoJudge
from evaluators.results import ErrorDetail, Evaluation, Retry, Subject
from evaluators.turn.exact_match import ExactMatch
from evaluators.turn.g_eval import GEval


class Named:
    def __init__(self, model: str) -> None:
        self.model = model

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
SOLVED = Completeness(name="solved")
TURNS = Assignment(GOOD, Named("dear"), "v", fallback=Named("cheap"), fallback_version="v")
WHOLE = Assignment(SOLVED, Named("dear"), SOLVED.version, fallback=Named("cheap"), fallback_version="v")
DRAWN, DRAW = "sess-larkspur-7341", 0.19832734280006037
"""A conversation and its draw."""
WINDOWS = SessionWindowSettings(idle_gap=60.0, allowed_lateness=30.0)


class Counts(OutcomeCounter):
    """Everything that is counted."""

    def __init__(self) -> None:
        self.turns: Counter[tuple[str, str]] = Counter()
        self.evaluations: Counter[tuple[str, str]] = Counter()
        self.closed: list[tuple[str, str, int]] = []
        self.idle: Counter[str] = Counter()
        self.ignored_upstream: Counter[str] = Counter()

    def count_turn(self, monitor: str, outcome: str, number: int = 1) -> None:
        self.turns[monitor, outcome] += number

    def count_evaluation(self, monitor: str, evaluator: str, outcome: str, reason: str = "", number: int = 1) -> None:
        self.evaluations[evaluator, outcome] += number

    def count_closed(self, monitor: str, by: str, missing: int) -> None:
        self.closed.append((monitor, by, missing))

    def count_ignored_upstream(self, monitor: str) -> None:
        self.ignored_upstream[monitor] += 1

    def count_idle(self, monitor: str, number: int) -> None:
        self.idle[monitor] += number


def watching(*assignments: Assignment, **changes: Any) -> Monitor:
    return Monitor(**{"name": "m", "assignments": assignments, "match": {}, "window_settings": WINDOWS} | changes)


class State:
    """A state that begins at offset 5, counts, and remembers demands and bad records."""

    def __init__(
        self,
        *monitors: Monitor,
        controls: tuple[ControlRecord, ...] = (),
        start: ReplayPoint = ReplayPoint(5, 100.0),  # noqa: B008 - immutable
        **plan: Any,
    ) -> None:
        self._state = PartitionState(Plan(monitors, **plan), start, controls)
        self._state.outcomes = self.counts = Counts()
        self.demands: list[tuple[str, float]] = []
        self.bad: list[int] = []
        self._state.report_demand = lambda _, assignment, units: self.demands.append((assignment.evaluator.name, units))
        self._state.on_bad_record = lambda record, _error: self.bad.append(record.offset)

    def __getattr__(self, name: str) -> Any:
        """What it has; compiled classes are not derived from."""
        return getattr(self._state, name)

    def receive(self, of: Turn, timestamp: float, key: bytes | None = b"c") -> list[Job]:
        record = StoredRecord(0, self.next_offset, timestamp, key, turn_to_json(of))
        return asyncio.run(self.apply(record))

    def tick(self, timestamp: float) -> list[Job]:
        return asyncio.run(self.apply(StoredRecord(0, self.next_offset, timestamp, None, b"", TICK)))


def turn(number: int = 1, **changes: Any) -> Turn:
    values: dict[str, Any] = {"conversation_id": "c", "input": f"question {number}", "actual_output": "answer"}
    return Turn(turn_id=f"t{number}", **(values | changes))


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_turns_job_says_where_it_comes_from() -> None:
    state = State(watching(TURNS), trust=UpstreamTrust(everybody=True))
    state.tick(200.0)
    (job,) = state.receive(turn(trace_state="ot=th:8"), 210.0)
    assert (job.replay_point, job.trigger_offset) == (ReplayPoint(6, 200.0), 6)
    assert (job.triggered_at, job.size) == (210.0, len(turn_to_json(turn(trace_state="ot=th:8"))))
    assert job.evaluation_id == TURNS.evaluation_id("t1")
    assert (job.sampling.probability, job.sampling.upstream, job.sampling.stratum) == (0.5, 0.5, "all")
    assert (job.sampling.unit, job.fallback, job.supersedes) == ("conversation", False, ())
    assert state.replay_point == ReplayPoint(7, 210.0)
    assert state.counts.turns == {("m", "sampled"): 1}
    assert state.counts.evaluations == {("good", "matched"): 1}
    (alone,) = state.receive(turn(2, conversation_id=None, trace_id="a" * 32), 211.0)
    assert (alone.sampling.unit, alone.sampling.upstream) == ("trace", "unknown")
    assert state.counts.ignored_upstream == {}


@pytest.mark.parametrize(
    ("trust", "sender", "upstream"),
    [
        (UpstreamTrust(), None, "unknown"),
        (UpstreamTrust(), "team-a", "unknown"),
        (UpstreamTrust(everybody=True), None, 0.5),
        (UpstreamTrust(tenants=frozenset({"team-a"})), "team-a", 0.5),
        (UpstreamTrust(tenants=frozenset({"team-a"})), "team-b", "unknown"),
        (UpstreamTrust(tenants=frozenset({"team-a"})), None, "unknown"),
    ],
)
def test_a_trace_state_counts_only_from_those_who_are_believed(
    trust: UpstreamTrust, sender: str | None, upstream: float | str
) -> None:
    """Of turns and of conversations; what is ignored is counted, and the draw is ours alone."""
    whole = State(watching(TURNS, WHOLE), trust=trust)
    came = turn(trace_state="ot=th:8", attributes={"evalstream.tenant": sender} if sender else {})
    jobs = [*whole.receive(came, 200.0), *whole.tick(400.0)]
    assert [job.sampling.upstream for job in jobs] == [upstream] * 2
    assert [job.sampling.probability for job in jobs] == [0.5 if upstream == 0.5 else 1.0] * 2
    assert whole.counts.ignored_upstream == ({} if upstream == 0.5 else {"m": 1})


def test_a_trace_state_that_left_nothing_out_is_not_counted_as_ignored() -> None:
    state = State(watching(TURNS))
    for number, trace_state in enumerate((None, "", "ot=th:0", "ot=th:nonsense", "other=th:8")):
        state.receive(turn(number, trace_state=trace_state), 200.0)
    assert state.counts.ignored_upstream == {}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"started_at": at(110.0), "ended_at": at(120.0)}, 120.0),
        ({"started_at": at(110.0)}, 110.0),
        ({}, 130.0),
        ({"ended_at": at(140.0)}, 130.0),  # of a clock that is ahead
        ({"ended_at": at(90.0)}, 100.0),  # time never falls
    ],
)
def test_the_time_of_a_partition_is_that_of_its_turns_up_to_that_of_its_records(
    times: dict[str, Any], expected: float
) -> None:
    state = State(watching(TURNS))
    state.receive(turn(**times), 130.0)
    assert state.time == expected


def test_a_conversations_job_says_what_it_comes_from() -> None:
    state = State(watching(WHOLE))
    assert state.receive(turn(1), 110.0) == []
    history = (Message(role="user", content="question 1"), Message(role="user", content="never received"))
    assert state.receive(turn(2, history=history), 120.0) == []
    (job,) = state.tick(200.0)
    assert (job.replay_point, job.trigger_offset, job.triggered_at) == (ReplayPoint(5, 100.0), 7, 200.0)
    assert job.attributes == {"closed_by": "idle", "turns": 2, "gaps": 1, "incomplete": True}
    assert job.sampling.unit == "conversation"
    assert job.case().conversation_id == "c"
    assert [each.turn_id for each in job.case().turns] == ["t1", "t2"]
    assert 0 < job.size < 2 * len(turn_to_json(turn(1)))
    assert state.counts.closed == [("m", "idle", 1)]
    assert state.counts.evaluations == {("solved", "matched"): 1}
    assert (state.counts.idle, state.counts.turns) == ({"m": 1}, {("m", "sampled"): 2})


def test_a_later_revision_supersedes_the_earlier_one() -> None:
    state = State(watching(WHOLE))
    state.receive(turn(1), 110.0)
    (first,) = state.tick(175.0)
    state.receive(turn(2, ended_at=at(112.0)), 180.0)
    (second,) = state.tick(300.0)
    assert second.supersedes == (first.evaluation_id,)
    assert second.evaluation_id != first.evaluation_id
    assert first.attributes == {"closed_by": "idle", "turns": 1}


def test_what_no_monitor_watches_is_counted_once_and_what_two_watch_twice() -> None:
    one, two = watching(TURNS, match={"service": frozenset({"a"})}), watching(TURNS, name="two")
    state = State(one, replace(two, match={"service": frozenset({"a", "b"})}))
    for number, service in enumerate(("a", "b", "c")):
        state.receive(turn(number, service=service), 110.0)
    assert state.counts.turns == {("m", "sampled"): 1, ("two", "sampled"): 2, ("", "unmatched"): 1}


def test_a_turn_that_comes_again_is_a_duplicate_whether_it_is_sampled_or_not() -> None:
    """Also if its conversation's key alone samples it out, and if it comes again together with others."""
    state = State(watching(TURNS, match={"service": "shop"}), watching(TURNS, name="rare", rate=1e-12))
    never = State(watching(TURNS, rate=1e-12))
    for number in (1, 2, 1, 1):
        state.receive(turn(number, service="shop"), 110.0)
        state.receive(turn(number + 10, service="other"), 110.0)
        never.receive(turn(number), 110.0)
    (shared,) = share_records([Record(b"c", turn_to_json(turn(number))) for number in (2, 3)], 1, may_share=bool)
    asyncio.run(never.apply(StoredRecord(0, never.next_offset, 120.0, shared.key, shared.value, shared.headers)))
    assert state.counts.turns == {
        ("m", "sampled"): 2, ("m", "duplicate"): 2, ("rare", "sampled_out"): 4, ("rare", "duplicate"): 4
    }  # fmt: skip
    assert never.counts.turns == {("m", "sampled_out"): 3, ("m", "duplicate"): 3}
    assert never.counts.evaluations == {("good", "matched"): 6, ("good", "sampled_out"): 3, ("good", "duplicate"): 3}


def test_a_duplicate_is_counted_as_such_and_a_late_turn_as_every_other() -> None:
    state = State(watching(WHOLE))
    state.receive(turn(1), 110.0)
    state.receive(turn(1), 111.0)
    state.tick(300.0)
    state.receive(turn(2, ended_at=at(112.0)), 301.0)
    assert state.counts.turns == {("m", "sampled"): 2, ("m", "duplicate"): 1}


def test_a_backlog_is_judged_whole_conversation_by_whole_conversation() -> None:
    """Turns of an hour ago come within seconds, with ticks between: no conversation is taken for idle meanwhile."""
    state, jobs = State(watching(WHOLE)), []
    for number in range(3):
        for conversation in range(4):
            happened = turn(
                number * 10 + conversation, conversation_id=f"c{conversation}", ended_at=at(5000.0 + number)
            )
            jobs += state.receive(happened, 9000.0 + number, key=f"c{conversation}".encode())
        jobs += state.tick(9000.5 + number)
    assert jobs == []
    closed = [job.case() for job in state.tick(9062.0)]
    assert [len(conversation.turns) for conversation in closed] == [3, 3, 3, 3]


def test_what_is_not_sampled_is_counted_and_its_demand_is_known() -> None:
    key = DRAWN
    for rate, jobs, outcome in ((0.19, 0, "sampled_out"), (0.2, 1, "sampled")):
        # read by its key alone, and by its content
        for match in ({}, {"service": frozenset({""})}):
            state = State(watching(TURNS, WHOLE, rate=rate, match=match))
            made = state.receive(turn(conversation_id=key), 110.0, key.encode())
            assert len(made) == jobs
            assert state.counts.turns == {("m", outcome): 1}
            assert state.demands == [("good", rate)]
            made = state.tick(500.0)
            assert len(made) == jobs
            assert state.counts.idle == {"m": 1}, "judged or not, it is a conversation"
            assert state.counts.evaluations["good", "matched"] == 1
            assert state.counts.evaluations["good", "sampled_out"] == 1 - jobs
            assert state.demands[1:] == [("solved", 1.0)] * jobs, "one that is judged stands for five"


@pytest.mark.parametrize(
    ("errors", "of_turns", "of_conversation"),
    [
        ((None, None), 0, 0),  # kept for a boost that never came
        (("boom", None), 2, 1),  # the second turn is in a conversation that is judged
        ((None, "boom"), 1, 1),  # nobody knows of the boost when the first turn comes
    ],
)
@pytest.mark.parametrize("judges_turns", [False, True])
def test_sampled_is_what_is_judged_and_not_what_is_kept_for_a_boost(
    errors: tuple[str | None, ...], of_turns: int, of_conversation: int, judges_turns: bool
) -> None:
    assignments = (TURNS, WHOLE) if judges_turns else (WHOLE,)
    state = State(watching(*assignments, rate=0.19, strata=Strata((Boost("error", 4.0, failed),))))
    made = [
        job
        for number, error in enumerate((*errors, *errors))
        for job in state.receive(turn(number % 2, conversation_id=DRAWN, error=error), 110.0, DRAWN.encode())
    ]
    judged = len({job.evaluation_id for job in made})
    assert judged == (sum(error is not None for error in errors) if judges_turns else 0)
    assert len(state.tick(500.0)) == of_conversation
    expected = {("m", "sampled"): of_turns, ("m", "sampled_out"): 2 - of_turns, ("m", "duplicate"): 2}
    assert state.counts.turns == Counter(expected)
    assert state.counts.closed == [("m", "idle", 0)] * of_conversation
    assert state.counts.evaluations["solved", "matched"] == of_conversation
    assert state.counts.evaluations["solved", "sampled_out"] == 0
    assert state.counts.idle == {"m": 1}, "judged or not, it is a conversation"


def test_a_conversation_in_the_sample_of_one_evaluator_is_sampled_out_for_another() -> None:
    rare = replace(WHOLE, evaluator=Completeness(name="rare"), rate=1e-12)
    state = State(watching(WHOLE, rare, rate=0.2, strata=Strata((Boost("error", 4.0, failed),))))
    state.receive(turn(conversation_id=DRAWN), 110.0, DRAWN.encode())
    assert len(state.tick(500.0)) == 1
    assert state.counts.turns == {("m", "sampled"): 1}
    assert state.counts.closed == [("m", "idle", 0)]
    assert state.counts.evaluations == {("solved", "matched"): 1, ("rare", "matched"): 1, ("rare", "sampled_out"): 1}


def test_without_a_key_a_record_is_read() -> None:
    state = State(watching(TURNS, rate=0.19))
    assert state.receive(turn(conversation_id=DRAWN), 110.0, None) == []
    assert state.counts.turns == {("m", "sampled_out"): 1}


def test_a_boost_and_a_reduced_rate_multiply_and_demand_is_without_the_budget() -> None:
    boosted = watching(TURNS, WHOLE, budget=Budget(usd_per_hour=1.0), strata=Strata((Boost("error", 4.0, failed),)))
    reduced = ControlRecord(offset=5, rates=Rates({"m": RateReduction(0.2, fallback=True)}))
    state = State(replace(boosted, rate=0.5), controls=(reduced,))
    key = DRAWN
    (job,) = state.receive(turn(conversation_id=key, error="boom"), 110.0, key.encode())
    assert job.sampling.probability == pytest.approx(0.5 * 0.2 * 4.0)
    assert (job.sampling.stratum, job.fallback, job.judge.model) == ("error", True, "cheap")
    assert job.evaluation_id == TURNS.evaluation_id("t1", fallback=True)
    (whole,) = state.tick(500.0)
    assert whole.sampling.probability == pytest.approx(0.4)
    assert (whole.sampling.stratum, whole.fallback) == ("error", True)
    assert state.demands == [("good", 1.0), ("solved", pytest.approx(1.0 / 0.4))]


def test_a_monitor_without_a_budget_keeps_its_rates_and_one_without_a_fallback_its_judge() -> None:
    reduced = ControlRecord(offset=5, rates=Rates({"m": RateReduction(0.0001, fallback=True)}))
    (job,) = State(watching(TURNS), controls=(reduced,)).receive(turn(), 110.0)
    assert (job.sampling.probability, job.fallback) == (1.0, False)
    full = ControlRecord(offset=5, rates=Rates({"m": RateReduction(1.0, fallback=True)}))
    only = replace(TURNS, fallback=None)
    (job,) = State(watching(only), controls=(full,), budget=Budget(usd_per_day=1.0)).receive(turn(), 110.0)
    assert (job.fallback, job.judge.model) == (False, "dear")


def test_control_records_of_earlier_owners_apply_at_their_offsets() -> None:
    rates = [Rates({"m": RateReduction(factor)}) for factor in (0.5, 0.6, 0.7)]
    controls = tuple(ControlRecord(offset=offset, rates=each) for offset, each in zip((7, 5, 6), rates, strict=True))
    state = State(watching(TURNS, budget=Budget(usd_per_hour=1.0)), controls=controls)
    assert state.rates == rates[1], "in force before the first record"
    state.tick(110.0)
    assert state.rates == rates[2]
    state.tick(111.0)
    assert state.rates == rates[0]


def test_an_evicted_conversation_is_judged_at_the_record_before() -> None:
    state = State(watching(WHOLE))
    state.receive(turn(), 110.0)
    assert state.apply_control(ControlRecord(offset=6, evictions={"gone": ["c"], "m": ["unknown"]})) == []
    (job,) = state.apply_control(ControlRecord(offset=6, evictions={"m": ["c"]}))
    assert (job.trigger_offset, job.attributes["closed_by"]) == (5, state.counts.closed[0][1])


def test_a_control_record_in_the_turns_log_and_a_bad_record_are_passed() -> None:
    state = State(watching(TURNS))
    for headers in (CONTROL_HEADERS, SNAPSHOT_HEADERS, ()):
        assert asyncio.run(state.apply(StoredRecord(0, state.next_offset, 110.0, b"c", b"{", headers))) == []
    assert (state.bad, state.next_offset) == ([6, 7], 8)
    deep = StoredRecord(0, state.next_offset, 110.0, b"c", b'{"sessions":' + b"[" * 100_000, SNAPSHOT_HEADERS)
    assert asyncio.run(state.apply(deep)) == []
    assert (state.bad, state.windows.validate_snapshots([deep])) == ([6, 7, 8], {})


def test_a_record_of_a_copy_that_cannot_be_read_is_bad() -> None:
    state = State(watching(TURNS))
    for headers in (START_HEADERS, CONVERSATION_HEADERS, JOB_HEADERS):
        assert asyncio.run(state.apply(StoredRecord(0, state.next_offset, 110.0, b"c", b"{", headers))) == []
    assert state.bad == [5, 6, 7]


def test_a_job_of_a_copied_log_is_resumed_or_waits_for_its_reference() -> None:
    """It waits only if its subject lacks the reference, it is no repetition, and it is no backfill."""
    exact = Assignment(ExactMatch(name="exact"), NoJudge(), "v")
    (plain,) = State(watching(exact)).receive(turn(), 110.0)
    retry = Retry(attempt=2, reason="judge_timeout")
    for due, resumed in (
        (transferred(plain), 0),
        (transferred(replace(plain, case=lambda: turn(expected_output="answer"))), 1),
        (replace(transferred(plain), happened_at=at(90.0)), 1),
        (replace(transferred(plain), retry=retry), 1),
    ):
        state = State(watching(exact, reference_wait=60.0))
        record = due.to_record()
        made = asyncio.run(state.apply(StoredRecord(0, 5, 120.0, record.key, record.value, record.headers)))
        assert (len(made), state.counts.evaluations["exact", "resumed"], state.bad) == (resumed, resumed, [])
        assert len(state.tick(181.0)) == 1 - resumed


def test_of_a_shared_record_each_turn_that_is_not_sampled_is_counted() -> None:
    state = State(watching(TURNS, rate=0.19))
    of = [turn(number, conversation_id=DRAWN) for number in (1, 2, 3)]
    (shared,) = share_records(
        [Record(DRAWN.encode(), turn_to_json(each)) for each in of], 1, may_share=lambda _record: True
    )
    record = StoredRecord(0, state.next_offset, 110.0, shared.key, shared.value, shared.headers)
    assert asyncio.run(state.apply(record)) == []
    assert state.counts.turns == {("m", "sampled_out"): 3}


def test_a_conversation_needs_no_record_before_a_valid_snapshot_and_goes_on_without_an_invalid_one() -> None:
    for valid, oldest in ((True, 6), (False, 5)):
        state = State(watching(WHOLE))
        state.receive(turn(), 110.0)
        ((key, windows),) = state.sessions_by_monitor["m"].needing_snapshot(state.next_offset, state.time, 1)
        written = snapshot_record("m", key, windows, state.next_offset, 0)
        record = StoredRecord(0, state.next_offset, 111.0, written.key, written.value, SNAPSHOT_HEADERS)
        assert state.windows.validate_snapshots([record]) == {6: True}
        if valid:
            state.apply_control(ControlRecord(offset=6, snapshot_validity={6: True}))
            assert state.windows.validate_snapshots([record]) == {}, "decided before"
        asyncio.run(state.apply(record))
        assert [job.replay_point.offset for job in state.tick(500.0)] == [oldest]


def test_of_two_decisions_about_a_snapshot_the_one_written_last_applies() -> None:
    """A former owner decided about records 6 and 7 together, the next one about 7 alone, with 8."""
    for decisions, oldest in (((True, False), 5), ((False, True), 7)):
        former, later = ({7: valid} for valid in decisions)
        controls = (ControlRecord(offset=7, snapshot_validity=former), ControlRecord(offset=6, snapshot_validity=later))
        state = State(watching(WHOLE), controls=controls)
        state.receive(turn(), 110.0)
        state.tick(110.5)
        asyncio.run(state.apply(snapshot_of(state)))
        assert [job.replay_point.offset for job in state.tick(500.0)] == [oldest]


def test_a_snapshot_with_other_windows_is_not_valid_though_nothing_changed_since() -> None:
    """Its owner had read the same records at other sampling rates."""
    state, other = State(watching(WHOLE)), State(watching(WHOLE))
    other.receive(turn(), 110.0)
    other.tick(175.0)
    state.receive(turn(), 110.0)
    state.tick(111.0)
    record = snapshot_of(other)
    assert state.windows.validate_snapshots([record]) == {}


def close_and_retry(state: State) -> None:
    """A conversation closes, and the request that its failed evaluation is made again comes."""
    state.receive(turn(), 110.0)
    (job,) = state.tick(175.0)
    failed = Evaluation(
        evaluation_id=job.evaluation_id, evaluator="solved", evaluator_version=SOLVED.version, scope="conversation",
        monitor="m", subject=Subject(conversation_id="c"), outcome="failed", error=ErrorDetail(type="e", message=""),
        started_at=at(176.0), ended_at=at(176.0),
    )  # fmt: skip
    request = RetryRequest(failed, Conversation(conversation_id="c", turns=(turn(),))).to_record(0)
    record = StoredRecord(0, state.next_offset, 177.0, request.key, request.value, request.headers)
    (again,) = asyncio.run(state.apply(record))
    assert again.evaluation_id == retry_id(job.evaluation_id)


def snapshot_of(state: State) -> StoredRecord:
    ((key, windows),) = state.sessions_by_monitor["m"].needing_snapshot(state.next_offset, state.time, 1)
    written = snapshot_record("m", key, windows, state.next_offset, 0)
    return StoredRecord(0, state.next_offset, 178.0, written.key, written.value, SNAPSHOT_HEADERS)


def test_what_was_made_again_is_superseded_after_a_restart_that_begins_behind_its_request() -> None:
    """Else both count: the new revision supersedes the failed evaluation alone, and not the one in its place."""
    state = State(watching(WHOLE))
    close_and_retry(state)
    record = snapshot_of(state)
    assert state.windows.validate_snapshots([record]) == {record.offset: True}
    valid = ControlRecord(offset=record.offset, snapshot_validity={record.offset: True})
    state.apply_control(valid)
    restarted = State(watching(WHOLE), start=ReplayPoint(record.offset, state.time), controls=(valid,))
    for each in (state, restarted):
        asyncio.run(each.apply(record))
    late = [(each.receive(turn(2), 180.0), each.tick(500.0))[1] for each in (state, restarted)]
    assert [[job.supersedes for job in jobs] for jobs in late] == [[job.supersedes for job in late[0]]] * 2
    (job,) = late[1]
    assert job.supersedes == (failed := job.supersedes[0], retry_id(failed))


def test_a_snapshot_from_before_a_retry_is_not_valid() -> None:
    before, state = State(watching(WHOLE)), State(watching(WHOLE))
    close_and_retry(state)
    before.receive(turn(), 110.0)
    before.tick(175.0)
    record = replace(snapshot_of(before), offset=state.next_offset)
    assert state.windows.validate_snapshots([record]) == {}, (
        "not valid, which is what is taken of one that nobody decided"
    )


def test_evaluators_without_a_judge_are_not_in_need_of_one() -> None:
    state = State(watching(Assignment(ExactMatch(name="exact"), NoJudge(), "v")))
    (job,) = state.receive(turn(), 110.0)
    assert job.judge_name == ""


def test_fallback_judges_are_those_in_force_when_a_conversation_closes() -> None:
    both = watching(WHOLE, budget=Budget(usd_per_hour=1.0))
    state = State(both, controls=(ControlRecord(offset=6, rates=Rates({"m": RateReduction(1.0, fallback=True)})),))
    state.receive(turn(), 110.0)
    (job,) = state.tick(500.0)
    assert (job.fallback, job.judge.model) == (True, "cheap")


@pytest.mark.parametrize(("rate", "jobs"), [(DRAW, 0), (DRAW + 1e-9, 2)])
def test_what_is_drawn_below_the_rate_is_judged_and_what_is_drawn_at_it_is_not(rate: float, jobs: int) -> None:
    boosted = watching(TURNS, WHOLE, rate=rate, strata=Strata((Boost("error", 4.0, failed),)))
    for monitor in (boosted, replace(boosted, strata=Strata())):
        state = State(monitor)
        made = state.receive(turn(conversation_id=DRAWN), 110.0, DRAWN.encode())
        assert len(made) + len(state.tick(500.0)) == jobs


def test_runs_of_agents_are_judged_by_the_monitors_that_watch_them_alone() -> None:
    turns, runs = watching(TURNS, WHOLE), watching(TURNS, name="agents", agent_runs=True)
    state = State(turns, runs)
    [of_turn] = state.receive(turn(1), 200.0)
    [of_run] = state.receive(turn(2, agent_run_of="t1"), 201.0)
    assert [(job.monitor.name, job.case().turn_id) for job in (of_turn, of_run)] == [("m", "t1"), ("agents", "t2")]
    assert state.counts.turns == {("m", "sampled"): 1, ("agents", "sampled"): 1}
    [closed] = [job for job in state.tick(400.0) if job.assignment is WHOLE]
    assert [each.turn_id for each in closed.case().turns] == ["t1"]  # a run is no turn of its conversation


def test_a_turn_and_its_runs_are_drawn_together_at_the_same_rate() -> None:
    for rate, both in ((DRAW + 0.001, True), (DRAW - 0.001, False)):
        state = State(watching(TURNS, rate=rate), watching(TURNS, name="agents", agent_runs=True, rate=rate))
        jobs = state.receive(turn(1, conversation_id=DRAWN), 200.0, DRAWN.encode())
        jobs += state.receive(turn(2, conversation_id=DRAWN, agent_run_of="t1"), 201.0, DRAWN.encode())
        assert [job.sampling.probability for job in jobs] == ([pytest.approx(rate)] * 2 if both else [])
        assert set(state.counts.turns) == {(name, "sampled" if both else "sampled_out") for name in ("m", "agents")}


def test_a_copy_of_a_turn_behind_a_switch_may_have_been_judged_by_the_version_before() -> None:
    """`assemble` was killed before its commit and appends the turn again, and the configuration changed in between."""
    before, now = Assignment(GOOD, Named("dear"), "old"), Assignment(GOOD, Named("dear"), "new")
    old, new = Plan((watching(before),)), Plan((watching(now),))
    [first] = State(watching(before)).receive(turn(1), 110.0)
    [again] = State(watching(now)).receive(turn(1), 130.0)
    assert first.evaluation_id != again.evaluation_id
    configurations = Configurations(switches=[(0, 1), (4, 2)], plan=new, number=2, others=[old])
    assert [made.evaluation_id for made in configurations.by_others(again)] == [first.evaluation_id]
    assert configurations.by_others(replace(again, happened_at=at(100.0))) == ()
    later = replace(configurations, switches=[(0, 1), (again.trigger_offset + 1, 2)])
    asked = later.by_others(replace(again, happened_at=at(100.0)))
    assert [made.evaluation_id for made in asked] == [first.evaluation_id], "asked for before the switch"
