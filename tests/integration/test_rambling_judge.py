"""A judge that does not come to an end: its reasons are bounded, and the verdict is asked for alone."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from chat_server import completion, rating, refusal, serving

from evaluators.answers.schemas import bounded_schema
from evaluators.evaluation import evaluate
from evaluators.judge import Prompt
from evaluators.judges.openai import OpenAIJudge
from evaluators.results import Failure, Score
from evaluators.scale import Scale
from evaluators.testing import a_turn
from evaluators.turn.contextual_relevancy import ContextualRelevancy
from evaluators.turn.g_eval import GEval
from evaluators.turn.toxicity import Toxicity

HELPFUL = GEval(name="h", evaluation_steps=("Is it right?",), evaluation_params=("actual_output",), max_tokens=200)
CUT = completion('{"reason": "It is, and it is, and', finish_reason="length")


def schema_in(body: dict[str, Any]) -> dict[str, Any]:
    return body["response_format"]["json_schema"]["schema"]


async def test_the_verdict_is_asked_for_alone_and_then_reasons_are_bounded() -> None:
    def respond(_body: dict[str, Any], number: int) -> Any:
        return [CUT, '{"score": 8}', rating(7)][number]

    async with serving(respond) as server, OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
        cut = await evaluate(HELPFUL, a_turn(), judge)
        later = await evaluate(HELPFUL, a_turn(), judge)
    first, alone, bounded = server.requests
    assert isinstance(cut.outcome, Score)
    assert (cut.outcome.value, cut.outcome.method, cut.outcome.explanation) == (0.8, "verdict_alone", None)
    assert cut.usage is not None
    assert cut.usage.calls == 2, "both are paid for"
    assert isinstance(later.outcome, Score)
    assert later.outcome.method == "single"
    assert "maxLength" not in str(first)
    assert list(schema_in(alone)["properties"]) == ["answer_key", "score"]
    assert alone["messages"][-1]["content"].endswith("the same JSON object without any reason in it.")
    assert schema_in(bounded)["properties"]["reason"] == {"type": "string", "maxLength": 400}


async def test_the_verdict_alone_has_its_token_probabilities() -> None:
    def respond(body: dict[str, Any], number: int) -> Any:
        if number == 0:
            return CUT
        alternatives = [{"token": "8", "logprob": math.log(0.6)}, {"token": "4", "logprob": math.log(0.4)}]
        tokens = [
            {"token": '{"score": ', "logprob": 0.0, "top_logprobs": []},
            {"token": "8", "logprob": math.log(0.6), "top_logprobs": alternatives},
            {"token": "}", "logprob": 0.0, "top_logprobs": []},
        ]
        return completion('{"score": 8}', logprobs={"content": tokens})

    async with serving(respond) as server:
        judge = OpenAIJudge("m", base_url=server.base_url, api_key="k", answer_key=False)
        async with judge:
            outcome = (await evaluate(HELPFUL, a_turn(), judge)).outcome
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx((8 * 0.6 + 4 * 0.4) / 10)
    assert (outcome.method, outcome.kept_mass) == ("verdict_alone", pytest.approx(1.0))


async def test_verdicts_on_items_alone() -> None:
    turn = a_turn(retrieval_context=("a", "b"))
    answers = [CUT, '{"verdicts": [{"number": 1, "verdict": "yes"}, {"number": 2, "verdict": "no"}]}']
    async with (
        serving(lambda _body, number: answers[number]) as server,
        OpenAIJudge("m", base_url=server.base_url, api_key="k", max_tokens=100) as judge,
    ):
        outcome = (await evaluate(ContextualRelevancy(name="c"), turn, judge)).outcome
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.method) == (0.5, "verdict_alone")


async def test_what_is_cut_off_again_fails_by_its_name() -> None:
    async with (
        serving(lambda _body, _number: CUT) as server,
        OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge,
    ):
        outcome = (await evaluate(HELPFUL, a_turn(), judge)).outcome
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_reply_truncated"
    assert len(server.requests) == 2


async def test_a_list_without_an_end_is_asked_for_once_more_with_bounds() -> None:
    def respond(body: dict[str, Any], _number: int) -> Any:
        return '{"items": []}' if "maxItems" in str(body) else completion('{"items": ["a", "a"', finish_reason="length")

    async with serving(respond) as server, OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
        outcome = (await evaluate(Toxicity(name="t"), a_turn(), judge)).outcome
    assert isinstance(outcome, Score)
    assert len(server.requests) == 2
    assert schema_in(server.requests[1])["properties"]["items"]["maxItems"] == 30


async def test_an_endpoint_without_bounds_is_asked_without_them() -> None:
    def respond(body: dict[str, Any], number: int) -> Any:
        if "maxLength" in str(body):
            return refusal(400, "Invalid schema for response_format: 'maxLength' is not permitted")
        return CUT if number == 0 else '{"score": 8}' if "reason" not in schema_in(body)["properties"] else rating(7)

    async with serving(respond) as server, OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
        for _ in range(3):
            assert isinstance((await evaluate(HELPFUL, a_turn(), judge)).outcome, Score)
    assert judge.capabilities.bounds == "refused"
    assert judge.capabilities.format == "json_schema", "the schema itself stays"
    assert sum("maxLength" in str(body) for body in server.requests) == 1


async def test_a_reason_that_names_another_field_is_refused() -> None:
    answers = [CUT, '{"score": 8, "grade": 1}']
    async with (
        serving(lambda _body, number: answers[min(number, 1)]) as server,
        OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge,
    ):
        outcome = (await evaluate(HELPFUL, a_turn(), judge)).outcome
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_reply_invalid"


def test_bounds_share_the_length_of_an_answer() -> None:
    schema = bounded_schema(Scale(0, 10).reply, keyed=True, max_tokens=500)
    assert schema["properties"]["reason"]["maxLength"] == 1000
    assert orjson.dumps(bounded_schema(Scale(0, 10).reply, keyed=False)).count(b"maxLength") == 0
    assert Prompt("a").groups == ()
