"""Refusals as users of other projects reported them: after the first questions, all are answered with what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from chat_server import rating, serving

from evaluators.evaluation import evaluate
from evaluators.judges.openai import OpenAIJudge
from evaluators.results import Score
from evaluators.testing import a_turn
from evaluators.turn.g_eval import GEval

Body = Mapping[str, Any]


def wants(form: str) -> Callable[[Body], bool]:
    return lambda body: (body.get("response_format") or {}).get("type") == form


def has_system(body: Body) -> bool:
    return body["messages"][0]["role"] == "system"


def has_logprobs(body: Body) -> bool:
    return bool(body.get("logprobs"))


@dataclass(frozen=True)
class Refusal:
    """What is refused, and how; `left` is the number of alternatives that the last question asks for."""

    of: Callable[[Body], bool]
    status: int
    body: Any
    left: int = 13
    lost: int = 0
    """Questions that fail before it is understood."""


def error(message: str, **more: Any) -> Body:
    return {"error": {"message": message, **more}}


def vllm(message: str) -> Body:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


REFUSALS = {
    "lm-evaluation-harness 1735, vLLM": Refusal(
        lambda body: body.get("top_logprobs", 0) > 5, 400, vllm("Cannot request more than 5 logprobs."), left=5
    ),
    "deepeval 2184, o4-mini": Refusal(
        has_logprobs, 403, error("You are not allowed to request logprobs from this model", code=None), left=0
    ),
    "vllm-gaudi 1098": Refusal(
        has_logprobs,
        400,
        error("Gaudi doesn't support logprobs. Please remove 'logprobs'/'top_logprobs' from your request.", code=400),
        left=0,
    ),
    "generative-ai 2947, Gemini": Refusal(
        has_logprobs,
        400,
        [error("Unable to submit request because Logprobs is not supported for this model.", code=400)],
        left=0,
    ),
    "amx 55, Gemini": Refusal(
        has_logprobs, 400, error("Logprobs is not enabled for this model", status="INVALID_ARGUMENT"), left=0
    ),
    "alpaca_eval 206, Azure": Refusal(
        has_logprobs, 400, error("This model doesn't support the 'logprobs' paramter", code=None), left=0
    ),
    "openai-dotnet 276": Refusal(
        wants("json_schema"),
        400,
        error("Invalid parameter: 'response_format' of type 'json_schema' is not supported with model version `m`."),
    ),
    "chat-ui 1386, Gemma 2 on vLLM": Refusal(has_system, 400, vllm("System role not supported")),
    "kubeai 499, Gemma 2 on vLLM": Refusal(
        has_system, 400, vllm("Conversation roles must alternate user/assistant/user/assistant/...")
    ),
    "sglang 892, Gemma 2": Refusal(has_system, 500, "Internal Server Error", lost=2),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_what_is_refused_is_left_out(refusal: Refusal) -> None:
    def respond(body: dict[str, Any], _number: int) -> Any:
        if not refusal.of(body):
            return rating(7)
        if isinstance(refusal.body, str):
            return web.Response(status=refusal.status, text=refusal.body)
        return web.json_response(refusal.body, status=refusal.status)

    evaluator = GEval(name="h", evaluation_steps=("Is it right?",), evaluation_params=("input",))
    async with serving(respond) as server, OpenAIJudge("m", base_url=server.base_url, api_key="k") as judge:
        outcomes = [(await evaluate(evaluator, a_turn(f"Question {n}", "a"), judge)).outcome for n in range(6)]
    assert [isinstance(outcome, Score) for outcome in outcomes].count(False) == refusal.lost
    assert all(isinstance(outcome, Score) for outcome in outcomes[refusal.lost :])
    assert server.requests[-1].get("top_logprobs", 0) == refusal.left
