"""What frameworks write, attribute by attribute as versions of them that were run did, or as their sources do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat, facts, parts

QUESTION, ANSWER = "What is the weather in Paris and Rome?", "Paris has 18 C. Rome has 25 C."
PARIS, ROME = {"city": "Paris"}, {"city": "Rome"}
TOOLS = [("get_weather", PARIS, "18 C, rain"), ("get_weather", ROME, "25 C, sun")]


# --- Genkit


def genkit(subtype: str, given: Any, came: Any = None, **more: Any) -> dict[str, Any]:
    held = {
        "genkit:type": "action" if subtype else "util",
        "genkit:input": json.dumps(given),
        "genkit:state": "success",
        **({"genkit:metadata:subtype": subtype} if subtype else {}),
    }
    return {**held, **({} if came is None else {"genkit:output": json.dumps(came)}), **more}


def genkit_call(messages: list[Any], content: list[Any]) -> dict[str, Any]:
    came = {
        "finishReason": "stop",
        "message": {"role": "model", "content": content},
        "usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13},
    }
    return genkit("model", {"messages": messages, "config": {}, "tools": []}, came, **{"genkit:name": "openai/m-1"})


def test_a_flow_of_genkit_with_parallel_tools() -> None:
    system = {"role": "system", "content": [{"text": "Be short."}]}
    user = {"role": "user", "content": [{"text": QUESTION}]}
    asked = [{"toolRequest": {"name": "get_weather", "ref": f"c{at}", "input": given}} for at, (_, given, _) in rows()]
    came = [{"toolResponse": {"name": "get_weather", "ref": f"c{at}", "output": text}} for at, (_, _, text) in rows()]
    again = [system, user, {"role": "model", "content": asked}, {"role": "tool", "content": came}]
    trace = Trace().span(1, "shop", genkit("flow", QUESTION, ANSWER), took=9)
    trace.span(2, "generate", genkit("", {"messages": [system, user]}, {"message": answer_of_genkit()}), parent=1)
    trace.span(3, "openai/m-1", genkit_call([system, user], asked), parent=2)
    for at, (name, given, text) in rows():
        trace.span(4 + at, name, genkit("tool", given, text, **{"genkit:name": name}), parent=2)
    trace.span(6, "openai/m-1", genkit_call(again, [{"text": ANSWER}]), parent=2)
    assert facts(trace.turn()) == {
        "input": QUESTION,
        "answer": ANSWER,
        "system": "Be short.",
        "tools": TOOLS,
        "tokens": (20, 6),
        "model": "openai/m-1",
    }


def rows() -> enumerate[tuple[str, dict[str, str], str]]:
    return enumerate(TOOLS)


def answer_of_genkit() -> dict[str, Any]:
    return {"role": "model", "content": [{"text": ANSWER}]}


def test_genkit_retrieves_and_answers_with_data() -> None:
    fetched = {"documents": [{"content": [{"text": "18 C in Paris."}], "metadata": {"id": "d1"}}]}
    asked = {"query": {"content": [{"text": QUESTION}]}}
    picture = [{"text": QUESTION}, {"media": {"url": "data:image/png;base64,iVBORw0KGgo="}}]
    trace = Trace().span(1, "rag", genkit("flow", QUESTION, {"city": "Paris"}), took=9)
    trace.span(2, "docs", genkit("retriever", asked, fetched), parent=1)
    trace.span(3, "m", genkit_call([{"role": "user", "content": picture}], [{"data": {"city": "Paris"}}]), parent=1)
    turn = trace.turn()
    assert (turn.input, turn.actual_output) == (QUESTION, '{"city":"Paris"}')
    assert turn.retrieval_context == ("18 C in Paris.",)


def test_genkit_fails() -> None:
    given = {"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}
    trace = Trace().span(1, "shop", genkit("flow", QUESTION), took=3, error="400 a hiccup")
    turn = trace.span(2, "m", genkit("model", given), parent=1, error="400 a hiccup").turn()
    assert (turn.input, turn.error) == (QUESTION, "400 a hiccup")


# --- Strands before it followed the conventions


def strands(given: Any, came: Any, **more: Any) -> dict[str, Any]:
    held = {"gen_ai.prompt": given, "gen_ai.completion": came}
    texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in held.items()}
    return {"gen_ai.event.start_time": "2025-06-01T10:00:00+00:00", **texts, **more}


def test_strands_0_1() -> None:
    user = {"role": "user", "content": [{"text": QUESTION}]}
    calls = [{"toolUse": {"toolUseId": f"c{at}", "name": name, "input": given}} for at, (name, given, _) in rows()]
    results = [
        {"toolResult": {"toolUseId": f"c{at}", "status": "success", "content": [{"text": text}]}}
        for at, (_, _, text) in rows()
    ]
    again = [user, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    about = {"gen_ai.system": "strands-agents", "gen_ai.agent.name": "helper", "gen_ai.request.model": "m-1"}
    counts = {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 3}
    agent = {**about, "system_prompt": "Be short.", "session.id": "s-1", "user.id": "u-1", **counts}
    trace = Trace().span(1, "helper", strands(QUESTION, f"{ANSWER}\n", **agent), took=20)
    trace.span(2, "Cycle 1", strands([user], calls, **{"event_loop.cycle_id": "1"}), parent=1, took=9)
    trace.span(3, "Model invoke", strands([user], calls, **about, **counts), parent=2)
    for at, (name, given, text) in rows():
        tool = {"tool.name": name, "tool.id": f"c{at}", "tool.parameters": json.dumps(given)}
        came = [{"text": text}]
        held = strands(calls[at]["toolUse"], came, **tool, **{"tool.result": json.dumps(came)})
        trace.span(4 + at, f"Tool: {name}", held, parent=2)
    trace.span(12, "Cycle 2", strands(again, [{"text": ANSWER}], **{"event_loop.cycle_id": "2"}), parent=1, took=5)
    trace.span(13, "Model invoke", strands(again, [{"text": ANSWER}], **about, **counts), parent=12)
    told = facts(trace.turn())
    assert told.pop("answer").strip() == ANSWER
    assert told == {
        "input": QUESTION,
        "system": "Be short.",
        "tools": TOOLS,
        "tokens": (20, 6),
        "model": "m-1",
        "conversation": "s-1",
        "user": "u-1",
    }


def test_a_tool_of_strands_0_1_alone_is_no_turn() -> None:
    held = strands({"name": "get_weather"}, [{"text": "18 C"}], **{"tool.name": "get_weather"})
    assert Trace().span(1, "Tool: get_weather", held).turns() == []


# --- Google ADK 2


def adk(given: list[Any], came: list[Any]) -> dict[str, Any]:
    return {
        **chat("", None),
        "gen_ai.operation.name": "generate_content",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": came, "finish_reason": "stop"}]),
    }


def test_calls_that_are_named_anew_are_the_same_calls() -> None:
    user = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}

    def calls(ids: str) -> list[Any]:
        return [
            {"type": "tool_call", "id": f"{ids}{at}", "name": name, "arguments": given}
            for at, (name, given, _) in rows()
        ]

    results = [{"type": "tool_call_response", "id": f"w_{at}", "response": text} for at, (_, _, text) in rows()]
    again = [user, {"role": "assistant", "parts": calls("w_")}, {"role": "user", "parts": results}]
    trace = Trace().span(1, "generate_content m", adk([user], calls("adk-")))
    trace.span(2, "generate_content m", adk(again, [{"type": "text", "content": ANSWER}]))
    turn = trace.turn()
    assert [(each.id, each.arguments, each.result) for each in turn.tools_called] == [
        ("w_0", PARIS, "18 C, rain"),
        ("w_1", ROME, "25 C, sun"),
    ]


@pytest.mark.parametrize("ending", ["", " below is a transcript of what another agent did, quoted."])
def test_what_another_agent_did_is_not_what_the_user_said(ending: str) -> None:
    said = [f"For context:{ending}", "[one] said:\nKayaks float."]
    told = [
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
        {"role": "user", "parts": [{"type": "text", "content": text} for text in said]},
    ]
    turn = Trace().span(1, "generate_content m", adk(told, [{"type": "text", "content": ANSWER}])).turn()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)


def test_a_user_may_speak_of_context() -> None:
    said = ["For context: I sail.", "Which kayak is mine?"]
    told = [{"role": "user", "parts": [{"type": "text", "content": text} for text in said]}]
    turn = Trace().span(1, "generate_content m", adk(told, [{"type": "text", "content": ANSWER}])).turn()
    assert turn.input == "\n".join(said)


# --- agents that fail around a model call that looks well


@pytest.mark.parametrize(
    ("more", "failed"),
    [
        ({}, True),  # Pydantic AI 2, a stream that could not be opened
        ({"gen_ai.response.id": "r", "gen_ai.response.finish_reasons": ["error"]}, True),  # Mastra
        ({"gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.output_tokens": 0}, False),  # an empty answer
    ],
)
def test_a_call_that_broke_off_fails_with_its_agent(more: dict[str, Any], *, failed: bool) -> None:
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": parts(("user", QUESTION)),
        "gen_ai.output.messages": '[{"role":"assistant","parts":[]}]',
        **more,
    }
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "pydantic_ai.all_messages": parts(("user", QUESTION)),
    }
    trace = Trace().span(1, "invoke_agent helper", agent, took=9, error="a hiccup")
    turn = trace.span(2, "chat m-1", model, parent=1).turn()
    assert (turn.input, turn.actual_output, turn.error) == (
        (QUESTION, None, "a hiccup") if failed else (QUESTION, "", None)
    )


# --- Langfuse for JavaScript


def langfuse(kind: str, given: Any, came: Any, **more: Any) -> dict[str, Any]:
    held = {"langfuse.observation.input": json.dumps(given), "langfuse.observation.output": json.dumps(came)}
    return {"langfuse.observation.type": kind, **held, **more}


def test_langfuse_names_a_tools_answer_by_the_tool() -> None:
    """LangGraph's messages in JavaScript: a tool's answer has the tool's name as its role, and no call's id."""
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given, _) in rows()
    ]
    user = {"role": "user", "content": QUESTION}
    results = [{"role": name, "content": text, "additional_kwargs": {}} for name, _, text in TOOLS]
    asked = {"role": "assistant", "content": "", "tool_calls": calls}
    answered = {"role": "assistant", "content": ANSWER}
    trace = Trace().span(
        1, "LangGraph", langfuse("agent", {"messages": [user]}, {"messages": [user, answered]}), took=9
    )
    trace.span(2, "ChatOpenAI", langfuse("generation", [user], asked), parent=1)
    trace.span(6, "ChatOpenAI", langfuse("generation", [user, asked, *results], answered), parent=1)
    turn = trace.turn()
    assert (turn.input, turn.actual_output, turn.history) == (QUESTION, ANSWER, ())
    assert facts(turn)["tools"] == TOOLS


def test_langfuse_keeps_langchains_message_of_a_tool() -> None:
    trace = Trace().span(1, "ask", langfuse("span", QUESTION, ANSWER), took=9)
    for at, (name, given, text) in rows():
        held = {"content": text, "tool_call_id": f"c{at}", "name": name}
        came = {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"], "kwargs": held}
        trace.span(2 + at, name, langfuse("tool", given, came), parent=1)
    trace.span(5, "gen", langfuse("generation", [{"role": "user", "content": QUESTION}], ANSWER), parent=1)
    assert facts(trace.turn())["tools"] == TOOLS


@pytest.mark.parametrize(
    ("conversation", "user"),
    [
        ("langfuse.observation.metadata.langfuse_session_id", "langfuse.observation.metadata.langfuse_user_id"),
        ("mastra.metadata.sessionId", "mastra.metadata.userId"),
    ],
)
def test_names_in_the_metadata_of_frameworks(conversation: str, user: str) -> None:
    turn = Trace().span(1, "chat", chat(QUESTION, ANSWER, **{conversation: "s-1", user: "u-1"})).turn()
    assert (turn.conversation_id, turn.user_id) == ("s-1", "u-1")


# --- tools of the same name, told by their spans alone


def test_results_of_tools_of_one_name_go_by_their_arguments() -> None:
    """smolagents: the tools' spans have no ids, and the arguments stand inside those of a Python function."""
    calls = [{"type": "tool_call", "id": f"c{at}", "name": name, "arguments": given} for at, (name, given, _) in rows()]
    user = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    trace = Trace().span(1, "chat", adk([user], calls))
    for at, (name, given, text) in rows():
        held = {
            "openinference.span.kind": "TOOL",
            "tool.name": name,
            "input.value": json.dumps({"args": [], "sanitize_inputs_outputs": True, "kwargs": given}),
            "output.value": text,
        }
        trace.span(2 + at, "SimpleTool", held)
    trace.span(5, "chat", adk([user, {"role": "assistant", "parts": calls}], [{"type": "text", "content": ANSWER}]))
    assert facts(trace.turn())["tools"] == TOOLS


