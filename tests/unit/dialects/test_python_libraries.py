"""What Python's instrumentations write that no captured payload shows: attributes as those libraries write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat, facts, parts

KIND = "openinference.span.kind"
CALL = ("get_wind", {"place": "Skagen"})
TOOL_CALLS = "llm.output_messages.0.message.tool_calls.0.tool_call"


def llm(question: str | None, **more: Any) -> dict[str, Any]:
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": question}
    return {KIND: "LLM", "llm.model_name": "m-1", **(asked if question else {}), **more}


# OpenInference


def test_a_refusal_is_in_the_raw_response_only() -> None:
    message = {"content": None, "refusal": "I will not.", "role": "assistant"}
    raw = {"id": "c-1", "choices": [{"finish_reason": "stop", "index": 0, "message": message}]}
    held = llm("Pick a lock.", **{
        "llm.output_messages.0.message.role": "assistant",
        "output.value": json.dumps(raw),
        "output.mime_type": "application/json",
    })  # fmt: skip
    assert Trace().span(1, "ChatCompletion", held).turn().actual_output == "I will not."


def test_a_client_that_runs_tools_by_itself_tells_them_in_its_response() -> None:
    history = [
        {"parts": [{"text": "Is it windy?"}]},
        {"parts": [{"function_call": {"id": "f-1", "args": {"place": "Skagen"}, "name": "get_wind"}}], "role": "model"},
        {"parts": [{"function_response": {"name": "get_wind", "response": {"result": "11"}}}], "role": "user"},
    ]
    raw = {"candidates": [], "automatic_function_calling_history": history}
    held = llm("Is it windy?", **{
        "llm.provider": "google",
        "llm.output_messages.0.message.role": "model",
        "llm.output_messages.0.message.content": "Yes.",
        "output.value": json.dumps(raw, separators=(",", ":")),
    })  # fmt: skip
    turn = Trace().span(1, "GenerateContent", held).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")
    assert facts(turn)["tools"] == [(*CALL, {"result": "11"})]


@pytest.mark.parametrize(
    ("given", "came", "answer"),
    [
        ({"inputText": "Hi?"}, "Hello there.", "Hello there."),
        ({"message": "Hi?"}, "[{'text': 'Hello there.', 'finish_reason': 'COMPLETE'}]", "Hello there."),
        ({"messages": [{"role": "user", "content": "Hi?"}]}, "None", None),
        ({"messages": [{"role": "user", "content": [{"text": "Hi?"}]}]}, None, None),
    ],
    ids=["titan", "cohere", "claude in an early version", "nova in an early version"],
)
def test_bedrocks_prompts_among_the_parameters(given: dict[str, Any], came: str | None, answer: str | None) -> None:
    held = llm(None, **{"llm.invocation_parameters": json.dumps(given), "llm.token_count.completion": 9})
    turn = Trace().span(1, "bedrock.invoke_model", held if came is None else {**held, "output.value": came}).turn()
    assert (turn.input, turn.actual_output) == ("Hi?", answer)
    assert turn.incomplete == (None if answer else "no_content")


def test_the_repr_of_a_stream_is_no_answer() -> None:
    held = llm("Is it windy?", **{"output.value": "<groq.Stream object at 0x7f98995081d0>"})
    assert Trace().span(1, "Completions", held).turn().incomplete == "no_content"


def test_answers_of_tools_under_the_role_of_the_user() -> None:
    """Early versions for Anthropic, which also keep the last of several answers only: the request has them all."""
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "get_wind", "input": {"place": n}} for n in (1, 2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{n} m/s"} for n in (1, 2)]
    request = [
        {"role": "user", "content": "Is it windy?"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    made = "llm.input_messages.1.message.tool_calls"
    held = llm("Is it windy?", **{
        "llm.input_messages.1.message.role": "assistant",
        **{f"{made}.{n - 1}.tool_call.function.name": "get_wind" for n in (1, 2)},
        **{f"{made}.{n - 1}.tool_call.id": f"t{n}" for n in (1, 2)},
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.tool_call_id": "t2",
        "llm.input_messages.2.message.content": "2 m/s",
        "llm.output_messages.0.message.content": "Yes.",
        "input.value": json.dumps({"messages": request, "system": "Be short."}),
        "input.mime_type": "application/json",
    })  # fmt: skip
    turn = Trace().span(1, "Messages", held).turn()
    assert turn.input == "Is it windy?"
    assert [each.result for each in turn.tools_called] == ["1 m/s", "2 m/s"]


def test_autogens_answers_of_tools_have_a_place_of_their_own() -> None:
    held = llm("Is it windy?", **{
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "get_wind",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"place": "Skagen"}',
        "llm.input_messages.2.message.role": "function",
        "llm.input_messages.2.function.0": '{"name": "get_wind", "content": "11", "call_id": "c", "is_error": false}',
        "llm.output_messages.0.message.content": "Yes.",
    })  # fmt: skip
    assert facts(Trace().span(1, "create", held).turn())["tools"] == [(*CALL, "11")]


def test_the_conventions_beside_tell_each_tools_answer_by_itself() -> None:
    """Pydantic AI's messages, of which OpenInference's processor makes one with several contents."""
    calls = [{"type": "tool_call", "id": n, "name": "get_wind", "arguments": {"place": n}} for n in ("a", "b")]
    answers = [{"type": "tool_call_response", "id": n, "name": "get_wind", "result": f"in {n}"} for n in ("a", "b")]
    said = [
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": calls},
        {"role": "user", "parts": answers},
    ]
    held = chat("", "Yes.", **{"gen_ai.input.messages": json.dumps(said)}) | llm("Is it windy?", **{
        "llm.input_messages.1.message.role": "tool",
        "llm.input_messages.1.message.tool_call_id": "b",
        "llm.input_messages.1.message.contents.0.message_content.text": "in a",
        "llm.input_messages.1.message.contents.1.message_content.text": "in b",
        "llm.output_messages.0.message.content": "Yes.",
    })  # fmt: skip
    assert [each.result for each in Trace().span(1, "chat m-1", held).turn().tools_called] == ["in a", "in b"]


def test_instructor_alone() -> None:
    held = llm("Where is it?", **{
        KIND: "CHAIN",
        "instructor.response_model": "Place",
        "output.value": '{"city": "Skagen"}',
        "output.mime_type": "application/json",
    })  # fmt: skip
    turn = Trace().span(1, "instructor.create", held).turn()
    assert (turn.input, turn.actual_output) == ("Where is it?", '{"city": "Skagen"}')


def test_crewai_alone() -> None:
    made = {"description": "Is it windy?", "expected_output": "A word.", "raw": "Yes.", "agent": "Master"}
    agent = {KIND: "AGENT", "task_id": "t", "input.value": '{"agent": {"role": "Master"}, "context": ""}',
             "output.value": json.dumps(made)}  # fmt: skip
    tasks = json.dumps([{"id": "t", "description": "Is it windy?", "expected_output": "A word."}])
    crew = {KIND: "CHAIN", "crew_inputs": "", "crew_tasks": tasks, "output.value": json.dumps({"raw": "Yes."})}
    tool = {KIND: "TOOL", "tool.name": "get_wind", "input.value": '{"place": "Skagen"}', "output.value": "11"}
    trace = Trace().span(1, "Crew.kickoff", crew, took=9).span(2, "Master._execute_core", agent, parent=1, took=5)
    turn = trace.span(3, "get_wind.run", tool, parent=2).turn()
    assert (turn.input, turn.actual_output, facts(turn)["tools"]) == ("Is it windy?", "Yes.", [(*CALL, "11")])


def test_arguments_of_smolagents_tools() -> None:
    given = {"args": [], "sanitize_inputs_outputs": True, "kwargs": {"place": "Skagen"}}
    tool = {KIND: "TOOL", "tool.name": "get_wind", "input.value": json.dumps(given), "output.value": "11"}
    answer = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Yes."}
    trace = Trace().span(1, "run", {KIND: "CHAIN"}, took=9).span(2, "SimpleTool", tool, parent=1)
    asks = llm("Is it windy?", **{f"{TOOL_CALLS}.function.name": "get_wind"})
    trace.span(3, "generate", asks, parent=1, at=1.5)
    assert facts(trace.span(4, "generate", llm("Is it windy?", **answer), parent=1).turn())["tools"] == [(*CALL, "11")]


def printed(content: str, rest: str = "response_metadata={} id='h'") -> str:
    return f"content={content!r} additional_kwargs={{}} {rest}"


def test_langchains_messages_as_they_are_printed() -> None:
    """A LangGraph node in early versions: its state is a list of messages, each as a text."""
    state = {"messages": [printed("Is it windy in 'Skagen'?")]}
    calls = [{"name": "get_wind", "args": {"place": "Skagen"}, "id": "c", "type": "tool_call"}]
    asks = printed("", f"response_metadata={{'model_name': 'm-1'}} id='r' tool_calls={calls!r}")
    node = {KIND: "AGENT", "input.value": json.dumps(state), "output.value": json.dumps({"messages": [asks]})}
    told = [*state["messages"], asks, "content='11' name='get_wind' tool_call_id='c'", printed("Yes.", "usage_metadata={'input_tokens': 9}")]  # fmt: skip
    last = {KIND: "AGENT", "input.value": json.dumps({"messages": told[:3]}),
            "output.value": json.dumps({"messages": told[3:]})}  # fmt: skip
    graph = {KIND: "CHAIN", "input.value": json.dumps(state), "output.value": json.dumps({"messages": told})}
    trace = Trace().span(1, "LangGraph", graph, took=9).span(2, "agent", node, parent=1)
    turn = trace.span(3, "agent", last, parent=1).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy in 'Skagen'?", "Yes.")


# OpenLIT


def openlit(prompt: str, completion: str = "", **more: Any) -> Any:
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": prompt}),
        ("gen_ai.content.completion", {"gen_ai.completion": completion}),
    ]
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", **more}, events


@pytest.mark.parametrize(
    "prompt",
    [
        "user: text: What is this?",
        "user: text: What is this?, image_url: {'url': 'data:image/png;base64,iVBO='}",
        "user: input_text: What is this?",
        "user: Hi\nmodel: text: Hello.\nuser: text: What is this?",
    ],
)
def test_openlits_parts_have_their_kinds_before_them(prompt: str) -> None:
    held, events = openlit(prompt, "A kayak.")
    turn = Trace().span(1, "chat m-1", held, scope="openlit.otel.tracing", events=events).turn()
    assert (turn.input, turn.actual_output) == ("What is this?", "A kayak.")


def test_openlits_requests_with_tools_are_dumped_whole() -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Is it windy?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": place, "type": "function", "function": {"name": "get_wind", "arguments": json.dumps({"place": place})}}
            for place in ("Skagen", "Ribe")
        ]},
        {"role": "tool", "tool_call_id": "Skagen", "content": "11"},
        {"role": "tool", "tool_call_id": "Ribe", "content": "4"},
    ]  # fmt: skip
    asks, first = openlit("system: Be short.\nuser: Is it windy?", **{
        "gen_ai.tool.name": "get_wind, get_wind",
        "gen_ai.tool.call.id": "Skagen, Ribe",
        "gen_ai.tool.args": '{"place": "Skagen"}, {"place": "Ribe"}',
        "gen_ai.response.finish_reasons": ["stop"],
    })  # fmt: skip
    dump = f"system: Be short.\nuser: Is it windy?\nuser: {messages!r}\ntool: 11\ntool: 4"
    answers, second = openlit(dump, "Yes, both.")
    trace = Trace().span(1, "handle", took=9)
    trace.span(2, "chat m-1", asks, parent=1, scope="openlit.otel.tracing", events=first)
    trace.span(3, "chat m-1", answers, parent=1, scope="openlit.otel.tracing", events=second)
    turn = trace.turn()
    assert (turn.input, turn.actual_output, turn.system_prompt) == ("Is it windy?", "Yes, both.", "Be short.")
    tools = [("get_wind", {"place": "Skagen"}, "11"), ("get_wind", {"place": "Ribe"}, "4")]
    assert facts(turn)["tools"] == tools


def test_openlits_prompts_of_gemini() -> None:
    called = "function_call: id='c' args={'place': 'Skagen'} name='get_wind'"
    came = "function_response: will_continue=None id='c' name='get_wind' response={'result': '11'}"
    held, events = openlit(f"user: text: Is it windy?\nmodel: {called}\nuser: {came}", "Yes.")
    turn = Trace().span(1, "chat m-1", held, scope="openlit.otel.tracing", events=events).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")
    assert facts(turn)["tools"] == [(*CALL, {"result": "11"})]


def test_a_system_prompt_alone_is_no_question_where_it_has_interval_twice() -> None:
    held = chat("", "Hello.", **{
        "gen_ai.input.messages": parts(("system", "Be short.")), "gen_ai.system_instructions": parts_of_system(),
    })  # fmt: skip
    turn = Trace().span(1, "chat m-1", held).turn()
    assert (turn.input, turn.incomplete) == (None, "no_content")


def parts_of_system() -> str:
    return json.dumps([{"type": "text", "content": "Be short."}])


def test_a_call_whose_input_was_left_out_goes_on_with_the_tools_of_the_one_before() -> None:
    """What only tools said is left out by OpenLIT, for the Responses API."""
    call = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "get_wind", "arguments": {}}]}]
    asks = chat("Is it windy?", None, **{"gen_ai.output.messages": json.dumps(call)})
    answers = chat("", "Yes.", **{"gen_ai.input.messages": "[]"})
    trace = Trace().span(1, "handle", took=9).span(2, "chat", asks, parent=1).span(3, "chat", answers, parent=1)
    turn = trace.turn()
    assert (turn.input, turn.actual_output, len(turn.tools_called)) == ("Is it windy?", "Yes.", 1)


# OpenLLMetry


def indexed(**more: Any) -> dict[str, Any]:
    return {"llm.request.type": "chat", "gen_ai.request.model": "m-1", **more}


def test_early_versions_leave_anthropics_tool_results_empty() -> None:
    asked = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Is it windy?"}
    counted = {"gen_ai.usage.prompt_tokens": 0, "gen_ai.usage.completion_tokens": 0}
    asks = indexed(**asked, **counted, **{
        "gen_ai.completion.0.finish_reason": "tool_use", "gen_ai.completion.0.content": "Let me look.",
    })  # fmt: skip
    answers = indexed(**asked, **counted, **{
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.content": '[{"type": "text", "text": "Let me look."}]',
        "gen_ai.prompt.2.role": "user",
        "gen_ai.prompt.2.content": "[]",
        "gen_ai.completion.0.finish_reason": "end_turn",
        "gen_ai.completion.0.content": "Yes.",
    })  # fmt: skip
    trace = Trace().span(1, "handle", took=9).span(2, "anthropic.chat", asks, parent=1)
    assert facts(trace.span(3, "anthropic.chat", answers, parent=1).turn()) == {
        "input": "Is it windy?", "answer": "Yes.", "model": "m-1",
    }  # fmt: skip


def responses(call_id: str, answer: str | None) -> dict[str, Any]:
    told = [
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": call_id, "name": "get_wind", "arguments": CALL[1]}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "11"}]},
    ]
    asks = chat("", answer, **{"gen_ai.input.messages": json.dumps(told if answer else told[:1])})
    return asks if answer else {**asks, "gen_ai.output.messages": json.dumps(told[1:2])}


@pytest.mark.parametrize("later", ["fc_1", "call_1"], ids=["items' ids throughout", "a call's id in the history"])
def test_items_of_the_responses_api_have_ids_of_their_own(later: str) -> None:
    trace = Trace().span(1, "handle", took=9).span(2, "openai.response", responses("fc_1", None), parent=1)
    turn = trace.span(3, "openai.response", responses(later, "Yes."), parent=1).turn()
    assert facts(turn)["tools"] == [(*CALL, "11")]


def test_geminis_parts_as_they_are_printed() -> None:
    none = "code_execution_result=None executable_code=None"
    called = f"function_call=FunctionCall(\n  args={{'place': 'Skagen'}},\n  id='c',\n  name='get_wind'\n) {none} function_response=None text=None"
    came = f"function_call=None {none} function_response=FunctionResponse(\n  id='c',\n  name='get_wind',\n  response={{'result': '11'}}\n) text=None"
    held = indexed(**{
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": '[{"type": "text", "text": "Is it windy?"}]',
        "gen_ai.prompt.1.role": "model",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": called}]),
        "gen_ai.prompt.2.role": "user",
        "gen_ai.prompt.2.content": json.dumps([{"type": "text", "text": came}]),
        "gen_ai.completion.0.content": "NoneNoneYes.",
    })  # fmt: skip
    scope = "opentelemetry.instrumentation.google_generativeai"
    turn = Trace().span(1, "gemini.generate_content", held, scope=scope).turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")
    assert facts(turn)["tools"] == [(*CALL, {"result": "11"})]


def test_a_streamed_message_of_an_unknown_role_is_the_answer() -> None:
    output = [{"role": "unknown", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"}]
    held = chat("Is it windy?", None, **{"gen_ai.output.messages": json.dumps(output)})
    assert Trace().span(1, "ChatOpenAI.chat", held).turn().actual_output == "Yes."


def test_bedrocks_thoughts_as_a_text() -> None:
    thought = json.dumps({"reasoningContent": {"reasoningText": {"text": "Hm."}}})
    both = [{"type": "text", "content": thought}, {"type": "text", "content": "Yes."}]
    held = chat("Is it windy?", None, **{"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": both}])})
    assert Trace().span(1, "chat m-1", held).turn().actual_output == "Yes."


def test_llamaindex_completes_a_text() -> None:
    raw = {"id": "c-1", "model": "m-2", "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    came = json.dumps({"text": "Yes.", "additional_kwargs": {}, "raw": raw})
    task = {"traceloop.span.kind": "task", "traceloop.entity.input": '{"args": ["Is it windy?"]}'}
    turn = Trace().span(1, "OpenAI.task", {**task, "traceloop.entity.output": came}).turn()
    assert facts(turn) == {
        "input": "Is it windy?", "answer": "Yes.", "tokens": (9, 4), "model": "m-2", "response": "c-1",
    }  # fmt: skip


def test_agnos_teams_and_tools() -> None:
    team = {"traceloop.span.kind": "workflow", "agno.team.name": "crew", "traceloop.entity.input": "Is it windy?",
            "traceloop.entity.output": "Yes."}  # fmt: skip
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_wind",
            "traceloop.entity.input": '{"place": "Skagen"}',
            "traceloop.entity.output": "status='success' result='11' error=None images=None"}  # fmt: skip
    turn = Trace().span(1, "crew.team", team, took=9).span(2, "get_wind.tool", tool, parent=1).turn()
    assert (turn.input, turn.actual_output, facts(turn)["tools"]) == ("Is it windy?", "Yes.", [(*CALL, "11")])


def test_records_of_several_calls_that_name_the_span_above() -> None:
    """OpenLLMetry's records name whatever span was open; which of them are of one call, their order tells."""
    call = {"id": "c", "function": {"name": "get_wind", "arguments": CALL[1]}, "type": "function"}
    asked = ("gen_ai.user.message", {"content": "Is it windy?"})
    records = [
        asked,
        ("gen_ai.user.message", {"content": {"tools": [{"name": "get_wind"}]}}),
        ("gen_ai.choice", {"index": 0, "message": {"content": "Let me look."}, "finish_reason": "tool_use"}),
        ("gen_ai.choice", {"index": 1, "message": {"content": None}, "tool_calls": [call], "finish_reason": "tool_use"}),
        asked,
        ("gen_ai.assistant.message", {"content": [{"type": "tool_use", "id": "c", "name": "get_wind", "input": CALL[1]}]}),
        ("gen_ai.user.message", {"content": [{"type": "tool_result", "tool_use_id": "c", "content": "11"}]}),
        ("gen_ai.choice", {"index": 0, "message": {"content": {"type": "text", "content": "Yes."}}, "finish_reason": "end_turn"}),
    ]  # fmt: skip
    trace = Trace().span(1, "handle", took=9).span(2, "anthropic.chat", indexed(), parent=1)
    trace.span(3, "anthropic.chat", indexed(), parent=1)
    for place, (name, body) in enumerate(records):
        trace.record(1, name, body, at=(2.1 if place < 4 else 3.1) + place / 100)
    turn = trace.turn()
    assert (turn.input, turn.actual_output) == ("Is it windy?", "Yes.")
    assert facts(turn)["tools"] == [(*CALL, "11")]


