"""What `normalize --explain` says of a trace: the way for a user to see why a turn is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import ASSEMBLER, TRACE, Trace, chat

from collector.assemble.explain import explain, lines_of


def said_of(trace: Trace, name: str) -> list[str]:
    """What is said of the first span of that name."""
    lines = list(lines_of(explain(TRACE, trace.pieces(), ASSEMBLER)))
    start = next(index for index, line in enumerate(lines) if repr(name) in line)
    rest = [line.strip() for line in lines[start + 1 :]]
    end = next((index for index, line in enumerate(rest) if line.startswith(("span ", "turn "))), len(rest))
    return rest[:end]


def around(held: dict[str, Any]) -> Trace:
    return Trace().span(1, "it", held, took=5).span(2, "chat", chat("Hi", "Hello there."), parent=1)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({"http.method": "GET"}, ["no dialect reads it"]),
        ({"session.id": "s"}, ["no dialect reads it; it names the conversation"]),
        ({"session.id": "s", "user.id": "u"}, ["no dialect reads it; it names the conversation and the user"]),
        (
            {"openinference.span.kind": "CHAIN", "input.value": "{}", "output.value": "Other words."},
            [
                "openinference reads it as chain: output in output.value; nothing that somebody said in input.value",
                "makes no turn: it goes around other spans and tells no question itself",
            ],
        ),
        (
            {"openinference.span.kind": "CHAIN", "input.value": "Hi", "output.value": "Other words."},
            [
                "openinference reads it as chain: input in input.value, output in output.value",
                "makes no turn: it goes around other spans, and no model call in it confirms what it tells",
            ],
        ),
        (
            {"openinference.span.kind": "LLM", "llm.input_messages.0.message.content": "Hi"},
            [
                "openinference reads it as model: input in llm.input_messages.*",
                "is part of turn",
            ],
        ),
        (
            {"openinference.span.kind": "EMBEDDING"},
            [
                "openinference reads it as other, and finds no content in it",
                "makes no turn: there is nothing to judge in embeddings, templates and the like",
            ],
        ),
    ],
)
def test_what_is_said_of_a_span(held: dict[str, Any], wanted: list[str]) -> None:
    said = said_of(around(held), "it")
    assert [line[: len(want)] for line, want in zip(said, wanted, strict=True)] == wanted


def test_a_call_that_asks_for_a_tool_and_is_never_answered() -> None:
    asks = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "n", "arguments": {}}]}]
    )
    trace = Trace().span(1, "first", chat("Hi", None, **{"gen_ai.output.messages": asks}), took=2)
    trace.span(4, "chat", chat("Something else", "Hello there."))
    assert said_of(trace, "first")[-1].startswith(("makes turn", "makes no turn: it asks for a tool"))
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "n", "gen_ai.tool.call.id": "c"}
    assert (
        said_of(trace.span(2, "a tool", tool), "a tool")[-1]
        == "makes no turn: what a tool did is told with the turn that called it"
    )


def test_a_trace_without_a_model() -> None:
    trace = Trace().span(1, "GET /", {"http.method": "GET"})
    assert list(lines_of(explain(TRACE, trace.pieces(), ASSEMBLER)))[-1] == "  no span or record of it concerns a model"


def test_holes_are_said() -> None:
    held = chat("Hi", None, **{"gen_ai.output.messages_ref": "s3://bucket/1_outputs.json"})
    lines = said_of(Trace().span(1, "chat", held, dropped=3), "chat")
    assert lines[1:3] == ["output: external_reference", "3 attributes were dropped by the sender"]


def test_no_word_of_what_was_said_is_shown() -> None:
    lines = "\n".join(
        lines_of(explain(TRACE, around({"input.value": "secret-in", "output.value": "secret-out"}).pieces(), ASSEMBLER))
    )
    assert "secret" not in lines
    assert "Hello" not in lines