# --- Quarkus


def test_quarkus_tells_texts_without_roles() -> None:
    held = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "r-1",
        "gen_ai.response.finish_reasons": "STOP",
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 3,
        "gen_ai.content.prompt": QUESTION,
        "gen_ai.content.completion": ANSWER,
    }
    turn = Trace().span(1, "completion m-1", held).turn()
    assert facts(turn) == {
        "input": QUESTION,
        "answer": ANSWER,
        "tokens": (10, 3),
        "model": "m-1",
        "response": "r-1",
    }
    assert turn.attributes["input_uncertain"] is True


@pytest.mark.parametrize(
    "names", [("gen_ai.prompt", "gen_ai.completion"), ("gen_ai.content.prompt", "gen_ai.content.completion")]
)
def test_quarkus_texts_of_several_messages_are_no_question(names: tuple[str, str]) -> None:
    prompt, completion = names
    held = {"gen_ai.request.model": "m-1", "gen_ai.response.id": "r-1", "gen_ai.response.finish_reasons": "STOP"}
    scope = "io.quarkus.opentelemetry"
    turn = (
        Trace()
        .span(1, "completion m-1", {**held, prompt: f"Be brief.\n{QUESTION}", completion: ANSWER}, scope=scope)
        .turn()
    )
    assert (turn.input, turn.incomplete) == (None, "no_content")
    turn = Trace().span(1, "completion m-1", {**held, prompt: QUESTION, completion: ANSWER}, scope=scope).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, ANSWER, None)


