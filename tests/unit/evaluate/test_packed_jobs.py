"""Evaluations of a pack in the service: one slot, one request, one append; all records after a crash, or none."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from test_stage import Bench, turn

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.logs.log import LogUnavailable, Record
from collector.logs.memory import MemoryLog
from collector.redact.open_redactor import RedactSettings, open_redactors
from collector.redact.redactor import redact_case
from collector.telemetry.registry import Telemetry
from evaluators import GEval
from evaluators.cases import Attachment, Turn
from evaluators.evaluation import utc_now
from evaluators.judge import Judge
from evaluators.packs.evaluate_pack import packed_version
from evaluators.results import Evaluation, Score
from evaluators.testing import ScriptedJudge, answer_any_form

NAMES = ("a", "b", "c")


def g_eval(name: str) -> GEval:
    return GEval(name=name, evaluation_steps=("x",), evaluation_params=("input", "actual_output"))


def packed(judge: Any, **changes: Any) -> Monitor:
    evaluators = [g_eval(name) for name in NAMES]
    assignments = tuple(
        Assignment(
            each, judge, packed_version(each, judge.model, evaluators), judge_name="j", pack=NAMES, expected_usd=0.01
        )
        for each in evaluators
    )
    values: dict[str, Any] = {"name": "all", "match": {}, "window_settings": SessionWindowSettings(idle_gap=0.05)}
    return Monitor(assignments=assignments, **(values | changes))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def appends_of(log: MemoryLog) -> list[int]:
    """How many evaluations each append brings, noted from now on."""
    sizes: list[int] = []
    append = log.append

    async def noting(records: Sequence[Record]) -> None:
        if any(each.key for each in records):
            sizes.append(len(records))
        await append(records)

    log.append = noting  # type: ignore[method-assign]
    return sizes


async def test_one_request_and_one_append_for_every_turn(bench: Bench) -> None:
    judge = ScriptedJudge(answer_any_form(), cost_usd=0.03)
    sizes = appends_of(bench.evaluations)
    await bench.put(turn(1), turn(2))
    async with bench.running(packed(judge)):
        ledger = await bench.until(6)
    assert [len(each.prompt.questions) for each in judge.questions] == [3, 3]  # type: ignore[attr-defined]
    assert sizes == [3, 3]
    assert Counter(each.evaluator for each in ledger) == dict.fromkeys(NAMES, 2)
    assert all(each.outcome == "scored" for each in ledger)
    assert math.fsum(each.cost_usd or 0.0 for each in ledger) == pytest.approx(0.06)
    assert sum(each.usage.calls for each in ledger if each.usage) == 2
    assert {each.evaluator_version for each in ledger} == {each.version for each in packed(judge).assignments}


async def test_what_is_sampled_apart_is_a_smaller_pack(bench: Bench) -> None:
    judge = ScriptedJudge(answer_any_form())
    whole = packed(judge)
    some = replace(whole, assignments=(*whole.assignments[:2], replace(whole.assignments[2], rate=1e-9)))
    await bench.put(turn(1))
    async with bench.running(some):
        ledger = await bench.until(2)
    assert [len(each.prompt.questions) for each in judge.questions] == [2]  # type: ignore[attr-defined]
    assert Counter(each.evaluator for each in ledger) == {"a": 1, "b": 1}


async def test_killed_between_answer_and_ledger_all_are_asked_again_and_written_once(bench: Bench) -> None:
    judge = ScriptedJudge(answer_any_form())
    await bench.put(turn(1))
    written = asyncio.Event()
    append = bench.evaluations.append

    async def hanging(records: Sequence[Record]) -> None:
        if any(each.key for each in records):
            written.set()
            await asyncio.Event().wait()
        await append(records)

    bench.evaluations.append = hanging  # type: ignore[method-assign]
    async with bench.running(packed(judge)):
        await asyncio.wait_for(written.wait(), 30)
    assert await bench.ledger() == []
    bench.evaluations.append = append  # type: ignore[method-assign]
    async with bench.running(packed(judge)):
        ledger = await bench.until(3)
    assert Counter(each.evaluator for each in ledger) == dict.fromkeys(NAMES, 1)
    assert len(judge.questions) == 2


@pytest.mark.parametrize("arrived", [0, 1, 2, 3])
async def test_an_append_that_nobody_acknowledged_is_completed(bench: Bench, arrived: int) -> None:
    """What reached the log of an append that failed is not written twice."""
    judge = ScriptedJudge(answer_any_form())
    append = bench.evaluations.append
    failures = iter([True])

    async def unacknowledged(records: Sequence[Record]) -> None:
        if any(each.key for each in records) and next(failures, False):
            await append(records[:arrived])
            raise LogUnavailable("no acknowledgement")
        await append(records)

    bench.evaluations.append = unacknowledged  # type: ignore[method-assign]
    await bench.put(turn(1))
    async with bench.running(packed(judge)):
        ledger = await bench.until(3)
        await asyncio.sleep(0.05)
        ledger = await bench.ledger()
    assert Counter(each.evaluator for each in ledger) == dict.fromkeys(NAMES, 1)
    assert len(judge.questions) == 1


async def test_of_a_known_evaluation_the_others_make_the_pack(bench: Bench) -> None:
    judge = ScriptedJudge(answer_any_form())
    whole = packed(judge)
    await bench.put(turn(1))
    async with bench.running(replace(whole, assignments=whole.assignments[:1])):
        await bench.until(1)
    again = Bench()
    again.evaluations = bench.evaluations
    await again.put(turn(1))
    async with again.running(whole):
        ledger = await again.until(3)
    assert Counter(each.evaluator for each in ledger) == dict.fromkeys(NAMES, 1)
    assert [len(each.prompt.questions) for each in judge.questions] == [1, 2]  # type: ignore[attr-defined]


def jobs_of(monitor: Monitor) -> list[Job]:
    case = turn(1)
    return [
        Job(
            evaluation_id=each.evaluator.name,
            monitor=monitor,
            assignment=each,
            case=lambda: case,
            replay_point=ReplayPoint(0),
            trigger_offset=0,
            triggered_at=1.0,
            subject=(case.turn_id, "1"),
        )
        for each in monitor.assignments
    ]


@pytest.mark.parametrize(
    ("usd", "questions", "reasons"),
    [
        (1.0, [3], [None, None, None]),
        (0.015, [2, 1], [None, None, None]),  # the guess of 0.01 admits two; when these cost less, the third follows
        (0.0, [], ["over_budget"] * 3),
    ],
)
async def test_a_budget_that_admits_some_of_a_pack(usd: float, questions: list[int], reasons: list[Any]) -> None:
    judge = ScriptedJudge(answer_any_form(), cost_usd=0.004)
    monitor = packed(judge, budget=Budget(usd_per_hour=usd, hard_cap=1.0))
    budget = BudgetController(Plan((monitor,)), 1)
    budget.add_partition(0, 0.0, None, ())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"),
        EvaluationGuardrails(Telemetry()),
        limits=BulkheadLimits(slots=1),
        budget=budget,
        clocks=Clocks(seconds=lambda: 1.0),
    )
    ended = await asyncio.wait_for(dispatcher.execute(jobs_of(monitor), 0), 30)
    assert [each.reason for each in ended] == reasons
    assert [len(each.prompt.questions) for each in judge.questions] == questions  # type: ignore[attr-defined]


async def test_a_pack_without_a_slot_is_shed() -> None:
    judge = ScriptedJudge(answer_any_form())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"),
        EvaluationGuardrails(Telemetry()),
        limits=BulkheadLimits(slots=1),
        clocks=Clocks(seconds=lambda: 1.0),
    )
    ended = await dispatcher.execute(jobs_of(packed(judge)), 0, has_slot=False)
    assert [each.reason for each in ended] == ["shed"] * 3
    assert judge.questions == []


async def ended_by(dispatcher: Dispatcher, jobs: list[Job]) -> list[Evaluation]:
    return await asyncio.wait_for(dispatcher.execute(jobs, 0), 30)


async def test_a_pack_redacts_its_turn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    redactions = 0

    def counting(case: Any, redactor: Any) -> Any:
        nonlocal redactions
        redactions += 1
        return redact_case(case, redactor)

    monkeypatch.setattr("collector.evaluate.guardrails.redact_case", counting)
    judge = ScriptedJudge(answer_any_form())
    guardrails = EvaluationGuardrails(Telemetry(), redactors=open_redactors(RedactSettings()))
    dispatcher = Dispatcher(
        MemoryLog("evaluations"), guardrails, limits=BulkheadLimits(slots=1), clocks=Clocks(seconds=lambda: 1.0)
    )
    case = replace(turn(1), input="I am ann@example.org.")
    ended = await ended_by(dispatcher, [replace(each, case=lambda: case) for each in jobs_of(packed(judge))])
    assert [each.outcome for each in ended] == ["scored"] * 3
    assert redactions == 1
    [question] = judge.questions
    assert "ann@example.org" not in str(question.prompt)
    assert "<EMAIL_1>" in str(question.prompt)


async def test_a_monitor_that_skips_what_its_judge_cannot_see_does_so_in_a_pack() -> None:
    judge = ScriptedJudge(answer_any_form())
    dispatcher = Dispatcher(
        MemoryLog("evaluations"),
        EvaluationGuardrails(Telemetry()),
        limits=BulkheadLimits(slots=1),
        clocks=Clocks(seconds=lambda: 1.0),
    )
    case = replace(turn(1), attachments=(Attachment(kind="image", place="input"),))
    jobs = [replace(each, case=lambda: case) for each in jobs_of(packed(judge, skip_unseen=True))]
    assert [each.reason for each in await ended_by(dispatcher, jobs)] == ["unseen_media: image"] * 3
    assert judge.questions == []


class Doubtful(GEval):
    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        return Score(
            value=1.0, explanation="?", details={"pack": "split_up", "quote": case.input, "unfounded_quotes": 2}
        )


async def test_without_texts_it_is_still_said_that_a_pack_was_split() -> None:
    guardrails = EvaluationGuardrails(Telemetry(), store_text=False)
    doubtful = Doubtful(name="d", evaluation_steps=("x",), evaluation_params=("input",))
    result = await guardrails.run(doubtful, turn(1), ScriptedJudge(""), now=utc_now)
    assert isinstance(result.outcome, Score)
    assert result.outcome.explanation is None
    assert result.outcome.details == {"pack": "split_up", "unfounded_quotes": 2}


def test_jobs_of_other_subjects_or_records_are_other_packs() -> None:
    first, second, _ = jobs_of(packed(ScriptedJudge("")))
    assert first.pack == second.pack
    assert replace(second, subject=("other", "1")).pack != first.pack
    assert replace(second, trigger_offset=1).pack != first.pack
    assert replace(second, fallback=True).pack != first.pack
    assert replace(second, skip="reference_missing").pack is None
