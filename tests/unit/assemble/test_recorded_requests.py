"""Calls whose output was not recorded: a later call's history shows which tools they requested."""

from __future__ import annotations

import json

from made_up import Trace

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it windy?"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_wind", "arguments": '{"place": "Skagen"}'}}
ROUND = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "11"},
]


def call(messages: list[dict], answer: str | None = None) -> dict[str, object]:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "input": json.dumps(messages)}
    return {**attributes, "gen_ai.usage.output_tokens": 5, **({"output": answer} if answer else {})}


def test_a_request_for_tools_that_only_the_history_has_is_a_step_of_its_turn() -> None:
    trace = Trace()
    trace.span(1, "llm", call(MESSAGES))
    trace.span(2, "llm", call([*MESSAGES, *ROUND], "Yes, 11 m/s."))
    turn = trace.turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Is it windy?", "Yes, 11 m/s.", None)
    [tool] = turn.tools_called
    assert (tool.name, tool.arguments, tool.result) == ("get_wind", {"place": "Skagen"}, "11")
    assert turn.usage is not None
    assert turn.usage.output_tokens == 10


def test_another_conversation_is_no_evidence() -> None:
    trace = Trace()
    trace.span(1, "llm", call([MESSAGES[0], {"role": "user", "content": "Is it open?"}]))
    trace.span(2, "llm", call([*MESSAGES, *ROUND], "Yes, 11 m/s."))
    assert [(turn.input, turn.incomplete) for turn in trace.turns()] == [
        ("Is it open?", "no_content"),
        ("Is it windy?", None),
    ]


def test_a_call_without_an_answer_that_failed_has_its_question() -> None:
    trace = Trace()
    trace.span(1, "llm", call(MESSAGES), error="it failed")
    turn = trace.turn()
    assert turn.error
    assert turn.input == "Is it windy?"


def test_a_memory_that_dropped_the_oldest_messages_between_request_and_answer() -> None:
    earlier = [{"role": "user", "content": "Are you open?"}, {"role": "assistant", "content": "Yes."}]
    asked = {"role": "user", "content": "Is it windy?"}
    trace = Trace()
    trace.span(1, "llm", {**call([*earlier, asked]), "gen_ai.response.finish_reasons": "tool_calls"})
    trace.span(2, "llm", call([earlier[1], asked, *ROUND], "Yes, 11 m/s."))
    turn = trace.turn()
    assert (turn.input, turn.actual_output, turn.model_calls) == ("Is it windy?", "Yes, 11 m/s.", 2)
