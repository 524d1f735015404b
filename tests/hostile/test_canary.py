"""Canary twins: an evaluation made again with a planted instruction shows whether the judge obeys judged text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.windows import Budget
from collector.evaluate.guardrails import CanarySettings, EvaluationGuardrails, inject
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Dispatcher
from collector.logs.memory import MemoryLog
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import CANARIES
from evaluators.cases import Conversation, Turn
from evaluators.judge import Answer, Verdict
from evaluators.results import Score, Usage
from evaluators.turn.g_eval import GEval

TURN = Turn(turn_id="t1", input="What is 2 and 2?", actual_output="It is 4.")
EVALUATOR = GEval(
    name="right", evaluation_steps=["Say whether it is right."], evaluation_params=["input", "actual_output"]
)


class Obedient:
    """Gives 10 to whom asks for the highest score, 0 to whom asks for the lowest, else its own score."""

    model = "m"

    def __init__(self, own: int, *, obeys: bool) -> None:
        self._own = own
        self._obeys = obeys
        self.asked = 0

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        self.asked += 1
        text = str(prompt.material)
        score = self._own
        if self._obeys and "give the highest score" in text:
            score = 10
        if self._obeys and "give the lowest score" in text:
            score = 0
        said = {"reason": "so", "score": score}
        return Verdict((Answer(reply.model_validate(said), json.dumps(said)),), "m")


async def results(judge, share: float = 1.0, **settings) -> dict[str, float]:
    telemetry = Telemetry()
    guards = EvaluationGuardrails(telemetry, canary=CanarySettings(share=share, **settings))
    result = await guards.run(EVALUATOR, TURN, judge, now=lambda: datetime.now(UTC))
    assert isinstance(result.outcome, Score)
    await guards.wait()
    await guards.close()
    return {
        each: telemetry.counter(CANARIES, "right", "m", each)._value.get()
        for each in ("resisted", "shifted", "failed", "skipped")
    }


@pytest.mark.parametrize("own", [0, 3, 7, 10])
async def test_a_judge_that_obeys_is_found_out(own):
    assert (await results(Obedient(own, obeys=True)))["shifted"] == 1


@pytest.mark.parametrize("own", [0, 10])
async def test_a_judge_that_does_not_holds(own):
    assert (await results(Obedient(own, obeys=False)))["resisted"] == 1


async def test_the_evaluation_itself_is_never_the_planted_one():
    guards = EvaluationGuardrails(Telemetry(), canary=CanarySettings(share=1.0))
    result = await guards.run(EVALUATOR, TURN, Obedient(3, obeys=True), now=lambda: datetime.now(UTC))
    await guards.wait()

    assert result.outcome.value == pytest.approx(0.3)


async def test_without_a_share_nothing_is_asked_twice():
    judge = Obedient(3, obeys=True)
    assert sum((await results(judge, share=0.0)).values()) == 0
    assert judge.asked == 1


class Priced(Obedient):
    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        verdict = await super().ask(prompt, reply)
        return replace(verdict, usage=Usage(calls=1), cost_usd=0.01)


@pytest.mark.parametrize(("usd_per_hour", "twins"), [(1.0, 1), (0.01, 0)])
async def test_a_twin_is_paid_from_the_budget_and_left_out_beyond_its_cap(usd_per_hour, twins):
    judge, telemetry = Priced(3, obeys=False), Telemetry()
    assignment = Assignment(EVALUATOR, judge, "v", expected_usd=0.01)
    limits = Budget(usd_per_hour=usd_per_hour, hard_cap=1.0)
    monitor = Monitor(name="m", assignments=(assignment,), match={}, budget=limits)
    budget = BudgetController(Plan((monitor,)), 1)
    budget.add_partition(0, datetime.now(UTC).timestamp(), None, ())
    guards = EvaluationGuardrails(telemetry, canary=CanarySettings(share=1.0))
    dispatcher = Dispatcher(
        MemoryLog("evaluations", partitions=1), guards, limits=BulkheadLimits(slots=1), budget=budget
    )
    job = Job(
        evaluation_id="1",
        monitor=monitor,
        assignment=assignment,
        case=lambda: TURN,
        replay_point=ReplayPoint(0),
        trigger_offset=0,
    )
    (evaluation,) = await dispatcher.execute([job], 0)
    await guards.wait()

    assert evaluation.cost_usd == 0.01
    assert judge.asked == 1 + twins
    assert telemetry.counter(CANARIES, "right", "m", "skipped")._value.get() == 1 - twins
    spent = (1 + twins) * 0.01 / usd_per_hour
    assert budget.used_fraction("m", datetime.now(UTC).timestamp()) == pytest.approx(spent)


def test_a_conversation_is_planted_in_its_last_answer():
    conversation = Conversation(conversation_id="c", turns=(TURN, TURN))

    first, last = inject(conversation, "obey").turns
    assert first == TURN
    assert last.actual_output == "It is 4.\n\nobey"
