"""With `keep: wanted` everything comes to the same: populations, weights, ids, cases of what is judged, and counters.

The captured payloads of all dialects, in many conversations, through both stages in either way: cut up, late, again,
with restarts in between, under rates that a budget lowers. Unwanted turns share records of the turns log.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from made_up import Trace, chat
from test_deliveries import Request, apart
from truth import PAYLOADS, UNMET

from collector.assemble.fold import AssembleFold
from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.assemble.turn_notes import TurnNotes
from collector.dialects.registry import Dialects
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.otlp.decode import read_request, split_by_trace
from collector.receive.parsed_request import parse
from collector.records.json import turn_from_json
from collector.records.noted_turns import has_note
from collector.records.shared_records import divide_records, is_shared
from collector.records.tenants import tenant_in_key, trace_key
from collector.redact.open_redactor import RedactSettings, open_redactor
from collector.redact.redactor import Redactor
from collector.service.assembly_builder import can_be_wanted
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.conversation.completeness import Completeness
from evaluators.evaluation import evaluate
from evaluators.judge import NoJudge
from evaluators.results import Skipped
from evaluators.turn.exact_match import ExactMatch
from evaluators.turn.g_eval import GEval

ASSEMBLER = Assembler(Dialects.installed())
LIMITS = TraceLimits(quiet=5.0, linger=40.0)
CONVERSATION = b"sess-larkspur-7341"
CONVERSATIONS = (CONVERSATION, b"chat-skerry-5518")
WINDOWS = SessionWindowSettings(idle_gap=60.0, allowed_lateness=30.0)


def assignment(evaluator: Any, **more: Any) -> Assignment:
    return Assignment(evaluator, NoJudge(), evaluator.version, **more)


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
PLAN = Plan(
    (
        Monitor("turns", (assignment(GOOD), assignment(ExactMatch(name="same"), rate=0.1, salt="another")), {}, 0.2),
        Monitor("limited", (assignment(GOOD),), {}, 0.3, budget=Budget(usd_per_hour=1.0)),
        Monitor("talks", (assignment(Completeness(name="solved")),), {}, 0.15, window_settings=WINDOWS),
    )
)


def captured() -> Iterator[Request]:
    """The requests of every payload, also of those that are not read right yet; each folder's traces are its own."""
    for folder in [*sorted(PAYLOADS.iterdir()), *sorted(UNMET.iterdir())]:
        for path in sorted(folder.iterdir()):
            if path.suffix == ".pb":
                yield Request("logs" if "logs" in path.name else "traces", path.read_bytes())
            elif path.name != "expected.json":
                body = path.read_bytes()
                yield Request("logs" if b"resourceLogs" in body else "traces", body)


@cache
def traces() -> tuple[tuple[tuple[Request, ...], str], ...]:
    """The captured traces: their requests, and their ids."""
    found: dict[str, list[Request]] = {}
    for request in captured():
        for trace_id, piece in split_by_trace(read_request(request.body, request.signal)).pieces:
            found.setdefault(trace_id, []).append(Request(request.signal, piece))
    return tuple((tuple(requests), trace_id) for trace_id, requests in found.items())


