"""Providers with batches on loopback: OpenAI's, in the openai package's own types, and Anthropic's, as documented.

They count what is submitted by its content, and each request that goes out at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer
from chat_server import completion, rating
from openai.types import Batch, FileObject
from openai.types.batch_create_params import BatchCreateParams
from pydantic import TypeAdapter

from evaluators.testing import with_answer_key

Step = Callable[[str], Awaitable[None]]
CREATE = TypeAdapter(BatchCreateParams)
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}


async def nothing(_step: str) -> None:
    """Nothing happens at a step."""


@dataclass
class StubBatch:
    id: str
    items: dict[str, dict[str, Any]]
    metadata: dict[str, str] | None
    created: float
    looks: int = 0
    status: str = "in_progress"


def answered(body: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """An obedient judge's completion."""
    asked = body["messages"][-1]["content"]
    asked = asked if isinstance(asked, str) else asked[0]["text"]
    return completion(with_answer_key(asked, text or _usual(body)))


def _usual(body: dict[str, Any]) -> str:
    """A rating, one for each question of a pack, or evaluation steps: what the form of the answer asks for."""
    form = body.get("response_format", {}).get("json_schema", {})
    if form.get("name") == "Pack":
        each = {"reason": "so", "score": 8}
        return orjson.dumps(dict.fromkeys(form["schema"]["required"], each)).decode()
    if "steps" in form.get("schema", {}).get("required", ()):
        return orjson.dumps({"steps": ["Compare."]}).decode()
    return rating(8)


