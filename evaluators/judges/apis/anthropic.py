"""Anthropic's Messages: `POST /messages`. No token probabilities; the fixed part may be cached by the provider."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from evaluators.answers.schemas import rewritten
from evaluators.cases import Json
from evaluators.judges.answer_places import ending, text_in
from evaluators.judges.apis.payload import object_in, objects, text
from evaluators.judges.apis.writing import WritingApi
from evaluators.judges.capabilities import Capabilities
from evaluators.judges.chats import Chat, text_of, with_parts
from evaluators.judges.completions import Choice, Completion, usage_of
from evaluators.judges.requests import Request

VERSION = "2023-06-01"
LONGEST_ANSWER = 4096
"""The length limit of an answer, in tokens, if none is configured: the format demands one."""

_MOST_NUMBERS = 101
"""The largest range of whole numbers that a schema lists one by one: the format takes no limits of numbers."""


def headers(api_key: str) -> Mapping[str, str]:
    """The key and the version of the format."""
    return {"x-api-key": api_key, "anthropic-version": VERSION}


def body(chat: Chat, request: Request, features: Capabilities, _samples: int) -> dict[str, Json]:
    """The request's JSON. The answer's form is an output format, else the input of a required tool."""
    system = [text_of(each) for each in chat if each["role"] == "system"]
    body: dict[str, Json] = {
        "model": request.model,
        "max_tokens": request.max_tokens or LONGEST_ANSWER,
        "system": [{"type": "text", "text": "\n\n".join(system), "cache_control": {"type": "ephemeral"}}],
        "messages": [
            _with_breakpoint(with_parts(each, _part), request.shared) for each in chat if each["role"] != "system"
        ],
    }
    if features.temperature:
        body["temperature"] = min(1.0, request.temperature)
    if features.format == "json_schema":
        schema = rewritten(request.schema, _without_limits)
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    elif features.format == "json_object":
        body["tools"] = [{"name": _TOOL, "description": "Takes the answer.", "input_schema": request.schema}]
        body["tool_choice"] = {"type": "tool", "name": _TOOL}
    body |= {name: request.optional[name] for name in features.optional}
    return body | dict(request.extra)


_TOOL = "answer"


def _with_breakpoint(message: dict[str, Json], shared: str) -> dict[str, Json]:
    """The message with a mark behind its shared beginning: the provider caches the prompt up to the mark."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if not shared or message["role"] != "user" or not parts[0]["text"].startswith(shared):
        return message
    first = {"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}}
    return {**message, "content": [first, {"type": "text", "text": parts[0]["text"].removeprefix(shared)}, *parts[1:]]}


def _part(part: Mapping[str, Any]) -> dict[str, Json]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    url: str = part["image_url"]["url"]
    head, is_data, data = url.partition(";base64,")
    if is_data:
        source = {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    else:
        source = {"type": "url", "url": url}
    return {"type": "image", "source": source}


def completion(content: bytes) -> Completion:
    """Read the body of a response with status 200.

    Raises:
        NoCompletion: the body is no message. HttpStatusError: it is an error with a code or a status of its own, which
        says what it means.
    """
    payload = object_in(content, "stop_reason")  # a refusal has no content
    parts = objects(payload.get("content"))
    called = [part.get("input") for part in parts if part.get("type") == "tool_use"]
    ended = ending(text(payload.get("stop_reason")))
    choice = Choice(
        text=orjson.dumps(called[0]).decode() if called else text_in(parts),
        finish_reason="length" if ended == "length" else "stop",
        refused=ended == "filtered",
    )
    return Completion([choice], model=text(payload.get("model")), usage=usage_of(payload.get("usage")))


def _without_limits(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose whole number is listed instead of limited."""
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") == "integer" and isinstance(lowest, int) and isinstance(highest, int):
        del schema["minimum"], schema["maximum"]
        if highest - lowest < _MOST_NUMBERS:
            schema["enum"] = list(range(lowest, highest + 1))
    return schema


ANTHROPIC = WritingApi(
    name="anthropic",
    path="/messages",
    body=body,
    completion=completion,
    headers=headers,
    abilities=lambda features: replace(features, multiple_choices=False, top_logprobs=0),
    shareable="text",
    vendor="ANTHROPIC",
    base_url="https://api.anthropic.com/v1",
)
