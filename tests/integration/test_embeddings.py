"""Similarity by embeddings: values by hand, over an endpoint as OpenAI's SDK types it, in a configuration."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from openai.types import CreateEmbeddingResponse, Embedding
from openai.types.create_embedding_response import Usage

from collector.config.loading import check
from collector.errors import ConfigError
from evaluators import EmbeddingJudge, GEval, Similarity, evaluate
from evaluators.embeddings import cosine
from evaluators.errors import JudgeReplyInvalid
from evaluators.results import Failure, Score
from evaluators.testing import ScriptedJudge, a_turn

VECTORS = {
    "Paris.": [3.0, 4.0],
    "It is Paris.": [4.0, 3.0],
    "Rome.": [-4.0, 3.0],
    "What is the capital of France?": [5.0, 0.0],
}


def respond(body: dict[str, Any]) -> web.Response:
    texts = list(enumerate(body["input"]))
    data = [Embedding(index=at, embedding=VECTORS[text], object="embedding") for at, text in reversed(texts)]
    response = CreateEmbeddingResponse(
        data=data, model="embed-2", object="list", usage=Usage(prompt_tokens=1000, total_tokens=1000)
    )
    return web.json_response(text=response.model_dump_json())


@asynccontextmanager
async def endpoint(answer: Callable[[dict[str, Any]], web.Response] = respond) -> AsyncGenerator[tuple[str, list[Any]]]:
    requests: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        requests.append((await request.json(), dict(request.headers)))
        return answer(requests[-1][0])

    app = web.Application()
    app.router.add_post("/v1/embeddings", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1")), requests


@pytest.mark.parametrize(
    ("fields", "turn", "value", "raw"),
    [
        ({}, {"expected_output": "It is Paris."}, 24 / 25, 24 / 25),
        ({"compare": "question"}, {}, 15 / 25, 15 / 25),
        ({"compare": "passages"}, {"retrieval_context": ("Rome.", "It is Paris.")}, 24 / 25, 24 / 25),
        ({"floor": 0.9}, {"expected_output": "It is Paris."}, 0.6, 24 / 25),
        ({}, {"expected_output": "Rome."}, 0.0, 0.0),
        ({"floor": -1.0}, {"expected_output": "Rome."}, 0.5, 0.0),
        ({}, {"expected_output": "Paris."}, 1.0, 1.0),  # embedded once
    ],
    ids=["reference", "question", "passages", "floor", "at right angles", "whole range", "equal"],
)  # fmt: skip
async def test_values_by_hand(fields: dict[str, Any], turn: dict[str, Any], value: float, raw: float) -> None:
    async with endpoint() as (url, requests):
        judge = EmbeddingJudge("embed", base_url=url, api_key="k", input_price=0.02, headers={"x-team": "search"})
        result = await evaluate(Similarity(name="alike", **fields), a_turn(**turn), judge)
        await judge.aclose()
    score = result.outcome
    assert isinstance(score, Score)
    assert (score.value, score.raw_score, score.method) == (pytest.approx(value), pytest.approx(raw), "single")
    [(body, headers)] = requests
    assert body["input"] == list(dict.fromkeys(body["input"]))
    assert (body["model"], body["encoding_format"]) == ("embed", "float")
    assert (headers["Authorization"], headers["x-team"]) == ("Bearer k", "search")
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.calls, result.cost_usd) == (1000, 1, pytest.approx(0.00002))
    assert result.judge is not None
    assert result.judge.model == "embed-2"


def body(data: Any) -> Callable[[dict[str, Any]], web.Response]:
    return lambda _body: web.json_response({"data": data, "usage": {"prompt_tokens": 5}})


@pytest.mark.parametrize(
    ("answer", "type_"),
    [
        (lambda _body: web.json_response({"error": {"message": "no"}}, status=500), "judge_unavailable"),
        (lambda _body: web.Response(text="<html>"), "judge_no_completion"),
        (lambda _body: web.json_response({"choices": []}), "judge_no_completion"),
        (body([{"index": 0, "embedding": [1.0]}]), "judge_reply_invalid"),  # one too few
        (body([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]), "judge_reply_invalid"),
        (body([{"index": 0, "embedding": [0.0]}, {"index": 1, "embedding": [1.0]}]), "judge_reply_invalid"),
        (body([{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": [1.0]}]), "judge_reply_invalid"),
        (body([None, 7]), "judge_reply_invalid"),
    ],
    ids=["500", "page", "chat", "too few", "lengths", "zeros", "base64", "odd"],
)
async def test_a_failure_is_a_failure(answer: Any, type_: str) -> None:
    async with endpoint(answer) as (url, _):
        judge = EmbeddingJudge("embed", base_url=url)
        outcome = (await evaluate(Similarity(name="alike"), a_turn(expected_output="Rome."), judge)).outcome
        await judge.aclose()
    assert isinstance(outcome, Failure)
    assert outcome.type == type_


async def test_it_answers_no_questions() -> None:
    judge = EmbeddingJudge("embed", base_url="http://127.0.0.1:9/v1")
    asks = GEval(name="g", evaluation_steps=["?"], evaluation_params=("input",))
    outcome = (await evaluate(asks, a_turn(), judge)).outcome
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_rejected"
    down = (await evaluate(Similarity(name="alike"), a_turn(expected_output="Rome."), judge)).outcome
    await judge.aclose()
    assert isinstance(down, Failure)
    assert down.type == "judge_unavailable"


def test_cosines() -> None:
    assert cosine([1, 0], [1, 1]) == pytest.approx(0.5**0.5)
    assert cosine([1e200, 0], [1e100, 0]) == 1.0
    with pytest.raises(JudgeReplyInvalid):
        cosine([0, 0], [1, 1])


async def test_equal_texts_are_embedded_once() -> None:
    judge = ScriptedJudge({"vectors": [[1.0, 0.0], [0.0, 1.0]]})
    turn = a_turn(retrieval_context=("Paris.", "Rome.", "Rome."))
    score = (await evaluate(Similarity(name="alike", compare="passages"), turn, judge)).outcome
    assert isinstance(score, Score)
    assert score.details["cosines"] == [1.0, 0.0, 0.0]
    assert judge.questions[0].prompt.material["texts"] == ["Paris.", "Rome."]


def configuration(url: str, **judge: Any) -> dict[str, Any]:
    return {
        "judges": {
            "embed": {"kind": "embeddings", "model": "embed", "base_url": url, "usd_per_million_input_tokens": 0.02},
            "chat": {"model": "m", "base_url": url},
        },
        "evaluators": {"alike": {"kind": "similarity", "judge": "embed", **judge}},
        "monitors": {"all": {"evaluators": ["alike"], "budget": {"usd_per_day": 1}}},
    }


@pytest.mark.long
async def test_through_score(tmp_path: Path) -> None:
    async with endpoint() as (url, requests):
        (tmp_path / "evalstream.yaml").write_text(yaml.safe_dump(configuration(url)))
        turn = {"turn_id": "t", "input": "?", "actual_output": "Paris.", "expected_output": "It is Paris."}
        (tmp_path / "turns.jsonl").write_text(json.dumps(turn) + "\n")
        command = [sys.executable, "-m", "collector.cli", "score", "turns.jsonl", "--json"]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)["alike"]
    assert (summary["mean"], summary["cost_usd"]) == (pytest.approx(24 / 25), pytest.approx(0.00002))
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("evaluator", "why"),
    [
        ({"kind": "similarity", "judge": "chat"}, "name a judge of kind embeddings"),
        ({"kind": "toxicity", "judge": "embed"}, "name a judge that writes"),
    ],
)
def test_judges_that_do_not_fit_are_refused(evaluator: dict[str, Any], why: str) -> None:
    values = configuration("http://localhost/v1")
    values["monitors"]["all"].pop("budget")
    with pytest.raises(ConfigError, match=why):
        check({**values, "evaluators": {"alike": evaluator}}, "my.yaml")