# LiteLLM and what concerns all


def test_litellms_misnamed_indexes() -> None:
    """Up to 1.6x on Python 3.11 and later: the name of an enumeration's member stands where its value should."""
    held = {
        "llm.request.type": "completion",
        "gen_ai.request.model": "m-1",
        "SpanAttributes.LLM_PROMPTS.0.role": "system",
        "SpanAttributes.LLM_PROMPTS.0.content": "Be short.",
        "SpanAttributes.LLM_PROMPTS.1.role": "user",
        "SpanAttributes.LLM_PROMPTS.1.content": "Is it windy?",
        "SpanAttributes.LLM_COMPLETIONS.0.role": "assistant",
        "SpanAttributes.LLM_COMPLETIONS.0.content": "Yes.",
    }
    turn = Trace().span(1, "litellm_request", held, scope="litellm").turn()
    assert (turn.input, turn.actual_output, turn.system_prompt) == ("Is it windy?", "Yes.", "Be short.")


def test_litellms_embeddings_are_no_turn() -> None:
    held = {"llm.request.type": "embedding", "gen_ai.request.model": "e-1", "gen_ai.usage.prompt_tokens": 3}
    assert Trace().span(1, "litellm_request", held, scope="litellm").turns() == []


def test_each_tool_span_is_of_one_call() -> None:
    """Parallel calls of one tool, whose results only the tool spans tell, and without ids."""
    calls = [
        {"type": "tool_call", "id": place, "name": "get_wind", "arguments": {"place": place}} for place in ("A", "B")
    ]
    asks = chat("Is it windy?", None, **{"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}])})
    trace = Trace().span(1, "handle", took=9).span(2, "chat", asks, parent=1)
    for number, place in ((3, "B"), (4, "A")):
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_wind",
                "gen_ai.tool.call.arguments": json.dumps({"place": place}),
                "gen_ai.tool.call.result": f"in {place}"}  # fmt: skip
        trace.span(number, "execute_tool get_wind", tool, parent=1)
    turn = trace.span(5, "chat", chat("Is it windy?", "Yes."), parent=1).turn()
    assert [each.result for each in turn.tools_called] == ["in A", "in B"]


@pytest.mark.parametrize(("tokens", "incomplete"), [(2, None), (9, "no_content")])
def test_an_empty_answer_that_cost_tokens_was_not_recorded(tokens: int, incomplete: str | None) -> None:
    """Refusals are what most libraries leave out."""
    held = chat("Pick a lock.", "", **{"gen_ai.usage.output_tokens": tokens})
    turn = Trace().span(1, "chat m-1", held).turn()
    assert (turn.incomplete, turn.actual_output) == (incomplete, None if incomplete else "")


def test_a_call_whose_answer_is_nowhere_is_a_hole() -> None:
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
            "gen_ai.input.messages": parts(("user", "Is it windy?"))}  # fmt: skip
    turn = Trace().span(1, "openai.response", held).turn()
    assert (turn.input, turn.incomplete) == ("Is it windy?", "no_content")


@pytest.mark.parametrize("value", ['[{"type": "text", "text": "11"}]', "[{'type': 'text', 'text': '11'}]"])
def test_a_tools_answer_in_blocks_that_became_a_text(value: str) -> None:
    told = [
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "get_wind", "arguments": CALL[1]}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "response": value}]},
    ]
    held = chat("", "Yes.", **{"gen_ai.input.messages": json.dumps(told)})
    assert [str(each.result) for each in Trace().span(1, "chat", held).turn().tools_called] == ["11"]
