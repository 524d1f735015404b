"""Guards around an application's own model call, and those that call a model of their own."""

from __future__ import annotations

import json

from made_up import Trace

MESSAGES = [{"role": "user", "content": "Is it open today?"}]
OUTPUT = {
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Yes, until six o'clock.",
}


def test_a_guard_around_the_call_is_no_reason_to_leave_it_out() -> None:
    trace = Trace()
    kind = {"openinference.span.kind": "GUARDRAIL"}
    trace.span(
        1,
        "guard",
        {**kind, "type": "guardrails/guard", "input.value": "{'role': …}", "output.value": "Yes, until six o'clock."},
    )
    placeholder = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": ""}
    parameters = {"llm.invocation_parameters": repr({"temperature": 0, "messages": MESSAGES})}
    trace.span(
        2, "call", {**kind, "type": "guardrails/guard/step/call", **placeholder, **parameters, **OUTPUT}, parent=1
    )
    turn = trace.turn()
    assert (turn.input, turn.actual_output) == ("Is it open today?", "Yes, until six o'clock.")


def test_a_guard_with_a_model_of_its_own_answers_nobody() -> None:
    trace = Trace()
    trace.span(1, "moderation", {"openinference.span.kind": "GUARDRAIL", "input.value": "Is it open today?"})
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": json.dumps(MESSAGES)}
    trace.span(2, "judge", {"openinference.span.kind": "LLM", **asked, **OUTPUT}, parent=1)
    assert trace.turns() == []
