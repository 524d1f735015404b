"""Refusals and answers as users of other projects reported them, by project and number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from aiohttp import web
from chat_server import rating, serving

from evaluators.evaluation import evaluate
from evaluators.judges.completions import usage_of
from evaluators.judges.error_mapping import HttpStatusError, retry_after, to_judge_error
from evaluators.judges.openai import OpenAIJudge
from evaluators.results import Failure, Score
from evaluators.testing import a_turn, with_answer_key
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


DAY_LIMIT = "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
NOW = 1_800_000_000.0
WAITS: Mapping[str, tuple[Mapping[str, str], Any, float | None]] = {
    "python-genai 2114, Gemini": (
        {},
        error(
            "You exceeded your current quota. Please retry in 58.934310785s.",
            status="RESOURCE_EXHAUSTED",
            details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "58s"}],
        ),
        58.934310785,
    ),
    "posthog 82310, words": ({}, error("User burst rate limit exceeded. Try again in about 3 hours."), 10_800.0),
    "posthog 82310, field": (
        {},
        error("Rate limit exceeded: User burst rate limit exceeded.", retry_after=10_790),
        10_790.0,
    ),
    "openclaude 936, OpenRouter": (
        {},
        error(
            DAY_LIMIT,
            code=429,
            metadata={"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW + 60) * 1000)}},
        ),
        60.0,
    ),
    "aisix 1079": (
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "18"},
        error("request limit exceeded (requests)", type="rate_limit_exceeded"),
        18.0,
    ),
    "a reset that is not waited for": (
        {"x-ratelimit-remaining": "12", "x-ratelimit-reset": str(NOW + 60)},
        error("too many at once"),
        None,
    ),
    "vscode-copilot-release 3519": (
        {},
        error("Sorry, your request was rate-limited. Please wait 10 hours 58 minutes before trying again."),
        39_480.0,
    ),
    "docs of vast 61": ({}, "API requests too frequent", None),
}


@pytest.mark.parametrize("told", WAITS.values(), ids=WAITS)
def test_waits(told: tuple[Mapping[str, str], Any, float | None]) -> None:
    headers, body, seconds = told
    refusal = HttpStatusError(429, headers, body.encode() if isinstance(body, str) else orjson.dumps(body))
    assert to_judge_error(refusal).type == "judge_rate_limited"
    assert retry_after(refusal, NOW) == seconds


FILTERS: Mapping[str, tuple[int, Any]] = {
    "langchain4j 1079, Zhipu": (400, error("系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301")),
    "DeepSeek-V2 30": (400, {"detail": "Content Exists Risk"}),
    "BettaFish 691, DeepSeek": (400, error("Content Exists Risk", code="invalid_request_error")),
    "MiMo-V2-Flash 18": (
        421,
        error("Moderation Block", code="421", param="The request was rejected because it was considered high risk"),
    ),
    "qwen-code 875": (400, error("Inappropriate Content.", type="invalid_request_error")),
    "hackerai 632, OpenRouter": (
        403, error("Provider returned error", code=403, metadata={"raw": "PROHIBITED_CONTENT", "provider_name": "Google"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("told", FILTERS.values(), ids=FILTERS)
def test_filters(told: tuple[int, Any]) -> None:
    status, body = told
    assert to_judge_error(HttpStatusError(status, {}, orjson.dumps(body))).type == "judge_refused"


USAGES: Mapping[str, tuple[Any, tuple[int, int, int]]] = {
    "mlx-vlm 1009": ({"input_tokens": 900, "output_tokens": 10, "total_tokens": 910}, (900, 10, 0)),
    "foundry-local 173": (None, (0, 0, 0)),
    "mere-run 134": ({"prompt_tokens": 0, "completion_tokens": 128, "total_tokens": 128}, (0, 128, 0)),
    "open-swarm 141": ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (0, 0, 0)),
    "term-llm 424, what is cached left out": (
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}}, (100, 5, 90),
    ),
    "laravel-ai 610, DeepSeek": (
        {"prompt_tokens": 900, "completion_tokens": 5, "prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 260},
        (900, 5, 640),
    ),
}  # fmt: skip


@pytest.mark.parametrize("told", USAGES.values(), ids=USAGES)
def test_usages(told: tuple[Any, tuple[int, int, int]]) -> None:
    reported, (read, written, cached) = told
    usage = usage_of(reported)
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens or 0) == (read, written, cached)


Message = Callable[[str], Body]
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": 'It says {"score": 1}.'}]}
MESSAGES: Mapping[str, Message] = {
    "chunkhound 415, OpenRouter": lambda text: {"content": None, "reasoning": text},
    "vllm 17609": lambda text: {"content": None, "reasoning_content": text},
    "big-AGI 873, Magistral": lambda text: {"tool_calls": None, "content": [THOUGHT, {"type": "text", "text": text}]},
    "client-python 252, Magistral": lambda text: {
        "content": [THOUGHT, {"type": "text", "text": text[:9]}, {"type": "thinking", "thinking": []},
                    {"type": "text", "text": text[9:]}]
    },
    "ai 4820, Mistral": lambda text: {
        "content": [{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": text}]
    },
    "forecasting-tools 278": lambda text: {
        "content": None, "reasoning_content": text, "thinking_blocks": [{"type": "thinking", "thinking": text}],
    },
}  # fmt: skip
REASONS: Mapping[str, tuple[str, str, str]] = {
    "pegainfer 238, all end by length": ("length", "{text}", "scored"),
    "LocalAI 3533, cut off and called a stop": ("stop", '{{"reason": "it is and', "judge_reply_truncated"),
    "any other end": ("eos_token", "{text}", "scored"),
    "ai-dial-adapter-vertexai 162": ("FinishReason.PROHIBITED_CONTENT", "", "judge_refused"),
    "sglang 2013": ("abort", "{text}", "judge_unavailable"),
}


async def asked(message: Message, reason: str = "stop") -> str:
    """`scored`, or the type of the failure, of one question that is answered so."""

    def respond(body: dict[str, Any], _number: int) -> Any:
        text = with_answer_key(body["messages"][-1]["content"], rating(7))
        usage = {"prompt_tokens": 300, "completion_tokens": 64}
        return web.json_response({"choices": [{"message": message(text), "finish_reason": reason}], "usage": usage})

    async with (
        serving(respond) as server,
        OpenAIJudge("m", base_url=server.base_url, api_key="k", retries=0, max_tokens=64) as judge,
    ):
        evaluator = GEval(name="h", evaluation_steps=("Is it right?",), evaluation_params=("input",), max_tokens=64)
        outcome = (await evaluate(evaluator, a_turn("Question", "a"), judge)).outcome
    if isinstance(outcome, Score):
        assert outcome.value == 0.7
        return "scored"
    assert isinstance(outcome, Failure)
    return outcome.type


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
async def test_places_of_an_answer(message: Message) -> None:
    assert await asked(message) == "scored"


@pytest.mark.parametrize("told", REASONS.values(), ids=REASONS)
async def test_finish_reasons(told: tuple[str, str, str]) -> None:
    reason, form, outcome = told
    assert await asked(lambda text: {"content": form.format(text=text)}, reason) == outcome
