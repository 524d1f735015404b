"""What agents, graphs and chains around model calls say: each exchange once, and nothing that was said before it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat, facts, parts

from evaluators.cases import Turn

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


def test_a_failed_run_whose_middle_never_ended_has_interval_once() -> None:
    """Strands leaves the span between agent and model open when the model fails."""
    failed = {key: value for key, value in chat("Explode", None).items() if "usage" not in key and "finish" not in key}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss", "session.id": "s-1",
             "gen_ai.input.messages": parts(("user", "Explode"))}  # fmt: skip
    trace = Trace().span(1, "invoke_agent boss", agent, took=8, error="500")
    turn = trace.span(3, "chat m-1", failed, parent=2, error="500").turn()
    assert facts(turn) == {"input": "Explode", "model": "m-1", "conversation": "s-1", "error": "500"}


def test_a_silent_agent_has_interval_by_the_agent() -> None:
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


AGENTS = "logfire.openai_agents"


def responses_api(response_id: str, question: str, answer: str) -> dict[str, Any]:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}]
    response = {"id": response_id, "model": "m-1", "output": output, "status": "completed", "instructions": "Be short."}
    return {"raw_input": json.dumps([{"role": "user", "content": question}]), "response": json.dumps(response)}


def test_a_guardrails_call_is_no_exchange_even_if_it_says_the_same() -> None:
    trace = Trace().span(1, "OpenAI Agents trace: {name}", {"name": "chat", "group_id": "g"}, took=20, scope=AGENTS)
    trace.span(2, "Agent run: {name!r}", {"name": "boss"}, parent=1, took=18, scope=AGENTS)
    trace.span(3, "Guardrail {name!r} {triggered=}", {"name": "g", "triggered": False}, parent=2, took=4, scope=AGENTS)
    trace.span(
        4, "Responses API with {gen_ai.request.model!r}", responses_api("r-1", "Hi", "Hello."), parent=3, scope=AGENTS
    )
    trace.span(
        9, "Responses API with {gen_ai.request.model!r}", responses_api("r-2", "Hi", "Hello."), parent=2, scope=AGENTS
    )
    turn = trace.turn()
    assert (turn.span_id, turn.input, turn.actual_output, turn.conversation_id) == (f"{9:016x}", "Hi", "Hello.", "g")


def test_an_agent_that_is_a_tool_is_part_of_the_outer_exchange() -> None:
    asks = json.dumps(
        [
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "c", "name": "expert", "arguments": {"input": "Wind?"}}],
            }
        ]
    )
    after = json.dumps([
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "expert", "arguments": {"input": "Wind?"}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "11 m/s"}]},
    ])  # fmt: skip
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "expert", "gen_ai.tool.call.id": "c"}
    inner = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "expert"}
    trace = Trace().span(1, "invoke_agent boss", {"gen_ai.operation.name": "invoke_agent"}, took=20)
    trace.span(2, "chat", chat("Is it windy?", None, **{"gen_ai.output.messages": asks}), parent=1)
    trace.span(3, "execute_tool expert", tool, parent=1, took=4).span(4, "invoke_agent expert", inner, parent=3, took=3)
    trace.span(5, "chat", chat("Wind?", "11 m/s"), parent=4)
    trace.span(8, "chat", chat("", "Yes, 11 m/s.", **{"gen_ai.input.messages": after}), parent=1)
    assert facts(trace.turn()) == {
        "input": "Is it windy?",
        "answer": "Yes, 11 m/s.",
        "tools": [("expert", {"input": "Wind?"}, "11 m/s")],
        "tokens": (14, 6),
        "model": "m-1",
    }


def test_a_handoff_is_one_exchange() -> None:
    hand = json.dumps(
        [
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "h", "name": "transfer_to_wind", "arguments": {}}],
            }
        ]
    )
    after = json.dumps([
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "h", "name": "transfer_to_wind", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "h", "response": '{"assistant": "wind"}'}]},
    ])  # fmt: skip
    trace = Trace().span(1, "workflow", took=20)
    trace.span(
        2,
        "invoke_agent router",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "router"},
        parent=1,
        took=3,
    )
    trace.span(3, "chat", chat("Is it windy?", None, **{"gen_ai.output.messages": hand}), parent=2)
    trace.span(
        6, "invoke_agent wind", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "wind"}, parent=1, took=5
    )
    trace.span(7, "chat", chat("", "Yes.", **{"gen_ai.input.messages": after}), parent=6)
    turn = trace.turn()
    assert (turn.input, turn.actual_output, facts(turn)["tools"]) == (
        "Is it windy?", "Yes.", [("transfer_to_wind", {}, {"assistant": "wind"})],
    )  # fmt: skip


def test_a_failure_that_was_repeated_stays_a_failure() -> None:
    trace = Trace().span(1, "handle", took=20).span(2, "chat", chat("Hi", None), parent=1, error="429")
    turns = trace.span(3, "chat", chat("Hi", "Hello."), parent=1).turns()
    assert [(turn.error, turn.actual_output) for turn in turns] == [("429", None), (None, "Hello.")]


def test_a_gateway_and_its_client_are_one_call() -> None:
    trace = Trace().span(1, "chat", chat("Hi", "Hello there, how are you?", **{"gen_ai.response.id": "r"}), took=3)
    trace.span(2, "POST", {"http.method": "POST"}, parent=1, took=2)
    turn = trace.span(
        3,
        "litellm_request",
        chat("Hi", "Hello there, how are you?", **{"gen_ai.response.id": "r"}),
        parent=2,
        scope="litellm",
    ).turn()
    assert facts(turn)["tokens"] == (7, 3)


def test_the_same_question_twice_is_two_turns() -> None:
    trace = Trace().span(1, "chat", chat("Hi", "Hello.")).span(3, "chat", chat("Hi", "Hello."))
    assert len({turn.turn_id for turn in trace.turns()}) == 2


def test_a_delta_conversation_has_no_history() -> None:
    held = chat(
        "And in May?", "Calmer.", **{"gen_ai.conversation.id": "c", "gen_ai.request.previous_response.id": "r-0"}
    )
    assert facts(Trace().span(1, "chat", held).turn()) == {
        "input": "And in May?", "answer": "Calmer.", "tokens": (7, 3), "model": "m-1", "conversation": "c",
    }  # fmt: skip


def test_several_choices_are_one_answer() -> None:
    output = json.dumps(
        [
            {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}
            for text in ("One.", "Two.")
        ]
    )
    assert (
        Trace().span(1, "chat", chat("Hi", None, **{"gen_ai.output.messages": output})).turn().actual_output == "One."
    )


def test_an_agent_inside_a_guardrail_is_not_asked_by_the_user() -> None:
    guard = {"openinference.span.kind": "GUARDRAIL"}
    agent = {"openinference.span.kind": "AGENT", "input.value": "Is this fine: Hi", "output.value": "It is fine."}
    trace = Trace().span(1, "handle", took=9).span(2, "guard", guard, parent=1, took=3)
    trace.span(3, "checker", agent, parent=2).span(5, "chat", chat("Hi", "Hello."), parent=1)
    assert [turn.input for turn in trace.turns()] == ["Hi"]


def agent_with_tools(*, answer: str | None, tool_name: str = "final_answer") -> Trace:
    """An agent of smolagents whose streamed run is the repr of its parts, with the answer on a tool's span."""
    kind = "openinference.span.kind"
    trace = Trace()
    run = {
        kind: "AGENT",
        "input.value": '{"task": "Is it windy?"}',
        "output.value": "ToolCall(name='x')ActionOutput(y)",
    }
    trace.span(0, "CodeAgent.run", run, took=9)
    said = {
        kind: "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "New task:\nIs it windy?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "<code>final_answer('Yes.')</code>",
    }
    trace.span(1, "model", said, parent=0)
    tool = {kind: "TOOL", "tool.name": tool_name, "input.value": "{}"} | ({"output.value": answer} if answer else {})
    return trace.span(2, "FinalAnswerTool", tool, parent=0, at=1.2)


