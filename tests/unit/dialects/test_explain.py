"""Output of `turns --explain`, by which users see why a turn is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import ASSEMBLER, TRACE, Trace, chat

from collector.assemble.explain import explain, format_lines


def said_of(trace: Trace, name: str) -> list[str]:
    """What is said of the first span of that name."""
    lines = list(format_lines(explain(TRACE, trace.pieces(), ASSEMBLER)))
    start = next(index for index, line in enumerate(lines) if repr(name) in line)
    rest = [line.strip() for line in lines[start + 1 :]]
    end = next((index for index, line in enumerate(rest) if line.startswith(("span ", "turn "))), len(rest))
    return rest[:end]


def around(held: dict[str, Any]) -> Trace:
    return Trace().span(1, "it", held, took=5).span(2, "chat", chat("Hi", "Hello there."), parent=1)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({"http.method": "GET"}, ["not read by any dialect"]),
        ({"session.id": "s"}, ["not read by any dialect; it has the id of the conversation"]),
        (
            {"session.id": "s", "user.id": "u"},
            ["not read by any dialect; it has the id of the conversation and the user"],
        ),
        (
            {"openinference.span.kind": "CHAIN", "input.value": "{}", "output.value": "Other words."},
            [
                "read by openinference as chain: output from output.value; nothing to read in input.value",
                "no turn: it encloses other spans and has no question of its own",
            ],
        ),
        (
            {"openinference.span.kind": "CHAIN", "input.value": "Hi", "output.value": "Other words."},
            [
                "read by openinference as chain: input from input.value, output from output.value",
                "no turn: it encloses other spans, and no model call inside confirms its answer",
            ],
        ),
        (
            {"openinference.span.kind": "LLM", "llm.input_messages.0.message.content": "Hi"},
            [
                "read by openinference as model: input from llm.input_messages.*",
                "is part of turn",
            ],
        ),
        (
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "Hi",
                "retrieval.document.0.document.content": "A passage.",
            },
            ["read by openinference as retrieval: no content; nothing to read in retrieval.documents.*", "no turn: "],
        ),
        (
            {"openinference.span.kind": "RETRIEVER", "output.value": '[{"content": "A passage."}]'},
            ["read by openinference as retrieval: passages from output.value", "no turn: "],
        ),
        (
            {"openinference.span.kind": "EMBEDDING"},
            [
                "read by openinference as other: no content",
                "no turn: embeddings, templates and the like have nothing to judge",
            ],
        ),
    ],
)
def test_what_is_said_of_a_span(held: dict[str, Any], wanted: list[str]) -> None:
    said = said_of(around(held), "it")
    assert [line[: len(want)] for line, want in zip(said, wanted, strict=True)] == wanted


def test_a_call_that_left_nothing_shows_no_answer() -> None:
    said = said_of(Trace().span(1, "it", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}), "it")
    assert said[-1] == "no turn: it shows no answer: no text, token count, finish reason or error"


def test_a_call_that_asks_for_a_tool_and_is_never_answered() -> None:
    asks = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "n", "arguments": {}}]}]
    )
    trace = Trace().span(1, "first", chat("Hi", None, **{"gen_ai.output.messages": asks}), took=2)
    trace.span(4, "chat", chat("Something else", "Hello there."))
    assert said_of(trace, "first")[-1].startswith(("becomes turn", "no turn: it requests a tool"))
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "n", "gen_ai.tool.call.id": "c"}
    assert (
        said_of(trace.span(2, "a tool", tool), "a tool")[-1]
        == "no turn: tool results are part of the turn that called the tool"
    )


def test_a_trace_without_a_model() -> None:
    trace = Trace().span(1, "GET /", {"http.method": "GET"})
    assert (
        list(format_lines(explain(TRACE, trace.pieces(), ASSEMBLER)))[-1] == "  no span or log record concerns a model"
    )


def test_missing_content_is_explained() -> None:
    held = chat("Hi", None, **{"gen_ai.output.messages_ref": "s3://bucket/1_outputs.json"})
    lines = said_of(Trace().span(1, "chat", held, dropped=3), "chat")
    assert lines[1:3] == ["output is incomplete: external_reference", "3 attributes dropped by the sender"]


def test_no_word_of_what_was_said_is_shown() -> None:
    lines = "\n".join(
        format_lines(
            explain(TRACE, around({"input.value": "secret-in", "output.value": "secret-out"}).pieces(), ASSEMBLER)
        )
    )
    assert "secret" not in lines
    assert "Hello" not in lines
