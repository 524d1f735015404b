"""Endpoints of every wire format on loopback, for tests of judges over real sockets.

Requests and answers of OpenAI's formats are checked against the types of the openai package; those of System One and
of Anthropic against what is documented, with unknown fields refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer
from openai.types import Decision
from openai.types.decision_create_params import DecisionCreateParams
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evaluators.testing import with_answer_key

USAGE = {"input_tokens": 1000, "output_tokens": 40}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoulWire(Strict):
    type: Literal["noul"]
    instructions: str
    criteria: dict[Literal["true", "false"], str] | None = None


class ChoiceWire(Strict):
    type: Literal["choice"]
    instructions: str
    criteria: dict[str, Annotated[str, Field(min_length=1)]] = Field(min_length=2, max_length=255)


class ScoreWire(Strict):
    type: Literal["score"]
    instructions: str
    criteria: list[Annotated[str, Field(min_length=1)]] = Field(min_length=2, max_length=10)


class SystemOneWire(Strict):
    model: str
    state: str | dict[str, Any] | list[Any]
    questions: dict[str, Annotated[NoulWire | ChoiceWire | ScoreWire, Field(discriminator="type")]] = Field(
        min_length=1
    )


class TextBlock(Strict):
    type: Literal["text"]
    text: str
    cache_control: dict[str, str] | None = None


class ClaudeMessage(Strict):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1)]


class MessagesWire(Strict):
    model: str
    max_tokens: Annotated[int, Field(ge=1)]
    system: list[TextBlock]
    messages: list[ClaudeMessage] = Field(min_length=1)
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    output_config: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, str] | None = None
    service_tier: str | None = None


def rising(options: list[Any]) -> list[float]:
    """Probabilities 1, 2, 3, … for the options in the order of their definition, adding up to 1."""
    total = len(options) * (len(options) + 1) / 2
    return [(at + 1) / total for at in range(len(options))]


def by_value(values: list[str]) -> dict[str, float]:
    """The same whatever the order in which they are shown: words in that of their definition, numbers ascending."""
    known = ["yes", "no", "unclear", "identical", "similar", "different"]
    order = sorted(
        values, key=lambda value: int(value) if value.isdecimal() else known.index(value) if value in known else 0
    )
    return dict(zip(order, rising(order), strict=True))


def decided(body: dict[str, Any], shares: Callable[[list[str]], Mapping[str, float]] = by_value) -> dict[str, Any]:
    """An answer of OpenAI's Decisions to a request."""
    answers = []
    for question in body["questions"]:
        named = {"name": question.get("name"), "type": question["type"]}
        if question["type"] == "predicate":
            answers.append({**named, "probability": shares(["yes", "no"])["yes"]})
        elif question["type"] == "choice":
            weights = shares([each["value"] for each in question["choices"]])
            best = max(weights, key=lambda value: weights[value])
            probabilities = [{"value": value, "probability": share} for value, share in weights.items()]
            answers.append({**named, "choice": best, "confidence": weights[best], "probabilities": probabilities})
        else:
            labels = [each["label"] for each in question["levels"]]
            weights = shares(labels)
            probabilities = [
                {"label": label, "value": at, "probability": weights[label]} for at, label in enumerate(labels)
            ]
            mean = sum(each["value"] * each["probability"] for each in probabilities)
            answers.append({**named, "score": mean, "confidence": 0.5, "probabilities": probabilities})
    details = {
        "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1040,
    }
    return {"answers": answers, "model": "luna-1", "usage": {**USAGE, **details}}


def system_one(body: dict[str, Any], shares: Callable[[list[str]], Mapping[str, float]] = by_value) -> dict[str, Any]:
    """An answer of System One to a request."""
    answers: dict[str, Any] = {}
    for name, question in body["questions"].items():
        if question["type"] == "noul":
            answers[name] = {"type": "noul", "noul": shares(["yes", "no"])["yes"], "option_mass": 0.9}
        elif question["type"] == "choice":
            weights = shares(list(question["criteria"]))
            best = max(weights, key=lambda value: weights[value])
            answers[name] = {"type": "choice", "choice": best, "confidence": 0.4, "probabilities": dict(weights)}
            answers[name]["option_mass"] = 0.9
        else:
            levels = [each.partition(":")[0] for each in question["criteria"]]
            weights = shares(levels)
            indexed = {str(at): weights[level] for at, level in enumerate(levels)}
            mean = sum(int(at) * share for at, share in indexed.items())
            legend = {str(at): each for at, each in enumerate(question["criteria"])}
            answers[name] = {
                "type": "score",
                "score": mean,
                "confidence": 0.3,
                "legend": legend,
                "probabilities": indexed,
            }
            answers[name]["option_mass"] = 0.9
    return {"model": "jev-2", "answers": answers, "usage": {**USAGE, "output_tokens": 0}}


