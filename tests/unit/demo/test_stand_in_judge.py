"""The stand-in judge, asked through the judge port as the service asks it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Literal

import aiohttp
import pytest
from faulty_judge import Faults, FaultyJudge
from pydantic import BaseModel, Field
from stand_in_judge import FINGERPRINT, MODEL, closeness, serve_judge, spread_around

from collector.demo.application import TOPICS
from evaluators.answers.expected_score import score_distribution
from evaluators.cases import Turn
from evaluators.errors import JudgeReplyInvalid, JudgeUnavailable
from evaluators.judge import Prompt
from evaluators.judges.openai import OpenAIJudge
from evaluators.scale import Scale
from evaluators.turn.g_eval import GEval

TOPIC = TOPICS[0]
GOOD = {"input": TOPIC.question, "actual_output": TOPIC.good}
BAD = {"input": TOPIC.question, "actual_output": TOPIC.bad}


@asynccontextmanager
async def asked(**faults):
    async with (
        serve_judge(FaultyJudge(Faults(**faults))) as url,
        OpenAIJudge(MODEL, base_url=url, api_key="none", timeout=5.0, retries=0) as judge,
    ):
        yield judge


def prompt(material) -> Prompt:
    return Prompt("Rate the answer.", material)


@pytest.mark.parametrize("scale", [Scale(0, 10), Scale(1, 5), Scale(0, 1), Scale(0, 100), Scale(-3, 3)])
async def test_scores_lie_on_the_scale_and_tell_good_from_bad(scale: Scale):
    async with asked() as judge:
        good = (await judge.ask(prompt(GOOD), scale.reply)).reply.score
        bad = (await judge.ask(prompt(BAD), scale.reply)).reply.score
    assert scale.lowest <= bad < good <= scale.highest


@pytest.mark.parametrize("scale", [Scale(0, 10), Scale(1, 5), Scale(0, 1), Scale(0, 100)])
async def test_token_probabilities_are_such_as_are_trusted(scale: Scale):
    async with asked() as judge:
        verdict = await judge.ask(prompt(GOOD), scale.reply, logprobs=True)
    (answer,) = verdict.answers
    weighed = score_distribution(answer.text, answer.tokens, scale)
    assert weighed.kept_mass == pytest.approx(0.98, abs=0.001)
    assert scale.normalize(weighed.moments[0]) == pytest.approx(scale.normalize(answer.reply.score), abs=0.1)
    assert len(weighed.masses) > 1


async def test_says_that_it_is_no_model():
    async with asked() as judge:
        verdict = await judge.ask(prompt(GOOD), Scale(0, 10).reply)
    assert verdict.model == MODEL == "stand-in-judge (no model)"
    assert verdict.fingerprint == FINGERPRINT
    assert "Stand-in, no model" in verdict.reply.reason
    assert verdict.usage.input_tokens > 50
    async with serve_judge() as url, aiohttp.ClientSession() as session, session.get(f"{url}/models") as response:
        models = await response.json()
    assert [each["id"] for each in models["data"]] == [MODEL]
    assert "no model" in models["data"][0]["owned_by"]


async def test_equal_questions_get_equal_answers():
    async with asked() as judge:
        one = await judge.ask(prompt(GOOD), Scale(0, 100).reply, samples=5)
        two = await judge.ask(prompt(GOOD), Scale(0, 100).reply, samples=5)
    assert [each.reply for each in one.answers] == [each.reply for each in two.answers]
    assert len({each.reply.score for each in one.answers}) > 1


class Steps(BaseModel):
    steps: list[str] = Field(min_length=1)


class Ruling(BaseModel):
    index: int = Field(ge=1)
    statement: str
    verdict: Literal["yes", "no", "idk"]
    reason: str | None = None


class Rulings(BaseModel):
    verdicts: list[Ruling]
    overall: Literal["fail", "pass"]
    certain: bool
    share: float = Field(ge=0, le=1)


async def test_fills_in_whatever_form_is_asked_for():
    material = {"statements": ["Service takes two days.", "Elephants fly south."], "context": [TOPIC.page]}
    async with asked() as judge:
        assert len((await judge.ask(Prompt("Write steps."), Steps)).reply.steps) == 3
        rulings = (await judge.ask(prompt(material), Rulings)).reply
    assert [(each.index, each.verdict) for each in rulings.verdicts] == [(1, "yes"), (2, "no")]
    assert rulings.verdicts[1].statement == "Elephants fly south."


async def test_g_eval_runs_on_it():
    evaluator = GEval(
        name="answers_question",
        criteria="Does the actual output answer the question?",
        evaluation_params=["input", "actual_output"],
    )
    async with asked() as judge:
        scores = [
            (await evaluator.evaluate(Turn(turn_id="t", input=TOPIC.question, actual_output=text), judge)).value
            for text in (TOPIC.good, TOPIC.bad)
        ]
    assert scores[0] > 0.8
    assert scores[1] < 0.2


def test_a_conversation_is_as_close_as_its_turns():
    messages = [
        {"role": "user", "content": TOPIC.question},
        {"role": "assistant", "content": TOPIC.good},
        {"role": "user", "content": TOPIC.question},
        {"role": "assistant", "content": TOPIC.bad},
    ]
    halves = closeness({"turns": [GOOD, BAD]})
    assert closeness({"messages": messages}) == halves
    assert halves == pytest.approx((closeness(GOOD) + closeness(BAD)) / 2)


@pytest.mark.parametrize("material", [None, [], "text", {}, {"turns": []}, {"input": "a"}, {"actual_output": ""}])
def test_odd_material_has_a_closeness_too(material):
    assert 0.0 <= closeness(material) <= 1.0


def test_the_spread_has_the_mean_it_is_made_around():
    for tenth in range(11):
        spread = spread_around(tenth / 10, 0, 10)
        mean = sum(int(text) * chance for text, chance in spread) / sum(chance for _, chance in spread)
        assert mean == pytest.approx(0.5 + 9 * tenth / 10, abs=0.15)
        assert spread == sorted(spread, key=lambda each: -each[1])


async def test_errors_limits_prose_and_hanging_on_purpose():
    async with asked(error_share=1.0) as judge:
        with pytest.raises(JudgeUnavailable):
            await judge.ask(prompt(GOOD), Scale(0, 10).reply)
    async with asked(limited_share=1.0, retry_after=7) as judge:
        with pytest.raises(JudgeUnavailable) as limited:
            await judge.ask(prompt(GOOD), Scale(0, 10).reply)
        assert (limited.value.type, limited.value.retry_after) == ("judge_rate_limited", 7.0)
    async with asked(prose_share=1.0) as judge:
        with pytest.raises(JudgeReplyInvalid):
            await judge.ask(prompt(GOOD), Scale(0, 10).reply)
    async with asked(hang=True) as judge:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await judge.ask(prompt(GOOD), Scale(0, 10).reply)


async def test_shares_of_faults_are_kept_to_and_repeat():
    async def outcomes() -> list[int]:
        stand_in = FaultyJudge(Faults(error_share=0.2, limited_share=0.3))
        async with serve_judge(stand_in) as url, aiohttp.ClientSession() as session:
            statuses = []
            for number in range(200):
                body = {"model": "x", "messages": [{"role": "user", "content": f"question {number}"}]}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    statuses.append(response.status)
            assert stand_in.calls == 200
        return statuses

    first = await outcomes()
    assert first == await outcomes()
    assert 25 < first.count(500) < 55
    assert 40 < first.count(429) < 80


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"messages": 5}', b'{"messages": []}', b'{"messages": [{}]}']
)
async def test_what_is_no_request_is_400(body: bytes):
    async with (
        serve_judge() as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=body) as response,
    ):
        assert response.status == 400