def test_an_answer_that_an_agent_gives_by_a_tool() -> None:
    [turn] = agent_with_tools(answer="Yes.").turns()
    assert (turn.input, turn.actual_output, turn.tools_called) == ("Is it windy?", "Yes.", ())


def test_another_tools_result_is_no_answer() -> None:
    [turn] = agent_with_tools(answer="11 m/s", tool_name="get_wind").turns()
    assert turn.actual_output != "11 m/s"
    assert [each.name for each in turn.tools_called] == ["get_wind"]


def requested(name: str, arguments: Any = "{}") -> dict[str, Any]:
    call = {"type": "tool_call", "id": f"c-{name}", "name": name, "arguments": arguments}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": parts(("user", "Is it windy?")),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]),
    }


ASKED = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": parts(("user", "Is it windy?"))}


def answered(*steps: dict[str, Any]) -> Turn:
    """The turn of steps that request tools, and the answer after them."""
    trace = Trace()
    for number, step in enumerate(steps, 1):
        trace.span(number, "chat m", step)
    [turn] = trace.span(9, "chat m", chat("Is it windy?", "Yes.")).turns()
    return turn


def test_a_run_that_waits_for_a_person_says_so() -> None:
    trace = Trace()
    raised = (
        "exception",
        {"exception.type": "langgraph.errors.GraphInterrupt", "exception.message": "(Interrupt(…),)"},
    )
    trace.span(0, "invoke_agent", ASKED, took=9).span(1, "chat m", requested("book"), parent=0)
    trace.span(2, "tools", {"openinference.span.kind": "CHAIN"}, events=[raised])
    [turn] = trace.turns()
    assert (turn.actual_output, turn.incomplete, turn.error) == (None, "waiting", None)


def test_a_run_without_an_interrupt_has_no_content() -> None:
    [turn] = Trace().span(0, "invoke_agent", ASKED, took=9).span(1, "chat m", requested("book"), parent=0).turns()
    assert turn.incomplete == "no_content"


@pytest.mark.parametrize("name", ["transfer_back_to_supervisor", "final_answer"])
def test_what_a_library_writes_by_itself_is_no_tool_call(name: str) -> None:
    assert [each.name for each in answered(requested(name), requested("look")).tools_called] == ["look"]


@pytest.mark.parametrize("arguments", ['{"place": "Skagen"}', '"{\\"place\\": \\"Skagen\\"}"'])
def test_arguments_that_were_encoded_once_or_twice(arguments: str) -> None:
    assert answered(requested("look", arguments)).tools_called[0].arguments == {"place": "Skagen"}
