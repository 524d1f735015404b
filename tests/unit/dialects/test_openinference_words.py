"""OpenInference for JavaScript: messages in parts are left out, or written as JSON; the raw request has the words."""

from __future__ import annotations

import json

from made_up import Trace

SYSTEM = "You rent kayaks."
PARTS = [{"type": "text", "text": SYSTEM}]


def call(raw: object, **indexed: str) -> dict[str, object]:
    attributes = {f"llm.input_messages.{key.replace('_', '.message.', 1)}": value for key, value in indexed.items()}
    return {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps(raw),
        "input.mime_type": "application/json",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Yes.",
        **{key.replace("input_messages.m", "input_messages."): value for key, value in attributes.items()},
    }


def test_words_that_the_indexed_messages_lack_are_those_of_the_request() -> None:
    raw = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    ]
    raw.append({"role": "user", "content": "Is it open?"})
    trace = Trace()
    indexed = {
        "m0_role": "system",
        "m0_content": SYSTEM,
        "m1_role": "user",
        "m1_content": "Hello",
        "m2_role": "assistant",
    }
    trace.span(1, "response", call(raw, **indexed, m3_role="user", m3_content="Is it open?"))
    [turn] = trace.turns()
    assert (turn.system_prompt, turn.input) == (SYSTEM, "Is it open?")
    assert [each.content for each in turn.history] == ["Hello", "Hi."]


def test_a_request_that_is_of_another_conversation_is_not_used() -> None:
    raw = [{"role": "user", "content": "Other words"}, {"role": "user", "content": "Is it open?"}]
    trace = Trace()
    trace.span(
        1,
        "response",
        call(raw, m0_role="user", m0_content="Hello", m1_role="assistant", m2_role="user", m2_content="Is it open?"),
    )
    [turn] = trace.turns()
    assert [each.content for each in turn.history] == ["Hello", ""]


def test_a_message_that_is_the_json_of_its_parts_is_taken_apart() -> None:
    trace = Trace()
    trace.span(
        1, "call", call("?", m0_role="system", m0_content=json.dumps(PARTS), m1_role="user", m1_content="Is it open?")
    )
    [turn] = trace.turns()
    assert (turn.system_prompt, turn.input) == (SYSTEM, "Is it open?")
