"""A stand-in for a judge, so that the demo and the tests need no key: an OpenAI-compatible server without a model.

It looks at the schema of the reply that is asked for, and fills it in by plain rules. A score is the share of the
answer's words that the question, the reference or the retrieved passages know: crude, but it falls when an answer turns
to something else. Token probabilities are spread around the score, as a model's would be. Equal questions get equal
answers. It says in the model's name, in the fingerprint and in every reason that it is a stand-in.

Token probabilities of a text, in the form of the chat completions API.
"""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
from aiohttp import web

from collector.demo.judge_answers import Json, JudgeRequest, answer_to, parse_request

MODEL = "stand-in-judge (no model)"
FINGERPRINT = "fp_stand_in_no_model"


class StandInJudge:
    """The server, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def application(self) -> web.Application:
        """An application with the two routes, to be served anywhere."""
        application = web.Application(client_max_size=32 * 1024**2)
        application.router.add_post("/v1/chat/completions", self._complete)
        application.router.add_get("/v1/models", _models)
        return application

    async def _complete(self, request: web.Request) -> web.Response:
        self.calls += 1
        return await self.answer(await request.read())

    async def answer(self, body: bytes) -> web.Response:
        """The response to a request for a completion."""
        try:
            return _json(200, completion(cast("dict[str, Json]", orjson.loads(body))))
        except (ValueError, TypeError, AttributeError, LookupError):
            message = "this is not a chat completion request"
            return _json(400, {"error": {"message": message, "type": "stand_in", "param": None, "code": None}})


def completion(request: Mapping[str, Json]) -> dict[str, Json]:
    """The answer to a chat completion request, with as many choices as it asks for.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is no such request.
    """
    question = parse_request(request)
    choices = [_choice(request, question, index) for index in range(int(request.get("n") or 1))]
    digest = hashlib.sha256(question.text.encode(errors="replace")).hexdigest()
    return {
        "id": f"chatcmpl-{digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": _usage(question.text, choices),
    }


def _choice(request: Mapping[str, Json], question: JudgeRequest, index: int) -> dict[str, Json]:
    text, scores = answer_to(question, sample=index)
    tokens = tokens_of(text, scores, int(request.get("top_logprobs") or 0)) if request.get("logprobs") else None
    return {
        "index": index,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "finish_reason": "stop",
        "logprobs": {"content": tokens} if tokens else None,
    }


@asynccontextmanager
async def serve_judge(
    judge: StandInJudge | None = None, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[str]:
    """Serve a stand-in judge until left; gives its base URL, with /v1."""
    application = (judge or StandInJudge()).application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{site.port}/v1"
    finally:
        await runner.cleanup()


async def _models(_request: web.Request) -> web.Response:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "evalstream: a stand-in, no model"}
    return _json(200, {"object": "list", "data": [model]})


def _usage(text: str, choices: Sequence[Json]) -> dict[str, int]:
    """About four characters a token, as models count."""
    written = sum(len(choice["message"]["content"]) for choice in choices) // 4 + 1
    read = len(text) // 4 + 1
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _json(status: int, value: Json) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value), content_type="application/json")


_TOKEN = re.compile(r"\s?\w+|\s?[^\w\s]|\s+")
_CERTAIN = 0.999
_ELSEWHERE = ("null", 0.0005)


def tokens_of(
    text: str, scores: Mapping[tuple[int, int], Sequence[tuple[str, float]]], alternatives: int
) -> list[dict[str, Any]]:
    """The text as tokens, almost certain but for the scores, whose place in the text (start, end) is given.

    Each token comes with at most `alternatives` alternatives.
    """
    starts = {start: spread for (start, _), spread in scores.items()}
    result: list[dict[str, Any]] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        blank = token[: len(token) - len(token.lstrip())]
        spread = starts.get(match.start() + len(blank))
        weighed = [(blank + each, chance) for each, chance in spread] if spread else [(token, _CERTAIN), _ELSEWHERE]
        chances = dict(reversed(weighed))  # the first of two equal ones counts
        tops = [_token(each, chance) for each, chance in weighed[:alternatives]]
        result.append({**_token(token, chances[token]), "top_logprobs": tops})
    return result


def _token(text: str, chance: float) -> dict[str, Any]:
    return {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}
