"""Traces as public bug reports show them, each with what comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat, parts

from collector.otlp.decode import read_request, split_by_trace
from collector.receive.parsed_request import give_traces

EVALUATION = "gen_ai.evaluation.result"


@pytest.mark.parametrize(
    ("written", "value"),
    [({"gen_ai.evaluation.score.value": 0.0}, 0.0), ({"gen_ai.evaluation.score.label": "bad"}, None)],
)
def test_an_evaluation_is_an_event_of_the_judged_span(written: dict[str, Any], value: float | None) -> None:
    events = [(EVALUATION, {"gen_ai.evaluation.name": "thumbs", **written})]
    turn = Trace().span(1, "chat", chat("Is it open?", "No."), events=events).turn()
    assert [(said.name, said.value) for said in turn.feedback] == [("thumbs", value)]


def test_an_evaluation_that_failed_says_nothing() -> None:
    held = {"gen_ai.evaluation.name": "thumbs", "error.type": "timeout"}
    trace = Trace().span(1, "chat", chat("Is it open?", "No."), events=[(EVALUATION, held)])
    assert trace.record(1, EVALUATION, attributes=held).turn().feedback == ()


@pytest.mark.parametrize(
    "written",
    [
        json.dumps("No."),
        json.dumps(parts(("assistant", "No."))),
        [json.dumps(json.loads(parts(("assistant", "No.")))[0])],
    ],
)
def test_messages_may_be_encoded_once_too_often(written: Any) -> None:
    held = {**chat("Is it open?", "No."), "gen_ai.output.messages": written}
    assert Trace().span(1, "chat", held).turn().actual_output == "No."


def test_the_id_of_a_response_is_no_conversation_where_there_is_another() -> None:
    held = {**chat("Is it open?", "No."), "gen_ai.conversation.id": "resp_1"}
    assert Trace().span(1, "chat", held).turn().conversation_id == "resp_1"
    trace = Trace().span(1, "POST /chat", {"session.id": "c1"}, took=9).span(2, "chat", held, parent=1)
    assert trace.turn().conversation_id == "c1"


def test_claude_codes_log_records_need_no_span() -> None:
    trace = Trace(trace_id="00" * 16)
    for name, held in (("user_prompt", {"prompt": "Is it open?"}), ("assistant_response", {"response": "No."})):
        about = {"session.id": "c1", "prompt.id": "p1"}
        trace.record(None, name, attributes={**held, **about}, scope="com.anthropic.claude_code.events")
    assert give_traces(trace.logs)
    turn = trace.turn()
    assert (turn.conversation_id, turn.input, turn.actual_output) == ("c1", "Is it open?", "No.")


def test_claude_codes_spans_have_arguments_and_answers() -> None:
    scope = "com.anthropic.claude_code.tracing"
    trace = Trace().span(1, "claude_code.interaction", {"user_prompt": "Is it windy?"}, took=9, scope=scope)
    trace.span(
        2,
        "claude_code.tool",
        {"tool_name": "wind", "tool_input": '[TOOL INPUT: wind]\n{"place": "Endelave"}'},
        parent=1,
        scope=scope,
    )
    turn = trace.span(3, "claude_code.llm_request", {"response.model_output": "Yes."}, parent=1, scope=scope).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")
    assert [(call.name, call.arguments) for call in turn.tools_called] == [("wind", {"place": "Endelave"})]


def test_values_in_gos_own_json() -> None:
    attributes = [
        {"key": "text", "value": {"Value": {"StringValue": "a"}}},
        {"key": "list", "value": {"Value": {"ArrayValue": {"values": [{"Value": {"IntValue": 7}}]}}}},
    ]
    span = {"traceId": "5f" * 16, "spanId": "0a" * 8, "attributes": attributes}
    request = read_request(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode(), "traces")
    text, listed = request.resource_spans[0].scope_spans[0].spans[0].attributes
    assert text.value.string_value == "a"
    assert listed.value.array_value.values[0].int_value == 7
    assert split_by_trace(request).items == 1


def test_a_sub_agent_beside_its_caller_is_no_turn() -> None:
    call = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "t1", "name": "expert", "arguments": {"question": "Departures?"}}],
    }
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "It leaves at 07:50."}]}
    user = json.loads(parts(("user", "Plan my trip.")))
    trace = Trace().span(
        1, "chat", {**chat("Plan my trip.", ""), "gen_ai.output.messages": json.dumps([call])}, parent=9
    )
    trace.span(2, "chat", chat("Departures?", "It leaves at 07:50."), parent=9)
    last = {**chat("", "Take the boat."), "gen_ai.input.messages": json.dumps([*user, call, result])}
    assert [turn.input for turn in trace.span(3, "chat", last, parent=9).turns()] == ["Plan my trip."]


def test_voltagents_agent_has_question_and_answer_as_they_were() -> None:
    history = json.dumps([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}])
    held = {"entity.type": "agent", "agent.state": "completed", "conversation.id": "c1", "agent.messages": history}
    trace = Trace().span(
        1, "streamText", {**held, "input": "Is it calm?", "output": "Yes."}, took=9, scope="@voltagent/core"
    )
    model = {"entity.type": "agent", "span.type": "llm", "llm.model": "gpt-5-mini"}
    trace.span(2, "llm:streamText", model, parent=1, scope="@voltagent/core")
    turn = trace.turn()
    assert (turn.conversation_id, turn.input, turn.actual_output, turn.error) == ("c1", "Is it calm?", "Yes.", None)
    failed = Trace().span(1, "streamText", {**held, "agent.state": "error", "input": "Is it calm?"}, error="503")
    assert failed.turn().error == "503"
