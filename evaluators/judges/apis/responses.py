"""OpenAI's Responses: `POST /responses`, for models that have nothing else. Nothing is stored at the provider."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from evaluators.cases import Json
from evaluators.judges.answer_places import ending, mapping, text_in
from evaluators.judges.apis.payload import object_in, objects, text
from evaluators.judges.apis.writing import WritingApi
from evaluators.judges.capabilities import Capabilities
from evaluators.judges.chats import Chat, with_parts
from evaluators.judges.completions import NULL, Choice, Completion, TokenEntry, read_passing_over, tokens_of, usage_of
from evaluators.judges.endpoint_meanings import THOUGHTS
from evaluators.judges.error_mapping import error_inside
from evaluators.judges.large_json import read_large
from evaluators.judges.requests import Request


def body(chat: Chat, request: Request, features: Capabilities, _samples: int) -> dict[str, Json]:
    """The request's JSON."""
    messages = [with_parts(message, _part) for message in chat]
    body: dict[str, Json] = {"model": request.model, "input": messages, "store": False}
    if features.temperature:
        body["temperature"] = request.temperature
    if request.max_tokens is not None and features.limit is not None:
        body["max_output_tokens"] = request.max_tokens
    if alternatives := request.alternatives(features.top_logprobs):
        body |= {"include": ["message.output_text.logprobs"], "top_logprobs": alternatives}
    if features.format == "json_schema":
        form = {"type": "json_schema", "name": request.form, "strict": True, "schema": request.schema}
        body["text"] = {"format": form}
    elif features.format == "json_object":
        body["text"] = {"format": {"type": "json_object"}}
    for name in features.optional:
        body |= {"reasoning": {"effort": request.optional[name]}} if name == _EFFORT else {name: request.optional[name]}
    return body | dict(request.extra)


_EFFORT = "reasoning_effort"


def _part(part: Mapping[str, Any]) -> dict[str, Json]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


class _PartForm(msgspec.Struct):
    type: msgspec.Raw = NULL
    text: msgspec.Raw = NULL
    logprobs: list[TokenEntry] | None = None


class _MessageForm(msgspec.Struct):
    type: msgspec.Raw = NULL
    content: list[_PartForm] | None = None
    arguments: msgspec.Raw = NULL


class _ResponseForm(msgspec.Struct):
    output: list[_MessageForm]
    incomplete_details: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    model: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL


_DECODER = msgspec.json.Decoder(_ResponseForm)


def completion(content: bytes) -> Completion:
    """Read the body of a response with status 200.

    Raises:
        NoCompletion: the body is no response of this kind, or holds no message. HttpStatusError: it is an error with a
        code or a status of its own, which says what it means.
    """
    form = read_passing_over(content, _DECODER)
    if form is None or not form["output"]:
        return read_large(content, lambda body: _made(object_in(body, "output")))
    return _made(form)


def _made(payload: Mapping[str, Any]) -> Completion:
    items = objects(payload.get("output"))
    messages = [item for item in items if item.get("type", "message") == "message"]
    parts = [part for message in messages for part in objects(message.get("content"))]
    ended = ending(mapping(payload.get("incomplete_details")).get("reason"))
    if payload.get("error"):
        raise error_inside(orjson.dumps({"error": payload["error"]}))
    written = [part for part in parts if part.get("type") not in (*THOUGHTS, "refusal")]
    choice = Choice(
        text=text_in(written) or next((text_in(item.get("arguments")) for item in items if "arguments" in item), ""),
        finish_reason="length" if ended == "length" else "stop",
        refused=ended == "filtered" or any(part.get("type") == "refusal" for part in parts),
        tokens=tokens_of(written[0].get("logprobs")) if len(written) == 1 else (),
    )
    return Completion([choice], model=text(payload.get("model")), usage=usage_of(payload.get("usage")))


RESPONSES = WritingApi(
    name="responses",
    path="/responses",
    body=body,
    completion=completion,
    abilities=lambda features: replace(features, multiple_choices=False),  # one answer a request
    takes_cache_key=True,
)
