"""Streams' bodies, as clients that do not know the model record them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.dialects.traceloop import parse_raw_stream


def lines(*chunks: Any, beginning: str = "") -> str:
    return "".join(f"{beginning}{json.dumps(each)}\n" for each in chunks)


BODIES = {
    "openai": lines({"choices": [{"delta": {"content": "It is "}}]}, {"choices": [{"delta": {"content": "open."}}]}),
    "events": "event: message\n" + lines({"choices": [{"text": "It is "}]}, {"choices": [{"text": "open."}]}, beginning="data: ")
    + "data: [DONE]\n",
    "anthropic": lines(
        {"type": "message_start"}, {"delta": {"type": "text_delta", "text": "It is "}}, {"delta": {"text": "open."}},
        beginning="data:",
    ),
    "tgi": lines({"token": {"text": "It is "}}, {"token": {"text": "open."}}, {"token": {"text": "</s>", "special": True}}),
    "djl": lines({"outputs": "It is "}, {"outputs": "open."}),
}  # fmt: skip


@pytest.mark.parametrize("shape", sorted(BODIES))
def test_the_pieces_of_an_answer_are_joined(shape: str) -> None:
    [message] = parse_raw_stream(BODIES[shape]) or ()
    assert (message.role, message.text) == ("assistant", "It is open.")


def test_the_pieces_of_a_tool_call_are_joined() -> None:
    first = {"index": 0, "id": "call_1", "function": {"name": "get_wind", "arguments": '{"place":'}}
    rest = {"index": 0, "function": {"arguments": ' "Skagen"}'}}
    body = lines(*({"choices": [{"delta": {"tool_calls": [each]}}]} for each in (first, rest)))
    [message] = parse_raw_stream(body) or ()
    [call] = message.tool_calls
    assert (call.id, call.name, call.arguments) == ("call_1", "get_wind", {"place": "Skagen"})


@pytest.mark.parametrize(
    "value", [None, 3, "", "One line.", "It is open.\nUntil six.", '{"a": 1}\nand words', "{}\n{}\n"]
)
def test_anything_else_is_no_stream(value: object) -> None:
    assert parse_raw_stream(value) is None  # type: ignore[arg-type]