def filled(schema: Any, question: str, definitions: Any = None) -> Any:
    """The best value of a form: highest numbers, first words, an entry for each numbered item of the question."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return filled(definitions[schema["$ref"].rpartition("/")[2]], question, definitions)
    if "enum" in schema:
        return max(schema["enum"]) if schema.get("type") == "integer" else schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: filled(each, question, definitions) for name, each in schema["properties"].items()}
        case "array":
            entries = range(
                1, 1 + (question.rpartition('"items":')[2].count('"number":') if "$ref" in schema["items"] else 1)
            )
            values = [filled(schema["items"], question, definitions) for _ in entries]
            return [
                {**each, "number": at} if "$ref" in schema["items"] else each
                for at, each in zip(entries, values, strict=True)
            ]
        case "integer":
            return schema.get("maximum", 1)
        case _:
            return "because"


def message(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An answer of Anthropic's Messages that fills in the asked form."""
    config = body.get("output_config") or {}
    schema = config["format"]["schema"] if config else body["tools"][0]["input_schema"]
    question = body["messages"][-1]["content"]
    text = with_answer_key(question, orjson.dumps(_own(filled(schema, question))).decode())
    content = (
        [{"type": "text", "text": text}]
        if config
        else [{"type": "tool_use", "id": "t", "name": "answer", "input": orjson.loads(text)}]
    )
    usage = {
        "input_tokens": 300,
        "output_tokens": 40,
        "cache_read_input_tokens": 500,
        "cache_creation_input_tokens": 200,
    }
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": content,
        "stop_reason": "end_turn" if config else "tool_use", "usage": usage,
    } | changes  # fmt: skip


def response(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An answer of OpenAI's Responses that fills in the asked form."""
    question = body["input"][-1]["content"]
    text = orjson.dumps(_own(filled(body["text"]["format"]["schema"], question))).decode()
    text = with_answer_key(question, text)
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": "resp_1", "object": "response", "created_at": 1.0, "status": "completed", "model": "m-1",
        "output": [
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]},
        ],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 0}, "output_tokens": 40,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1040,
        },
    } | changes  # fmt: skip


def _own(value: dict[str, Any]) -> dict[str, Any]:
    """Without the key, which the question says."""
    return {name: each for name, each in value.items() if name != "answer_key"}


_REQUESTS: Mapping[str, TypeAdapter[Any]] = {
    "/v1/decisions": TypeAdapter(DecisionCreateParams),
    "/v1/systemone": TypeAdapter(SystemOneWire),
    "/v1/messages": TypeAdapter(MessagesWire),
    "/v1/responses": TypeAdapter(ResponseCreateParamsNonStreaming),
}
_ANSWERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "/v1/decisions": decided, "/v1/systemone": system_one, "/v1/messages": message, "/v1/responses": response,
}  # fmt: skip
_TYPES: Mapping[str, type[BaseModel]] = {"/v1/decisions": Decision, "/v1/responses": Response}

Respond = Callable[[dict[str, Any], int], Any]


@dataclass
class JudgeServer:
    """`respond` gets the request's JSON and the number of requests before it; None leaves the answer to the server."""

    respond: Respond
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    base_url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        try:
            _REQUESTS[request.path].validate_python(body)
        except ValidationError as error:
            return web.json_response({"error": {"message": str(error), "type": "invalid_request_error"}}, status=422)
        answer = self.respond(body, len(self.requests) - 1)
        if answer is None:
            answer = _ANSWERS[request.path](body)
            if (kind := _TYPES.get(request.path)) is not None:
                kind.model_validate(answer)
        if isinstance(answer, dict):
            answer = orjson.dumps(answer)
        if isinstance(answer, bytes):
            answer = web.Response(body=answer, content_type="application/json")
        return answer


@asynccontextmanager
async def judge_server(respond: Respond = lambda _body, _number: None) -> AsyncGenerator[JudgeServer]:
    judge = JudgeServer(respond)
    app = web.Application(client_max_size=2**26)
    for path in _REQUESTS:
        app.router.add_post(path, judge.handle)
    async with TestServer(app) as server:
        judge.base_url = str(server.make_url("/v1"))
        yield judge
