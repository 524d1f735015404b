"""Google's Agent Development Kit of generation 1, its SDK's instrumentation, and what others write of Gemini."""

from __future__ import annotations

import json
from typing import Any

from made_up import Trace, facts

ADK = "gcp.vertex.agent"
CONTENTS: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Is it windy in Skagen?"}]}]
ASKS = {"role": "model", "parts": [{"function_call": {"id": "adk-1", "args": {"place": "Skagen"}, "name": "get_wind"}}]}
ANSWERED = {
    "role": "user",
    "parts": [{"function_response": {"id": "adk-1", "name": "get_wind", "response": {"result": "11 m/s"}}}],
}
ANSWER = {"role": "model", "parts": [{"text": "Let me see", "thought": True}, {"text": "Yes, 11 m/s."}]}


def call_llm(contents: list[dict[str, Any]], response: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    request = {
        "model": "gemini-2.0-flash",
        "config": {"system_instruction": "You know the wind.", "tools": [{"function_declarations": [{"name": "x"}]}]},
        "contents": contents,
    }
    return {
        "gen_ai.system": ADK,
        "gen_ai.request.model": "gemini-2.0-flash",
        f"{ADK}.invocation_id": "e-1",
        f"{ADK}.session_id": "s-1",
        f"{ADK}.event_id": "ev",
        f"{ADK}.llm_request": json.dumps(request),
        f"{ADK}.llm_response": json.dumps(response) if response is not None else "{}",
        **more,
    }


def response(content: dict[str, Any], given: int = 20, taken: int = 5) -> dict[str, Any]:
    usage = {"prompt_token_count": given, "candidates_token_count": taken, "total_token_count": given + taken}
    return {"content": content, "finish_reason": "STOP", "usage_metadata": usage, "partial": False}


def tool(name: str, call_id: str, given: Any, came: Any) -> dict[str, Any]:
    return {
        "gen_ai.system": ADK,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.description": name,
        "gen_ai.tool.call.id": call_id,
        f"{ADK}.tool_call_args": json.dumps(given) if given is not None else "N/A",
        f"{ADK}.tool_response": json.dumps(came),
        f"{ADK}.event_id": "ev",
        f"{ADK}.llm_request": "{}",
        f"{ADK}.llm_response": "{}",
    }


def test_a_run_with_a_tool() -> None:
    trace = Trace().span(1, "invocation", took=9).span(2, "agent_run [weather]", parent=1, took=8)
    trace.span(3, "call_llm", call_llm(CONTENTS, response(ASKS)), parent=2, scope=ADK)
    trace.span(
        4, "execute_tool get_wind", tool("get_wind", "adk-1", {"place": "Skagen"}, {"result": "11 m/s"}), parent=2
    )
    trace.span(5, "call_llm", call_llm([*CONTENTS, ASKS, ANSWERED], response(ANSWER, 40, 9)), parent=2, scope=ADK)
    assert facts(trace.turn()) == {
        "input": "Is it windy in Skagen?",
        "answer": "Yes, 11 m/s.",
        "system": "You know the wind.",
        "tools": [("get_wind", {"place": "Skagen"}, {"result": "11 m/s"})],
        "tokens": (60, 14),
        "model": "gemini-2.0-flash",
        "conversation": "s-1",
    }


def test_parallel_tools_have_a_span_that_merges_them() -> None:
    asks = {
        "role": "model",
        "parts": [
            {"function_call": {"id": f"adk-{place}", "args": {"place": place}, "name": "get_wind"}}
            for place in ("Skagen", "Esbjerg")
        ],
    }
    answers = {
        "role": "user",
        "parts": [
            {"function_response": {"id": f"adk-{place}", "name": "get_wind", "response": {"ms": number}}}
            for place, number in (("Skagen", 11), ("Esbjerg", 7))
        ],
    }
    trace = Trace().span(1, "invocation", took=9)
    trace.span(2, "call_llm", call_llm(CONTENTS, response(asks)), parent=1)
    trace.span(3, "execute_tool get_wind", tool("get_wind", "adk-Skagen", {"place": "Skagen"}, {"ms": 11}), parent=1)
    trace.span(4, "execute_tool get_wind", tool("get_wind", "adk-Esbjerg", {"place": "Esbjerg"}, {"ms": 7}), parent=1)
    trace.span(5, "execute_tool (merged)", tool("(merged tools)", "0b1c", None, "<not serializable>"), parent=1)
    trace.span(6, "call_llm", call_llm([*CONTENTS, asks, answers], response(ANSWER)), parent=1)
    assert facts(trace.turn())["tools"] == [
        ("get_wind", {"place": "Skagen"}, {"ms": 11}),
        ("get_wind", {"place": "Esbjerg"}, {"ms": 7}),
    ]


def test_the_clients_own_span_below_is_the_same_call() -> None:
    below = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.system": "gemini",
        "gen_ai.request.model": "gemini-2.0-flash",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    trace = Trace().span(1, "invocation", took=9)
    trace.span(2, "call_llm", call_llm(CONTENTS, response(ANSWER)), parent=1, took=3)
    trace.span(3, "generate_content gemini-2.0-flash", below, parent=2, at=2.1)
    turn = trace.turn()
    assert (turn.actual_output, facts(turn)["tokens"]) == ("Yes, 11 m/s.", (20, 5))


def test_content_switched_off() -> None:
    spare = {f"{ADK}.llm_request": "{}", f"{ADK}.llm_response": "{}", "gen_ai.usage.input_tokens": 20}
    turn = Trace().span(1, "invocation").span(2, "call_llm", call_llm(CONTENTS, None, **spare), parent=1).turn()
    assert facts(turn) == {
        "tokens": (20, 0), "model": "gemini-2.0-flash", "conversation": "s-1", "incomplete": "no_content",
    }  # fmt: skip


def test_a_sub_agents_answer_is_not_another_turn() -> None:
    """A coordinator hands over; the agent that takes over answers the same words of the user."""
    hand = {
        "role": "model",
        "parts": [{"function_call": {"id": "t", "args": {"agent_name": "wind"}, "name": "transfer_to_agent"}}],
    }
    handed = {
        "role": "user",
        "parts": [{"function_response": {"id": "t", "name": "transfer_to_agent", "response": {"result": None}}}],
    }
    context = {"role": "user", "parts": [{"text": "For context:"}, {"text": "[boss] called tool `transfer_to_agent`"}]}
    del handed["parts"][0]["function_response"]["response"]
    trace = Trace().span(1, "invocation", took=20).span(2, "invoke_agent boss", parent=1, took=18)
    trace.span(3, "call_llm", call_llm(CONTENTS, response(hand)), parent=2)
    trace.span(
        4,
        "execute_tool transfer_to_agent",
        tool("transfer_to_agent", "t", {"agent_name": "wind"}, {"result": None}),
        parent=2,
    )
    trace.span(5, "invoke_agent wind", parent=2, took=6)
    trace.span(6, "call_llm", call_llm([*CONTENTS, context], response(ANSWER)), parent=5)
    turns = trace.turns()
    assert [turn.actual_output for turn in turns] == ["Yes, 11 m/s."]
    assert turns[0].input == "Is it windy in Skagen?"


def test_an_error_has_interval_by_the_response() -> None:
    failed = {"error_code": "SAFETY", "error_message": "blocked by the safety filter", "finish_reason": "SAFETY"}
    turn = Trace().span(1, "call_llm", call_llm(CONTENTS, failed)).turn()
    assert facts(turn)["error"] == "blocked by the safety filter"
    assert "answer" not in facts(turn)


def test_the_sdks_events() -> None:
    """Contents in bodies, the role inside; the answer has a content of its own beside its finish reason."""
    span = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.system": "gemini",
        "gen_ai.request.model": "gemini-2.0-flash",
        "code.function.name": "google.genai.Models.generate_content",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    system = {"gen_ai.system": "gemini"}
    trace = Trace().span(1, "generate_content gemini-2.0-flash", span)
    trace.record(1, "gen_ai.system.message", {"content": "You know the wind."}, system)
    trace.record(1, "gen_ai.user.message", {"content": CONTENTS[0]}, system)
    trace.record(1, "gen_ai.user.message", {"content": ASKS}, system)
    trace.record(1, "gen_ai.user.message", {"content": ANSWERED}, system)
    choice = {"index": 0, "content": ANSWER, "finish_reason": "STOP"}
    trace.record(1, "gen_ai.choice", choice, system)
    turn = trace.turn()
    assert facts(turn) == {
        "input": "Is it windy in Skagen?",
        "answer": "Yes, 11 m/s.",
        "system": "You know the wind.",
        "tools": [("get_wind", {"place": "Skagen"}, {"result": "11 m/s"})],
        "tokens": (20, 5),
        "model": "gemini-2.0-flash",
    }


def test_the_sdks_plain_contents() -> None:
    """`contents` may be a text or a list of texts and parts."""
    for contents in (
        "Is it windy?",
        ["Is it windy?"],
        [{"text": "Is it windy?"}],
        {"parts": [{"text": "Is it windy?"}]},
    ):
        trace = Trace().span(
            1, "generate_content m", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "m"}
        )
        trace.record(1, "gen_ai.user.message", {"content": contents})
        trace.record(1, "gen_ai.choice", {"index": 0, "content": ANSWER, "finish_reason": "STOP"})
        assert (trace.turn().input, trace.turn().actual_output) == ("Is it windy?", "Yes, 11 m/s."), contents