def test_langchain4js_own_json_of_messages() -> None:
    called = {"id": "c1", "name": "get_wind", "arguments": '{"place": "Laeso"}'}
    messages = [
        {"text": "Be brief.", "type": "SYSTEM"},
        {"contents": [{"text": "Windy?", "type": "TEXT"}], "attributes": {}, "type": "USER"},
        {"toolExecutionRequests": [called], "attributes": {}, "type": "AI"},
        {"id": "c1", "toolName": "get_wind", "contents": [{"text": "calm", "type": "TEXT"}], "type": "TOOL_EXECUTION_RESULT"},
        {"toolExecutionRequests": [], "text": "No.", "type": "AI"},
        {"contents": [{"text": QUESTION, "type": "TEXT"}], "type": "USER"},
    ]  # fmt: skip
    turn = Trace().span(1, "chat", {**chat("", ANSWER), "gen_ai.input.messages": json.dumps(messages)}).turn()
    assert (turn.input, turn.system_prompt) == (QUESTION, "Be brief.")
    assert [(each.role, each.content) for each in turn.history] == [
        ("user", "Windy?"), ("assistant", ""), ("tool", "calm"), ("assistant", "No."),
    ]  # fmt: skip
    assert turn.history[1].tool_calls[0].arguments == {"place": "Laeso"}