@cache
def plain_traces() -> tuple[tuple[tuple[Request, ...], str], ...]:
    """Traces of plain calls, which receivers note: whole, in parts, with calls beside, feedback and what comes later."""
    ids = {"gen_ai.conversation.id": CONVERSATION.decode()}
    call = chat("Are you open?", "Yes, until ten.", **ids)
    other = chat("And on Sunday?", "No, on Sunday we rest.", **ids)
    step = chat("Is there a table?", None, **ids)
    step["gen_ai.output.messages"] = TOOL_CALL
    final = chat("Is there a table?", "There is one at eight.", **ids)
    indexed = {
        "openinference.span.kind": "LLM",
        "session.id": CONVERSATION.decode(),
        "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Are you open?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Yes, until ten.",
    }
    scored = {"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 1}
    made: list[list[Trace]] = [
        [Trace().span(1, "POST /chat", took=5.0).span(2, "chat", call, parent=1)],
        [Trace().span(1, "chat", call)],
        [Trace().span(1, "POST /chat", ids, took=5.0).span(2, "chat", indexed, parent=1)],
        [Trace().span(2, "chat", other, parent=1), Trace().span(1, "POST", took=9.0).span(3, "chat", call, parent=1)],
        [Trace().span(2, "chat", step, parent=1), Trace().span(1, "POST", took=9.0).span(3, "chat", final, parent=1)],
        [Trace().span(1, "chat", call), Trace().span(2, "POST https://models", {"http.route": "/"}, parent=1)],
        [Trace().span(1, "POST", took=5.0).span(2, "chat", call, parent=1).record(2, "gen_ai.evaluation.result", None, scored)],
        [Trace().span(1, "POST", took=5.0).span(2, "chat", call, parent=1).record(2, "basket_left")],
        [Trace().span(1, "chat", call, took=5.0), Trace().span(2, "chat", call, parent=1)],
    ]  # fmt: skip
    return tuple(
        (tuple(Request(piece.signal, piece.value) for part in parts_ for piece in part.pieces()), "5f" * 16)
        for parts_ in made
    )


TOOL_CALL = json.dumps(
    [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c-1", "name": "find_table", "arguments": {}}]}]
)


@dataclass(frozen=True)
class Traffic:
    """Records of the spans log, and before which of them the stage starts again."""

    records: tuple[StoredRecord, ...]
    restarts: frozenset[int]


def traffic(seed: int, number: int, plain: float = 0.0) -> Traffic:
    chance = random.Random(seed)
    arrivals: list[tuple[float, Request, bytes]] = []
    for _ in range(number):
        requests, trace_id = chance.choice(plain_traces() if chance.random() < plain else traces())
        own, start = chance.randbytes(16), chance.uniform(0.0, 60.0)
        talk = chance.randrange(1000, 1000 + number // 2)
        key = trace_key(own.hex(), chance.choice(("", "", "shop")))
        pieces = [one for each in requests for one in (apart(each) if chance.random() < 0.5 else [each])]
        for each in pieces + (pieces if chance.random() < 0.2 else []):
            late = chance.choice((0.0, 0.0, 0.0, 0.0, 10.0, 30.0, 70.0))
            body = each.body.replace(bytes.fromhex(trace_id), own)
            for name in CONVERSATIONS:
                body = body.replace(name, name[:-4] + b"%d" % talk)
            arrivals.append((start + late + chance.random(), Request(each.signal, body), key))
    arrivals.sort(key=lambda each: each[0])
    records: list[StoredRecord] = []
    for time, request, key in arrivals:
        if records and time > records[-1].timestamp + 1.0:
            records.append(StoredRecord(0, len(records), time, None, b"", TICK))
        headers = (("signal", request.signal.encode()),)
        records.append(StoredRecord(0, len(records), time, key, request.body, headers))
    records += [StoredRecord(0, len(records) + each, 200.0 + 50 * each, None, b"", TICK) for each in range(4)]
    return Traffic(tuple(records), frozenset(chance.sample(range(len(records)), chance.randrange(4))))


@dataclass(frozen=True)
class Assembled:
    turns: tuple[StoredRecord, ...]
    spans: Counter[str]
    by_dialect: Counter[str]


async def assembled(given: Traffic, is_key_wanted: Callable[[str], bool] | None) -> Assembled:
    turns, telemetry = MemoryLog("turns", partitions=1), Telemetry()
    router = TurnRouter(turns, wants_key=is_key_wanted)
    stage = AssembleStage(ASSEMBLER, router, LIMITS, telemetry=telemetry, on_bad_record=_refuse)
    rest, done = given.records, 0
    low: int | None = 0
    for stop in [*sorted(given.restarts), len(rest)]:
        async with stage.open_fold(0, None) as fold:
            await fold.replay(rest[done if low is None else low : done])
            low = await _deliver(fold, rest[done:stop])
        done = stop
    records = [each async for batch in turns.read(0, 0) for each in batch]
    counts = telemetry.registry.collect()
    samples = [sample for family in counts for sample in family.samples]
    spans: Counter[str] = Counter()
    dialects: Counter[str] = Counter()
    for each in samples:
        if each.name == "evalstream_spans_read_total":
            spans[each.labels["dialect"]] += int(each.value)
        if each.name == "evalstream_turns_assembled_total":
            dialects[each.labels["dialect"]] += int(each.value)
    return Assembled(tuple(records), spans, dialects)


def _refuse(_record: StoredRecord, error: Exception) -> None:
    raise error


def through_receiver(
    given: Traffic, redactor: Redactor | None = None, wanted: Callable[[str], bool] | None = None
) -> Traffic:
    """The traffic as a receiver stores it that notes the turns that nobody can want."""
    notes = TurnNotes(ASSEMBLER, wanted or is_wanted)
    records: list[StoredRecord] = []
    for each in given.records:
        if each.is_tick:
            records.append(each)
            continue
        signal = dict(each.headers)["signal"].decode()
        tenant = tenant_in_key((each.key or b"").decode())
        parsed = parse(each.value, signal, "protobuf", tenant=tenant, notes=notes, redactor=redactor)
        [stored] = parsed.records
        assert stored.key == each.key
        assert parsed.noted == has_note(stored.value)
        assert stored.headers == each.headers
        records.append(replace(each, value=stored.value))
    return Traffic(tuple(records), given.restarts)


async def _deliver(fold: AssembleFold, records: Sequence[StoredRecord]) -> int | None:
    for first in range(0, len(records), 16):
        await fold.deliver(records[first : first + 16])
    return fold.low_watermark


class _Counts(OutcomeCounter):
    """Everything that is counted. A turn that comes again is taken for another one.

    Without content its id is that of its span, so of a trace that is assembled again in parts, only one of both logs
    may have the turn twice.
    """

    def __init__(self) -> None:
        self.all: Counter[tuple[str, ...]] = Counter()

    def count_turn(self, monitor: str, outcome: str, number: int = 1) -> None:
        self.all["turn", monitor, "sampled_out" if outcome == "duplicate" else outcome] += number

    def count_evaluation(self, monitor: str, evaluator: str, outcome: str, reason: str = "", number: int = 1) -> None:
        self.all["evaluation", monitor, evaluator, "sampled_out" if outcome == "duplicate" else outcome, reason] += (
            number
        )

    def count_closed(self, monitor: str, by: str, missing: int) -> None:
        self.all["closed", monitor, by, str(missing)] += 1

    def count_ignored_upstream(self, monitor: str) -> None:
        self.all["ignored upstream", monitor] += 1

    def count_idle(self, monitor: str, number: int) -> None:
        self.all["idle", monitor] += number


@dataclass(frozen=True)
class Evaluated:
    """What is judged, by its id: of what, and with which weight. Demands are those by which budgets decide."""

    jobs: dict[str, tuple[Any, ...]]
    counts: Counter[tuple[str, ...]]
    demands: dict[tuple[str, str], float]


async def evaluated(turns: Sequence[StoredRecord], changes: Sequence[int], plan: Plan = PLAN) -> Evaluated:
    """What is judged where the rates change at these offsets."""
    controls = [
        ControlRecord(offset=offset, rates=Rates({"limited": RateReduction(factor)}))
        for offset, factor in zip(changes, (1.0, 0.3, 0.7), strict=True)
    ]
    state = PartitionState(plan, ReplayPoint(0, 0.0), controls)
    counts, jobs = _Counts(), list[Job]()
    state.outcomes = counts
    demands: dict[tuple[str, str], float] = {}

    def demand(monitor: Monitor, each: Assignment, units: float) -> None:
        demands[monitor.name, each.evaluator.name] = demands.get((monitor.name, each.evaluator.name), 0.0) + units

    state.report_demand = demand
    state.on_bad_record = _refuse
    for record in turns:
        jobs += await state.apply(record)
    for number, time in enumerate((2e9, 2.1e9)):
        jobs += await state.apply(StoredRecord(0, len(turns) + number, time, None, b"", TICK))
    made = {
        f"{each.monitor.name} {each.evaluation_id}": (each.case(), each.sampling, each.supersedes, each.fallback)
        for each in jobs
    }
    return Evaluated(made, counts.all, demands)


def is_wanted(key: str) -> bool:
    return can_be_wanted(key, PLAN)


def changes_in(turns: Sequence[StoredRecord]) -> tuple[list[int], list[int]]:
    """Where rates change in a log: offsets of its records, and how many turns lie before each."""
    before = [0, *accumulate(len(divide_records([each])) for each in turns)]
    offsets = [next((each for each, number in enumerate(before) if number >= turn), len(turns)) for turn in (0, 40, 80)]
    return offsets, [before[each] for each in offsets]


def in_records_of_their_own(turns: Sequence[StoredRecord]) -> list[StoredRecord]:
    divided = divide_records(turns)
    return [replace(each, offset=number, piece=0) for number, each in enumerate(divided)]


@pytest.mark.parametrize("seed", range(6))
async def test_both_ways_over_the_same_traffic(seed: int) -> None:
    given_traffic = traffic(seed, 150)
    whole, wanted = await assembled(given_traffic, None), await assembled(given_traffic, is_wanted)
    assert wanted.spans == whole.spans
    assert wanted.by_dialect == whole.by_dialect
    alone = in_records_of_their_own(wanted.turns)
    assert len(wanted.turns) < 0.9 * len(alone)
    assert [each.key for each in alone] == [each.key for each in whole.turns]
    unwanted = [turn_from_json(each.value) for each in alone if b'"incomplete":"unwanted"' in each.value]
    assert len(unwanted) > 0.3 * len(whole.turns)
    assert all(each.input is None and each.actual_output is None and each.history == () for each in unwanted)
    assert sum(len(each.value) for each in wanted.turns) < 0.8 * sum(len(each.value) for each in whole.turns)
    offsets, numbers = changes_in(wanted.turns)
    expected = await evaluated(whole.turns, numbers)
    assert await evaluated(wanted.turns, offsets) == expected
    assert len(expected.jobs) > 20
    assert expected.counts["idle", "talks"] > 20
    assert expected.counts["turn", "turns", "sampled_out"] > 50


@pytest.mark.parametrize("redacts", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize("seed", range(6))
async def test_receivers_that_note_turns_change_nothing(seed: int, redacts: bool) -> None:
    """Also no turn's id, time or order: the log of turns is the same, record by record."""
    redactor = open_redactor(RedactSettings(), lambda *_: None, lambda: None) if redacts else None
    given_traffic = traffic(seed, 150, plain=0.5)
    received = through_receiver(given_traffic, redactor)
    without_notes = through_receiver(given_traffic, redactor, wanted=lambda _key: True)
    whole, noted = await assembled(without_notes, None), await assembled(received, is_wanted)
    at_a_glance = await assembled(without_notes, is_wanted)
    assert (noted.spans, noted.by_dialect) == (whole.spans, whole.by_dialect)
    assert [each.key for each in divide_records(noted.turns)] == [each.key for each in whole.turns]
    assert [replace(each, timestamp=0.0) for each in noted.turns] == [
        replace(each, timestamp=0.0) for each in at_a_glance.turns
    ]
    offsets, numbers = changes_in(noted.turns)
    assert await evaluated(noted.turns, offsets) == await evaluated(whole.turns, numbers)
    assert sum(has_note(each.value) for each in received.records) > 20


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), number=st.integers(2, 12))
def test_any_traffic(seed: int, number: int) -> None:
    async def compare() -> None:
        given_traffic = traffic(seed, number, plain=0.5)
        whole, wanted = await assembled(given_traffic, None), await assembled(given_traffic, is_wanted)
        assert (wanted.spans, wanted.by_dialect) == (whole.spans, whole.by_dialect)
        offsets, numbers = changes_in(wanted.turns)
        assert await evaluated(wanted.turns, offsets) == await evaluated(whole.turns, numbers)
        noted = await assembled(through_receiver(given_traffic), is_wanted)
        assert (noted.spans, noted.by_dialect) == (whole.spans, whole.by_dialect)
        assert [(each.key, each.value) for each in noted.turns] == [(each.key, each.value) for each in wanted.turns]

    asyncio.run(compare())


RAISED = Plan(
    (
        Monitor("turns", (assignment(GOOD),), {}, 0.6),
        Monitor("limited", (assignment(GOOD),), {}, 0.8, budget=Budget(usd_per_hour=1.0)),
        Monitor("talks", (assignment(Completeness(name="solved")),), {}, 0.7, window_settings=WINDOWS),
    )
)


async def test_after_a_rate_is_raised_what_has_no_content_is_skipped_and_nothing_of_it_is_scored() -> None:
    turns = (await assembled(traffic(1, 150), is_wanted)).turns
    state, outcomes = PartitionState(RAISED, ReplayPoint(0, 0.0)), Counter[str]()
    for record in turns:
        for job in await state.apply(record):
            case = job.case()
            if not isinstance(case, Turn):
                continue
            unwanted = case.incomplete == "unwanted"
            result = await evaluate(job.assignment.evaluator, case, NoJudge(), now=lambda: datetime.now(UTC))
            if unwanted:
                assert isinstance(result.outcome, Skipped)
                assert result.outcome.reason == "incomplete: unwanted"
            outcomes["unwanted" if unwanted else "whole"] += 1
    assert min(outcomes["unwanted"], outcomes["whole"]) > 10


@pytest.mark.parametrize("seed", range(3))
async def test_turns_that_share_a_record_are_evaluated_as_those_that_do_not(seed: int) -> None:
    """Also where a rate was raised, so that what shares a record is in windows, and due."""
    turns = (await assembled(traffic(seed, 150), is_wanted)).turns
    assert sum(map(is_shared, turns)) > 10
    offsets, numbers = changes_in(turns)
    shared = await evaluated(turns, offsets, RAISED)
    assert shared == await evaluated(in_records_of_their_own(turns), numbers, RAISED)
    assert len(shared.jobs) > 60


@pytest.mark.parametrize("seed", range(3))
async def test_a_replay_from_any_record_makes_the_same_of_what_begins_there(seed: int) -> None:
    """From the low watermark of a record on, whose windows may begin in the middle of one that is shared."""
    turns = (await assembled(traffic(seed, 150), is_wanted)).turns
    whole = PartitionState(RAISED, ReplayPoint(0, 0.0))
    points, made = list[ReplayPoint](), list[dict[str, Any]]()
    ticks = [StoredRecord(0, len(turns) + each, 2e9 + 1e8 * each, None, b"", TICK) for each in range(2)]
    for record in (*turns, *ticks):
        made.append({each.evaluation_id: each.case() for each in await whole.apply(record)})
        low = [each.low_watermark for each in whole.sessions_by_monitor.values() if each.low_watermark is not None]
        points.append(min(low, default=whole.replay_point, key=lambda each: each.offset))
    for delivered in range(0, len(turns), 7):
        start = points[delivered]
        again = PartitionState(RAISED, start)
        for record in (*turns, *ticks)[start.offset :]:
            jobs = {each.evaluation_id: each.case() for each in await again.apply(record)}
            if record.offset > delivered:
                assert jobs == made[record.offset]