def test_streamed_choices_are_one_answer() -> None:
    """The SDK tells every chunk of a stream as a choice of its own, all of index 0."""
    trace = Trace().span(
        1, "generate_content m", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "m"}
    )
    trace.record(1, "gen_ai.user.message", {"content": CONTENTS[0]})
    for text, reason in (("Yes, ", None), ("11 ", None), ("m/s.", "STOP")):
        body = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}
        trace.record(1, "gen_ai.choice", {**body, "finish_reason": reason} if reason else body)
    assert trace.turn().actual_output == "Yes, 11 m/s."


def test_streamed_output_messages_are_one_answer() -> None:
    messages = [
        {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}
        for text, reason in (("Yes, ", ""), ("11 ", ""), ("m/s.", "stop"))
    ]
    span = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]}]),
        "gen_ai.output.messages": json.dumps(messages),
    }
    assert Trace().span(1, "generate_content m", span).turn().actual_output == "Yes, 11 m/s."


def test_elided_contents() -> None:
    trace = Trace().span(
        1, "generate_content m", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "m"}
    )
    trace.record(1, "gen_ai.user.message", {"content": "<elided>"})
    trace.record(1, "gen_ai.choice", {"index": 0, "content": "<elided>", "finish_reason": "STOP"})
    assert trace.turn().incomplete == "redacted"
