"""LiteLLM: its request span in three generations, the raw request below it, and its log records."""

from __future__ import annotations

import json
from typing import Any

from made_up import Trace, facts

CALL = {"id": "c1", "type": "function", "function": {"name": "get_wind", "arguments": '{"place": "Skagen"}'}}


def request(**more: Any) -> dict[str, Any]:
    return {
        "gen_ai.request.model": "gpt-x",
        "llm.request.type": "completion",
        "gen_ai.system": "openai",
        "llm.is_streaming": "False",
        "llm.user": "u-9",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.usage.prompt_tokens": 25,
        "gen_ai.usage.completion_tokens": 7,
        "metadata.requester_metadata": "{'session_id': 's-1'}",
        **more,
    }


def test_indexed_messages_get_their_tool_calls_from_the_raw_request() -> None:
    messages = [
        {"role": "user", "content": "Is it windy?"},
        {"role": "assistant", "tool_calls": [CALL], "provider_specific_fields": {"refusal": None}},
        {"role": "tool", "tool_call_id": "c1", "content": "11"},
    ]
    choices = [
        {"finish_reason": "stop", "index": 0, "message": {"content": "Yes.", "role": "assistant", "tool_calls": None}}
    ]
    above = request(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Is it windy?",
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.content": "11",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Yes.",
        "gen_ai.completion.0.finish_reason": "stop",
    })  # fmt: skip
    raw = {"llm.openai.messages": repr(messages), "llm.openai.choices": repr(choices), "llm.openai.id": "chatcmpl-1"}
    trace = Trace().span(1, "litellm_request", above, scope="litellm", took=2)
    turn = trace.span(2, "raw_gen_ai_request", raw, parent=1, at=1.1, scope="litellm").turn()
    assert turn.span_id == f"{1:016x}"
    assert facts(turn) == {
        "input": "Is it windy?",
        "answer": "Yes.",
        "tools": [("get_wind", {"place": "Skagen"}, "11")],
        "tokens": (25, 7),
        "model": "gpt-x-2026",
        "response": "chatcmpl-1",
        "conversation": "s-1",
        "user": "u-9",
    }


def test_a_proxys_own_span_may_be_the_call() -> None:
    above = request(**{
        "gen_ai.operation.name": "acompletion",
        "llm.request.type": "acompletion",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "Hello."}], "finish_reason": "stop"}]
        ),
    })  # fmt: skip
    turn = Trace().span(1, "Received Proxy Server Request", above, scope="litellm").turn()
    assert (turn.input, turn.actual_output, turn.user_id) == ("Hi", "Hello.", "u-9")


def test_parallel_tool_calls_are_indexed_beside_the_answer() -> None:
    """Each call has the index of its own, as if it were a choice."""
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]}])
    asks = request(**{
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": said,
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]),
        "gen_ai.response.finish_reasons": '["tool_calls"]',
        "gen_ai.completion.0.function_call.name": "get_wind",
        "gen_ai.completion.0.function_call.arguments": '{"place": "Skagen"}',
        "gen_ai.completion.1.function_call.name": "get_wind",
        "gen_ai.completion.1.function_call.arguments": '{"place": "Esbjerg"}',
    })  # fmt: skip
    after = [
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {
            "role": "assistant",
            "parts": [],
            "tool_calls": [
                {**CALL, "id": place, "function": {"name": "get_wind", "arguments": json.dumps({"place": place})}}
                for place in ("Skagen", "Esbjerg")
            ],
        },
        *(
            {"role": "tool", "parts": [{"type": "text", "content": wind}], "tool_call_id": place}
            for place, wind in (("Skagen", "11"), ("Esbjerg", "7"))
        ),
    ]
    answers = request(**{
        "gen_ai.operation.name": "chat",
        "gen_ai.response.id": "chatcmpl-2",
        "gen_ai.input.messages": json.dumps(after),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]}]),
    })  # fmt: skip
    trace = Trace().span(1, "handle", took=9).span(2, "litellm_request", asks, parent=1, scope="litellm")
    turn = trace.span(3, "litellm_request", answers, parent=1, scope="litellm").turn()
    assert facts(turn)["tools"] == [("get_wind", {"place": "Skagen"}, "11"), ("get_wind", {"place": "Esbjerg"}, "7")]


def test_a_raw_answer_of_anthropic() -> None:
    raw = {
        "llm.anthropic.messages": "[{'role': 'user', 'content': 'Hi'}]",
        "llm.anthropic.content": "[{'type': 'text', 'text': 'Hello.'}]",
        "llm.anthropic.id": "msg-1",
        "llm.anthropic.stop_reason": "end_turn",
        "llm.anthropic.usage": "{'input_tokens': 3, 'output_tokens': 2}",
    }
    above = request(**{"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi"})
    trace = Trace().span(1, "litellm_request", above, scope="litellm", took=2)
    turn = trace.span(2, "raw_gen_ai_request", raw, parent=1, at=1.1, scope="litellm").turn()
    assert (turn.input, turn.actual_output) == ("Hi", "Hello.")


def test_a_failure_without_a_message_tells_its_error() -> None:
    held = request(
        **{
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "Hi",
            "error.message": "rate limit",
            "error.type": "RateLimitError",
        }
    )
    turn = Trace().span(1, "litellm_request", held, scope="litellm", error="").turn()
    assert turn.error == "RateLimitError: rate limit"


def test_content_in_log_records() -> None:
    held = request(**{"gen_ai.operation.name": "chat"})
    trace = Trace().span(1, "litellm_request", held, scope="litellm")
    trace.record(
        1,
        "",
        {"role": "system", "content": "Be short."},
        {"event_name": "gen_ai.content.prompt", "gen_ai.prompt": "Be short."},
    )
    trace.record(
        1, "", {"role": "user", "content": "Hi"}, {"event_name": "gen_ai.content.prompt", "gen_ai.prompt": "Hi"}
    )
    body = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}
    trace.record(1, "", body, {"event_name": "gen_ai.content.completion", "finish_reason": "stop"})
    turn = trace.turn()
    assert (turn.system_prompt, turn.input, turn.actual_output) == ("Be short.", "Hi", "Hello.")
