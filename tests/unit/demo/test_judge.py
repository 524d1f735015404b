"""The demo's judge, asked by `g_eval` as the service asks it."""

from __future__ import annotations

import aiohttp
import pytest

from collector.demo.application import TOPICS
from collector.demo.judge import MODEL, closeness, serve_judge
from evaluators.cases import Turn
from evaluators.judges.openai import OpenAIJudge
from evaluators.turn.g_eval import GEval


@pytest.mark.parametrize("fields", [["input", "actual_output"], ["actual_output", "retrieval_context"]])
async def test_a_good_and_a_bad_answer_are_told_apart_by_token_probabilities(fields: list[str]):
    topic = TOPICS[0]
    evaluator = GEval(name="answers", criteria="Does the actual output answer?", evaluation_params=fields)
    async with serve_judge() as url, OpenAIJudge(MODEL, base_url=url, api_key="none", retries=0) as judge:
        good, bad = [
            await evaluator.evaluate(
                Turn(input=topic.question, actual_output=text, retrieval_context=(topic.page,)), judge
            )
            for text in (topic.good, topic.bad)
        ]
    assert good.value > 0.8
    assert bad.value < 0.35
    assert (good.method, good.kept_mass) == ("logprobs", pytest.approx(0.98, abs=0.001))
    assert "Stand-in, no model" in good.explanation


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.question[:20])
def test_every_answer_of_the_demo_is_plainly_good_or_bad(topic):
    for about in ({"input": topic.question}, {"retrieval_context": [topic.page]}):
        assert closeness({**about, "actual_output": topic.good}) > 0.8
        assert closeness({**about, "actual_output": topic.bad}) < 0.4


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"messages": 5}', b'{"messages": [{}]}'])
async def test_what_is_no_request_is_400(body: bytes):
    async with (
        serve_judge() as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=body) as response,
    ):
        assert response.status == 400