# --- Logfire's clients before they followed the conventions


def logfire(request: Any, response: Any = None, **more: Any) -> dict[str, Any]:
    held = {"request_data": json.dumps(request), "gen_ai.request.model": "m-1", "async": False}
    return {**held, **({} if response is None else {"response_data": json.dumps(response)}), **more}


USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
TOLD = {"input": QUESTION, "answer": ANSWER, "system": "Be short.", "tokens": (10, 3), "model": "m-1"}
ASKED = [{"role": "system", "content": "Be short."}, {"role": "user", "content": QUESTION}]


def test_logfires_own_names_for_request_and_response() -> None:
    message = {"role": "assistant", "content": ANSWER, "tool_calls": None, "refusal": None}
    held = logfire({"model": "m-1", "messages": ASKED}, {"message": message, "usage": USAGE})
    trace = Trace().span(1, "Chat Completion with {request_data[model]!r}", held, scope="logfire.openai")
    assert facts(trace.turn()) == TOLD


@pytest.mark.parametrize(
    "answer", [{"message": {"role": "assistant", "content": ANSWER}}, {"combined_chunk_content": ANSWER}]
)
def test_logfires_streams_are_two_spans(answer: dict[str, Any]) -> None:
    """The request is over before its answer comes; the client's own span may stand below it."""
    request = {"model": "m-1", "messages": ASKED, "stream": True}
    own = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "r-1", "gen_ai.usage.output_tokens": 3}
    trace = Trace().span(1, "ask", took=9).span(2, "Chat Completion", logfire(request), parent=1)
    trace.span(3, "messages.create", {**own, "gen_ai.request.model": "m-1"}, parent=2, at=2.1, took=2)
    held = logfire(request, {**answer, "usage": USAGE})
    turn = trace.span(5, "streaming response from …", held, parent=1, took=0).turn()
    assert facts(turn) == {**TOLD, "response": "r-1"}


def test_logfires_request_of_anthropic_leaves_out_what_was_not_given() -> None:
    request = {
        "model": "m-1",
        "system": "<anthropic.Omit object at 0x7f2ff34a7210>",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    usage = {"input_tokens": 10, "output_tokens": 3}
    held = logfire(request, {"message": {"role": "assistant", "content": ANSWER}, "usage": usage})
    turn = Trace().span(1, "Message with {request_data[model]!r}", held, scope="logfire.anthropic").turn()
    assert (turn.input, turn.actual_output, turn.system_prompt) == (QUESTION, ANSWER, None)


def test_logfires_requests_without_messages_are_no_turns() -> None:
    held = logfire({"model": "m-1", "input": "kayak"}, {"usage": {"prompt_tokens": 3, "total_tokens": 3}})
    held |= {"gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": 3}
    assert Trace().span(1, "Embedding Creation", held, scope="logfire.openai").turns() == []


def test_the_answer_may_be_the_last_of_the_events() -> None:
    """Logfire's span of the Responses API: question and answer in one list, the answer named like an earlier one."""
    told = [("system", "Be short."), ("user", QUESTION), ("assistant", ANSWER)]
    events = [{"event.name": f"gen_ai.{role}.message", "content": text, "role": role} for role, text in told]
    held = {
        "events": json.dumps(events),
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    assert facts(Trace().span(1, "Responses API", held, scope="logfire.openai").turn()) == TOLD
