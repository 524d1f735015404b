"""What agents, graphs and chains around model calls say: each exchange once, and nothing that was said before it."""

from __future__ import annotations

import json
from typing import Any

from made_up import Trace, chat, facts, parts

HISTORY = [("user", "Is it windy?"), ("assistant", "Yes, 11 m/s in Skagen.")]


def graph_messages(*said: tuple[str, str]) -> str:
    """LangGraph's state: the whole conversation, with a tool in it."""
    state: list[dict[str, Any]] = [
        {"role": "user", "content": "Is it windy?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "get_wind", "args": {"place": "Skagen"}}],
        },
        {"role": "tool", "content": "11 m/s", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Yes, 11 m/s in Skagen."},
    ]
    return json.dumps({"messages": [*state, *({"role": role, "content": text} for role, text in said)]})


def generation(question: str, answer: str) -> dict[str, Any]:
    before = json.loads(graph_messages(("user", question)))["messages"]
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(before),
        "langfuse.observation.output": json.dumps({"role": "assistant", "content": answer}),
        "langfuse.observation.model.name": "m-1",
    }


def test_an_agent_that_remembers_gives_back_its_conversation() -> None:
    root = {
        "langfuse.observation.type": "chain",
        "langfuse.observation.input": json.dumps({"messages": [["user", "And in May?"]]}),
        "langfuse.observation.output": graph_messages(("user", "And in May?"), ("assistant", "It is calmer then.")),
    }
    trace = Trace().span(1, "LangGraph", root, took=5)
    turn = trace.span(2, "ChatOpenAI", generation("And in May?", "It is calmer then."), parent=1).turn()
    assert (turn.input, turn.actual_output) == ("And in May?", "It is calmer then.")
    assert turn.tools_called == ()


def test_what_was_answered_before_does_not_stand_in_for_silence() -> None:
    root = {
        "langfuse.observation.type": "chain",
        "langfuse.observation.output": graph_messages(("user", "Be quiet."), ("assistant", "")),
    }
    trace = Trace().span(1, "LangGraph", root, took=5)
    turn = trace.span(2, "ChatOpenAI", generation("Be quiet.", ""), parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Be quiet.", "", None)


def test_a_failed_run_whose_middle_never_ended_is_told_once() -> None:
    """Strands leaves the span between agent and model open when the model fails."""
    failed = {key: value for key, value in chat("Explode", None).items() if "usage" not in key and "finish" not in key}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss", "session.id": "s-1",
             "gen_ai.input.messages": parts(("user", "Explode"))}  # fmt: skip
    trace = Trace().span(1, "invoke_agent boss", agent, took=8, error="500")
    turn = trace.span(3, "chat m-1", failed, parent=2, error="500").turn()
    assert facts(turn) == {"input": "Explode", "model": "m-1", "conversation": "s-1", "error": "500"}


def test_a_silent_agent_is_told_by_the_agent() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "system_prompt": "Be short.",
             "gen_ai.input.messages": parts(("user", "Hush")), "gen_ai.output.messages": "[]"}  # fmt: skip
    turn = Trace().span(1, "invoke_agent", agent, took=5).span(2, "chat", chat("Hush", ""), parent=1).turn()
    assert (turn.actual_output, turn.system_prompt, turn.incomplete) == ("", "Be short.", None)


def test_two_agents_in_one_trace_with_the_same_failing_words_stay_two() -> None:
    trace = Trace()
    for number in (1, 11):
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": parts(("user", "Explode"))}
        trace.span(number, "invoke_agent", agent, took=5, error="500")
        trace.span(number + 2, "chat", chat("Explode", None), parent=number, error="500")
    assert [turn.error for turn in trace.turns()] == ["500", "500"]


def test_a_call_without_its_answer_is_a_step_of_the_one_that_goes_on() -> None:
    """OpenLIT 1.33 writes the same words for every answer of a call that was offered tools."""
    trace = Trace()
    prompts = ("user: Is it windy?", "user: Is it windy?\nassistant: None\ntool: 11 m/s")
    for number, prompt in enumerate(prompts, 1):
        events = [
            ("gen_ai.content.prompt", {"gen_ai.prompt": prompt}),
            ("gen_ai.content.completion", {"gen_ai.completion": "Function called with tools"}),
        ]
        held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
        trace.span(number, "openai.chat.completions", held, scope="openlit.otel.tracing", events=events)
    assert facts(trace.turn()) == {"input": "Is it windy?", "model": "m-1", "incomplete": "no_content"}


def test_a_template_beside_the_call_tells_the_context() -> None:
    filled = {"context": "Kayaks cost 30 euros.", "question": "What do kayaks cost?"}
    given = {
        "inputs": filled,
        "tags": [],
        "metadata": {},
        "kwargs": {"run_type": "prompt", "name": "ChatPromptTemplate"},
    }
    model = {
        "llm.request.type": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Answer from the context:\nKayaks cost 30 euros.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "What do kayaks cost?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "30 euros.",
    }
    root = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.name": "RunnableSequence",
        "traceloop.entity.output": '{"outputs": "30 euros."}',
    }
    template = {"traceloop.span.kind": "task", "traceloop.entity.input": json.dumps(given)}
    trace = Trace().span(1, "RunnableSequence.workflow", root, took=5)
    trace.span(2, "ChatPromptTemplate.task", template, parent=1).span(3, "ChatOpenAI.chat", model, parent=1)
    assert facts(trace.turn())["context"] == ["Kayaks cost 30 euros."]


def test_langsmiths_template_tells_the_context() -> None:
    prompt = {
        "langsmith.span.kind": "prompt",
        "gen_ai.prompt": json.dumps({"context": "30 euros.", "question": "How much?"}),
    }
    model = {
        "langsmith.span.kind": "llm",
        "gen_ai.prompt": json.dumps({"messages": [{"role": "user", "content": "Context: 30 euros. How much?"}]}),
        "gen_ai.completion": json.dumps({"role": "assistant", "content": "30 euros."}),
    }
    root = {
        "langsmith.span.kind": "chain",
        "gen_ai.prompt": json.dumps({"input": "How much?"}),
        "gen_ai.completion": json.dumps({"output": "30 euros."}),
    }
    trace = Trace().span(1, "RunnableSequence", root, took=5)
    turn = trace.span(2, "ChatPromptTemplate", prompt, parent=1).span(3, "ChatOpenAI", model, parent=1).turn()
    assert (turn.input, turn.actual_output, list(turn.retrieval_context)) == ("How much?", "30 euros.", ["30 euros."])


def test_a_stack_trace_is_no_part_of_an_error() -> None:
    held = {
        "langsmith.span.kind": "llm",
        "gen_ai.prompt": json.dumps({"messages": [{"role": "user", "content": "Hi"}]}),
    }
    event = ("exception", {"exception.message": "Boom('x')Traceback (most recent call last):\n  File \"a.py\", line 1"})
    assert Trace().span(1, "ChatOpenAI", held, events=[event]).turn().error == "Boom('x')"
