"""A chat completions endpoint on loopback that answers by a script, for tests of judges over real sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from evaluators.testing import with_answer_key

Answer = web.StreamResponse | dict[str, Any] | bytes | str


def rating(score: int = 7, reason: str = "so") -> str:
    return orjson.dumps({"reason": reason, "score": score}).decode()


def completion(*texts: str, **extra: Any) -> dict[str, Any]:
    """A completion with one choice per text; `finish_reason` and other fields of the choice by name."""
    choices = [
        {"index": n, "finish_reason": "stop", "message": {"role": "assistant", "content": text}} | extra
        for n, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return {"id": "c", "model": "judge-2", "system_fingerprint": "fp_1", "choices": choices, "usage": usage}


def refusal(status: int, message: str = "no", *, param: str | None = None, code: str | None = None, **headers: str):
    error = {"error": {"message": message, "param": param, "code": code}}
    return web.json_response(error, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


@dataclass
class ChatServer:
    """`respond` gets the request's JSON and the number of requests before it.

    Answers get the key of the question that they are for, as an obedient judge writes it; unless `obeys` is false.
    """

    respond: Callable[[dict[str, Any], int], Any]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    base_url: str = ""
    obeys: bool = True

    def keyed(self, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        for choice in (answer.get("choices") or []) if self.obeys else []:
            message = choice.get("message") if isinstance(choice, dict) else None
            if isinstance(message, dict) and isinstance(message.get("content"), str):
                asked = body["messages"][-1]["content"]
                text = asked if isinstance(asked, str) else asked[0]["text"]
                message["content"] = with_answer_key(text, message["content"])
        return answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        answer = self.respond(body, len(self.requests) - 1)
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, str):
            answer = completion(answer)
        if isinstance(answer, dict):
            answer = orjson.dumps(self.keyed(body, answer))
        if isinstance(answer, bytes):
            answer = web.Response(body=answer, content_type="application/json")
        return answer


@asynccontextmanager
async def serving(respond: Callable[[dict[str, Any], int], Any]) -> AsyncGenerator[ChatServer]:
    chat = ChatServer(respond)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat.handle)
    async with TestServer(app) as server:
        chat.base_url = str(server.make_url("/v1"))
        yield chat
