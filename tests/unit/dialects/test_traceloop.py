"""OpenLLMetry's indexed attributes as its instrumentations of the providers write them, and its frameworks' tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, facts


def indexed(**more: Any) -> dict[str, Any]:
    return {"llm.request.type": "chat", "gen_ai.request.model": "m-1", "gen_ai.system": "Anthropic", **more}


def test_anthropic_with_thoughts_and_tools() -> None:
    """Thoughts are a completion of their own; blocks are JSON; a user's message holds the tools' results."""
    question = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be short.",
                "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "Is it windy?"}  # fmt: skip
    use = {"type": "tool_use", "id": "t1", "name": "get_wind", "input": {"place": "Skagen"}}
    asks = indexed(**question, **{
        "gen_ai.completion.0.finish_reason": "tool_use",
        "gen_ai.completion.0.role": "thinking",
        "gen_ai.completion.0.content": "I need the wind.",
        "gen_ai.completion.1.role": "assistant",
        "gen_ai.completion.1.content": "Let me look.",
        "gen_ai.completion.1.tool_calls.0.id": "t1",
        "gen_ai.completion.1.tool_calls.0.name": "get_wind",
        "gen_ai.completion.1.tool_calls.0.arguments": '{"place": "Skagen"}',
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.completion_tokens": 5,
    })  # fmt: skip
    answers = indexed(**question, **{
        "gen_ai.prompt.2.role": "assistant",
        "gen_ai.prompt.2.content": json.dumps([{"type": "text", "text": "Let me look."}, use]),
        "gen_ai.prompt.2.tool_calls.0.id": "t1",
        "gen_ai.prompt.2.tool_calls.0.name": "get_wind",
        "gen_ai.prompt.2.tool_calls.0.arguments": '{"place": "Skagen"}',
        "gen_ai.prompt.3.role": "user",
        "gen_ai.prompt.3.content": json.dumps([{"type": "tool_result", "tool_use_id": "t1", "content": "11 m/s"}]),
        "gen_ai.completion.0.finish_reason": "end_turn",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Yes, 11 m/s.",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.completion_tokens": 6,
    })  # fmt: skip
    trace = Trace().span(1, "handle", took=5)
    turn = trace.span(2, "anthropic.chat", asks, parent=1).span(3, "anthropic.chat", answers, parent=1).turn()
    assert facts(turn) == {
        "input": "Is it windy?",
        "answer": "Yes, 11 m/s.",
        "system": "Be short.",
        "tools": [("get_wind", {"place": "Skagen"}, "11 m/s")],
        "tokens": (30, 11),
        "model": "m-1",
    }


def test_thoughts_before_an_answer_are_not_the_answer() -> None:
    held = indexed(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Is it windy?",
        "gen_ai.completion.0.role": "thinking",
        "gen_ai.completion.0.content": "Hm, the wind.",
        "gen_ai.completion.1.role": "assistant",
        "gen_ai.completion.1.content": "Yes.",
    })  # fmt: skip
    assert Trace().span(1, "anthropic.chat", held).turn().actual_output == "Yes."


@pytest.mark.parametrize(
    ("given", "came"),
    [
        ({"gen_ai.prompt.0.user": "Is it windy?"}, {"gen_ai.completion.0.content": "Yes."}),
        (
            {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": '"Is it windy?"'},
            {"gen_ai.completion.0.content": '[{"type": "text", "text": "Yes."}]'},
        ),
        (
            {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": '[{"text": "Is it windy?"}]'},
            {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": '[{"text": "Yes."}]'},
        ),
        (
            {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": '[{"type": "text", "text": "Is it windy?"}]'},
            {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Yes."},
        ),
        (
            {"gen_ai.prompt.0.content": "Is it windy?"},
            {"gen_ai.completion.0.content": "Yes.", "gen_ai.completion.0.finish_reason": "COMPLETE"},
        ),
    ],
    ids=["prompt under user", "bedrock anthropic", "bedrock converse", "gemini", "cohere"],
)
def test_providers_write_contents_differently(given: dict[str, Any], came: dict[str, Any]) -> None:
    scope = "opentelemetry.instrumentation.bedrock"
    turn = Trace().span(1, "call", {**indexed(), **given, **came}, scope=scope).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")


def test_what_looks_like_json_is_what_was_said_elsewhere() -> None:
    held = indexed(**{"gen_ai.prompt.0.content": '"Is it?"', "gen_ai.completion.0.content": '[{"text": "Yes."}]'})
    turn = Trace().span(1, "openai.chat", held, scope="opentelemetry.instrumentation.openai.v1").turn()
    assert (turn.input, turn.actual_output) == ('"Is it?"', '[{"text": "Yes."}]')


def test_a_rerank_is_no_answer() -> None:
    held = {
        "llm.request.type": "rerank",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "A document.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "Is it windy?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Doc 0, Score: 0.9\nA document.",
    }
    assert Trace().span(1, "cohere.rerank", held).turns() == []


def test_attributes_that_were_evicted_leave_gaps() -> None:
    """The oldest attributes go first: the system prompt and the beginning of the conversation."""
    held = indexed(**{"gen_ai.prompt.58.content": "And in May?", "gen_ai.completion.0.content": "It is calmer."})
    held |= {"gen_ai.prompt.57.role": "assistant", "gen_ai.prompt.57.content": "Yes.", "gen_ai.prompt.58.role": "user"}
    turn = Trace().span(1, "openai.chat", held, dropped=40).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("And in May?", "It is calmer.", None)


def test_the_sdk_for_go_has_names_of_its_own() -> None:
    held = {
        "llm.request.type": "chat", "llm.vendor": "openai", "llm.request.model": "m-1", "llm.usage.prompt_tokens": 4, "llm.usage.completion_tokens": 2,
        "llm.prompts.0.role": "user", "llm.prompts.0.content": "Is it windy?", "llm.prompts.1.role": "assistant", "llm.prompts.1.content": "",
        "llm.prompts.1.tool_calls.0.id": "c1", "llm.prompts.1.tool_calls.0.name": "get_wind", "llm.prompts.1.tool_calls.0.arguments": "{}",
        "llm.prompts.2.role": "tool", "llm.prompts.2.content": "11", "llm.completions.0.role": "assistant", "llm.completions.0.content": "Yes.",
    }  # fmt: skip
    assert facts(Trace().span(1, "openai.chat", held).turn()) == {
        "input": "Is it windy?", "answer": "Yes.", "tools": [("get_wind", {}, "11")], "tokens": (4, 2), "model": "m-1",
    }  # fmt: skip


def test_legacy_functions() -> None:
    asks = indexed(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Is it windy?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "function_call",
        "gen_ai.completion.0.function_call.name": "get_wind",
        "gen_ai.completion.0.function_call.arguments": '{"place": "Skagen"}',
    })  # fmt: skip
    answers = indexed(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Is it windy?",
        "gen_ai.prompt.1.role": "function",
        "gen_ai.prompt.1.content": "11",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Yes.",
    })  # fmt: skip
    turn = Trace().span(1, "h", took=5).span(2, "a", asks, parent=1).span(3, "b", answers, parent=1).turn()
    assert facts(turn)["tools"] == [("get_wind", {"place": "Skagen"}, "11")]


def test_a_vector_database_tells_its_results_as_events() -> None:
    found = [
        (
            "db.query.result",
            {
                "db.query.result.id": "d1",
                "db.query.result.document": "Kayaks cost 30 euros.",
                "db.query.result.distance": 0.2,
            },
        )
    ]
    model = indexed(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "What do kayaks cost?",
        "gen_ai.completion.0.content": "30 euros.",
    })  # fmt: skip
    trace = Trace().span(1, "h", took=5).span(2, "chroma.query", {"db.system": "chroma"}, parent=1, events=found)
    assert facts(trace.span(3, "openai.chat", model, parent=1).turn())["context"] == ["Kayaks cost 30 euros."]


def request(question: str) -> str:
    blocks = [{"block_type": "text", "text": question}]
    return json.dumps({"messages": [{"role": "user", "additional_kwargs": {}, "blocks": blocks}], "kwargs": {}})


def test_llamaindex_alone() -> None:
    message = {"role": "assistant", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "30 euros."}]}
    raw = {"id": "chatcmpl-1", "model": "m-2", "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    task = {
        "traceloop.span.kind": "task",
        "traceloop.entity.name": "OpenAI.task",
        "traceloop.entity.input": request("What do kayaks cost?"),
        "traceloop.entity.output": json.dumps({"message": message, "raw": raw, "delta": None}),
    }
    root = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.name": "ContextChatEngine.workflow",
        "traceloop.entity.input": '{"message": "What do kayaks cost?"}',
        "traceloop.entity.output": '{"response": "30 euros.", "sources": []}',
    }
    turn = Trace().span(1, "engine", root, took=4).span(2, "OpenAI.task", task, parent=1).turn()
    assert facts(turn) == {
        "input": "What do kayaks cost?", "answer": "30 euros.", "tokens": (9, 4), "model": "m-2", "response": "chatcmpl-1",
    }  # fmt: skip


def test_llamaindex_tells_what_the_clients_span_below_left_out() -> None:
    task = {"traceloop.span.kind": "task", "traceloop.entity.input": request("What do kayaks cost?")}
    below = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "30 euros."}]}]
        ),
    }
    turn = Trace().span(1, "OpenAI.task", task, took=3).span(2, "openai.chat", below, parent=1).turn()
    assert (turn.input, turn.actual_output, turn.response_id) == ("What do kayaks cost?", "30 euros.", "chatcmpl-1")


def test_crewai_alone() -> None:
    crew = {"gen_ai.system": "crewai", "crewai.crew.name": "crew", "crewai.crew.result": "30 euros."}
    task = {
        "traceloop.span.kind": "task",
        "crewai.task.description": "What do kayaks cost?",
        "crewai.task.agent": "boss",
        "traceloop.entity.output": "30 euros.",
    }
    agent = {
        "traceloop.span.kind": "agent",
        "crewai.agent.role": "boss",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1",
    }
    trace = Trace().span(1, "crewai.workflow", crew, took=9).span(2, "x.task", task, parent=1, took=5)
    turn = trace.span(3, "boss.agent", agent, parent=2).turn()
    assert (turn.input, turn.actual_output) == ("What do kayaks cost?", "30 euros.")


def test_association_properties_name_conversation_and_user() -> None:
    for name in ("session_id", "thread_id", "conversation_id", "chat_id"):
        held = indexed(**{"gen_ai.prompt.0.content": "Hi", "gen_ai.completion.0.content": "Hello."})
        held |= {f"traceloop.association.properties.{name}": "s#1", "traceloop.association.properties.user_id": "u"}
        turn = Trace().span(1, "openai.chat", held).turn()
        assert (turn.conversation_id, turn.user_id) == ("s#1", "u")
