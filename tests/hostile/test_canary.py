"""Canary twins: an evaluation made again with a planted instruction shows whether the judge obeys judged text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from collector.evaluate.budget import Limits
from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.lanes import Room
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.purse import Purse
from collector.logs.memory import MemoryLog
from collector.safeguards import CanarySettings, Safeguards, planted
from collector.telemetry import CANARIES, Telemetry
from evaluators.cases import Conversation, Turn
from evaluators.judge import Answer, Verdict
from evaluators.outcome import Score, Usage
from evaluators.output.g_eval import GEval

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
    guards = Safeguards(telemetry, canary=CanarySettings(share=share, **settings))
    result = await guards.run(EVALUATOR, TURN, judge, now=lambda: datetime.now(UTC))
    assert isinstance(result.outcome, Score)
    await guards.settle()
    await guards.close()
    return {
        each: telemetry.counter(CANARIES, "right", "m", each)._value.get()
        for each in ("held", "shifted", "failed", "left_out")
    }


@pytest.mark.parametrize("own", [0, 3, 7, 10])
async def test_a_judge_that_obeys_is_found_out(own):
    assert (await results(Obedient(own, obeys=True)))["shifted"] == 1


@pytest.mark.parametrize("own", [0, 10])
async def test_a_judge_that_does_not_holds(own):
    assert (await results(Obedient(own, obeys=False)))["held"] == 1


async def test_the_evaluation_itself_is_never_the_planted_one():
    guards = Safeguards(Telemetry(), canary=CanarySettings(share=1.0))
    result = await guards.run(EVALUATOR, TURN, Obedient(3, obeys=True), now=lambda: datetime.now(UTC))
    await guards.settle()

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
    limits = Limits(usd_per_hour=usd_per_hour, hard_cap=1.0)
    monitor = Monitor(name="m", assignments=(assignment,), match={}, limits=limits)
    purse = Purse(Plan((monitor,)), 1)
    purse.open(0, datetime.now(UTC).timestamp(), None, ())
    guards = Safeguards(telemetry, canary=CanarySettings(share=1.0))
    dispatcher = Dispatcher(MemoryLog("evaluations", partitions=1), room=Room(places=1), purse=purse, run=guards.run)
    job = Job(evaluation_id="1", monitor=monitor, assignment=assignment, case=lambda: TURN, needs=Mark(0), emitted=0)
    evaluation = await dispatcher.perform(job, 0)
    await guards.settle()

    assert evaluation.cost_usd == 0.01
    assert judge.asked == 1 + twins
    assert telemetry.counter(CANARIES, "right", "m", "left_out")._value.get() == 1 - twins
    spent = (1 + twins) * 0.01 / usd_per_hour
    assert purse.used("m", datetime.now(UTC).timestamp()) == pytest.approx(spent)


def test_a_conversation_is_planted_in_its_last_answer():
    conversation = Conversation(conversation_id="c", turns=(TURN, TURN))

    first, last = planted(conversation, "obey").turns
    assert first == TURN
    assert last.actual_output == "It is 4.\n\nobey"