def message(body: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """The same as Anthropic's message."""
    asked = body["messages"][-1]["content"]
    asked = asked if isinstance(asked, str) else asked[0]["text"]
    content = [{"type": "text", "text": with_answer_key(asked, text or rating(8))}]
    usage = {"input_tokens": 1000, "output_tokens": 100}
    return {"type": "message", "model": "c", "content": content, "stop_reason": "end_turn", "usage": usage}


@dataclass
class BatchServer:
    """`outcome` says what becomes of an item in the n-th batch: `ok`, a status, `expired`, `cancelled` or `nothing`.

    `end` is the status that batches end in, after `looks`. `step` is called at each step, by its name.
    """

    outcome: Callable[[dict[str, Any], int], str] = lambda _body, _batch: "ok"
    end: Callable[[int], str] = lambda _batch: "completed"
    looks: int = 1
    step: Step = nothing
    extra_lines: Sequence[dict[str, Any]] = ()
    refuse: Callable[[str], web.Response | None] = lambda _step: None
    at_once_refusal: Callable[[dict[str, Any]], web.Response | None] = lambda _body: None
    submitted: Counter[str] = field(default_factory=Counter[str])
    at_once: Counter[str] = field(default_factory=Counter[str])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    batches: dict[str, StubBatch] = field(default_factory=dict[str, StubBatch])
    base_url: str = ""
    calls: list[str] = field(default_factory=list[str])

    def application(self) -> web.Application:
        app = web.Application(client_max_size=2**27)
        for method, path, name, handle in (
            ("POST", "/chat/completions", "at_once", self.ask),
            ("POST", "/files", "upload", self.upload),
            ("POST", "/batches", "create", self.create),
            ("GET", "/batches", "list", self.listed),
            ("GET", "/batches/{id}", "look", self.look),
            ("GET", "/files/{id}/content", "content", self.content),
            ("POST", "/messages", "at_once", self.ask_message),
            ("POST", "/messages/batches", "create", self.create_messages),
            ("GET", "/messages/batches", "list", self.listed_messages),
            ("GET", "/messages/batches/{id}", "look", self.look_messages),
            ("GET", "/messages/batches/{id}/results", "content", self.message_results),
        ):
            app.router.add_route(method, f"/v1{path}", self._stepped(name, handle))
        return app

    def _stepped(self, name: str, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        async def stepped(request: web.Request) -> web.StreamResponse:
            self.calls.append(name)
            await self.step(f"before {name}")
            if (refusal := self.refuse(name)) is not None:
                return refusal
            response = await handle(request)
            await self.step(f"after {name}")
            return response

        return stepped

    async def ask(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        if (refusal := self.at_once_refusal(body)) is not None:
            return refusal
        self.at_once[content_of(body)] += 1
        return web.json_response(answered(body))

    async def ask_message(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.at_once[content_of(body)] += 1
        return web.json_response(message(body))

    async def upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        assert form["purpose"] == "batch"
        file: Any = form["file"]
        name = f"file-{len(self.files)}"
        with file.file as content:
            self.files[name] = content.read()
        described = FileObject(
            id=name, bytes=len(self.files[name]), created_at=int(time.time()), filename=file.filename, object="file",
            purpose="batch", status="processed",
        )  # fmt: skip
        return web.json_response(described.model_dump())

    async def create(self, request: web.Request) -> web.StreamResponse:
        wanted = CREATE.validate_json(await request.read())
        lines = [orjson.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert {line["url"] for line in lines} == {wanted["endpoint"]}
        assert {line["method"] for line in lines} == {"POST"}
        batch = self._batch({line["custom_id"]: line["body"] for line in lines}, wanted.get("metadata"))
        assert len(batch.items) == len(lines), "custom ids are unique"
        return web.json_response(self._described(batch))

    def _batch(self, items: dict[str, dict[str, Any]], metadata: Any) -> StubBatch:
        self.submitted.update(content_of(body) for body in items.values())
        batch = StubBatch(f"batch_{len(self.batches)}", items, metadata, time.time())
        self.batches[batch.id] = batch
        return batch

    def _number(self, batch: StubBatch) -> int:
        return list(self.batches).index(batch.id)

    def _described(self, batch: StubBatch) -> dict[str, Any]:
        ended = batch.status != "in_progress"
        done = len(batch.items) if ended else 0
        described = Batch.model_validate(
            {
                "id": batch.id, "completion_window": "24h", "created_at": int(batch.created),
                "endpoint": "/v1/chat/completions", "input_file_id": "file", "object": "batch",
                "status": batch.status, "metadata": batch.metadata,
                "output_file_id": f"{batch.id}.out" if ended and batch.status != "failed" else None,
                "error_file_id": f"{batch.id}.err" if ended and batch.status != "failed" else None,
                "request_counts": {"completed": done, "failed": 0, "total": len(batch.items)},
            }
        )  # fmt: skip
        return described.model_dump()

    async def listed(self, request: web.Request) -> web.StreamResponse:
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        start = 0 if after is None else [each.id for each in newest].index(after) + 1
        page = newest[start : start + int(request.query["limit"])]
        data = [self._described(each) for each in page]
        more = start + len(page) < len(newest)
        return web.json_response({"object": "list", "data": data, "has_more": more})

    def _looked(self, batch: StubBatch) -> StubBatch:
        batch.looks += 1
        if batch.looks >= self.looks:
            batch.status = self.end(self._number(batch))
        return batch

    async def look(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        return web.json_response(self._described(self._looked(batch)))

    async def content(self, request: web.Request) -> web.StreamResponse:
        name, _, which = request.match_info["id"].rpartition(".")
        batch = self.batches[name]
        lines = [] if which == "out" else list(self.extra_lines)
        for custom_id, body in reversed(batch.items.items()):
            outcome = self.outcome(body, self._number(batch))
            if outcome != "nothing" and (outcome == "ok") == (which == "out"):
                lines.append(_line(custom_id, body, outcome))
        return await self._sent(request, lines)

    async def _sent(self, request: web.Request, lines: list[dict[str, Any]]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number, line in enumerate(lines):
            await response.write(orjson.dumps(line) + b"\n")
            if number == len(lines) // 2:
                await self.step("within content")
        await response.write_eof()
        return response

    async def create_messages(self, request: web.Request) -> web.StreamResponse:
        wanted = orjson.loads(await request.read())
        assert set(wanted) == {"requests"}
        assert all(set(each) == {"custom_id", "params"} and len(each["custom_id"]) <= 64 for each in wanted["requests"])
        batch = self._batch({each["custom_id"]: each["params"] for each in wanted["requests"]}, None)
        return web.json_response(self._described_messages(batch))

    def _described_messages(self, batch: StubBatch) -> dict[str, Any]:
        ended = batch.status != "in_progress"
        count = len(batch.items)
        zeros = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        return {
            "id": batch.id, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
            "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat(),
            "request_counts": zeros | ({"succeeded": count} if ended else {"processing": count}),
            "results_url": "http://elsewhere.invalid/results" if ended else None,
        }  # fmt: skip

    async def listed_messages(self, request: web.Request) -> web.StreamResponse:
        data = [self._described_messages(self._looked(each)) for each in reversed(self.batches.values())]
        return web.json_response({"data": data[: int(request.query["limit"])], "has_more": False})

    async def look_messages(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._described_messages(self._looked(self.batches[request.match_info["id"]])))

    async def message_results(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["id"]]
        number = self._number(batch)
        items = reversed(batch.items.items())
        return await self._sent(
            request,
            [*self.extra_lines, *(_message_line(name, body, self.outcome(body, number)) for name, body in items)],
        )


def _line(custom_id: str, body: dict[str, Any], outcome: str) -> dict[str, Any]:
    line: dict[str, Any] = {"id": "batch_req", "custom_id": custom_id, "response": None, "error": None}
    if outcome == "ok":
        line["response"] = {"status_code": 200, "request_id": "r", "body": answered(body)}
    elif outcome.isdigit():
        error = {"error": {"message": "no", "code": "no"}}
        line["response"] = {"status_code": int(outcome), "request_id": "r", "body": error}
    elif outcome == "error inside":
        line["response"] = {"status_code": 200, "request_id": "r", "body": {"error": {"message": "oh", "code": 500}}}
    else:
        line["error"] = {"code": f"batch_{outcome}", "message": "This request could not be executed."}
    return line


def _message_line(custom_id: str, body: dict[str, Any], outcome: str) -> dict[str, Any]:
    if outcome == "ok":
        result: dict[str, Any] = {"type": "succeeded", "message": message(body)}
    elif outcome in {"expired", "canceled"}:
        result = {"type": outcome}
    else:
        error = {"type": "invalid_request_error" if outcome == "400" else "api_error", "message": "no"}
        result = {"type": "errored", "error": {"type": "error", "error": error}}
    return {"custom_id": custom_id, "result": result}


def content_of(body: dict[str, Any]) -> str:
    """What a request asks, in one text."""
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


@asynccontextmanager
async def batch_server(**settings: Any) -> AsyncGenerator[BatchServer]:
    server = BatchServer(**settings)
    async with TestServer(server.application()) as running:
        server.base_url = f"http://127.0.0.1:{running.port}/v1"
        yield server
