"""Dialects of which no payload was captured, made up from what their documentation and sources say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat, facts

QUESTION, ANSWER = "What do kayaks cost?", "They cost 30 euros a day."
REQUEST = [{"role": "system", "content": "Be short."}, {"role": "user", "content": QUESTION}]
REPLY = {"role": "assistant", "content": ANSWER}
TOLD = {"input": QUESTION, "answer": ANSWER, "system": "Be short."}


def told(trace: Trace, *names: str) -> dict[str, Any]:
    return {name: value for name, value in facts(trace.turn()).items() if name in (*TOLD, *names)}


# --- generic spans: no dialect's mark, but the names everybody knows


@pytest.mark.parametrize(
    "held",
    [
        {"input.value": QUESTION, "output.value": ANSWER},
        {"input.value": json.dumps({"question": QUESTION}), "output.value": json.dumps({"answer": ANSWER})},
        {"input": QUESTION, "output": ANSWER, "llm.model": "m-1"},
        {"llm.prompts": QUESTION, "llm.completions": ANSWER, "llm.model": "m-1"},
        {"llm.prompt": QUESTION, "llm.completion": ANSWER},
        {"llm.request.messages": json.dumps(REQUEST[1:]), "llm.response.content": ANSWER, "llm.request.model": "m-1"},
        {"llm.input": QUESTION, "llm.output": ANSWER},
        {"prompt": QUESTION, "completion": ANSWER, "model": "m-1"},
        {"gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER, "gen_ai.request.model": "m-1"},
    ],
    ids=lambda held: next(iter(held)),
)
def test_generic_spans(held: dict[str, Any]) -> None:
    turn = Trace().span(1, "ask", held).turn()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)


def test_a_span_that_has_only_an_input_is_nothing() -> None:
    assert Trace().span(1, "job", {"input": "x", "prompt": "y"}).turns() == []
    assert Trace().span(1, "job", {"input": 5, "output": 6}).turns() == []


def test_a_generic_root_around_a_model_call_is_the_same_exchange() -> None:
    trace = Trace().span(1, "POST /ask", {"input.value": QUESTION, "output.value": ANSWER, "session.id": "s"}, took=3)
    turn = trace.span(2, "chat", chat(f"Context: x\nQuestion: {QUESTION}", ANSWER), parent=1).turn()
    assert (turn.input, turn.actual_output, turn.conversation_id) == (QUESTION, ANSWER, "s")


def test_workflow_nodes_of_a_generic_tool() -> None:
    """n8n and the like: a node inside a workflow, each with input and output."""
    trace = Trace().span(
        1,
        "workflow",
        {"input.value": json.dumps({"chatInput": QUESTION}), "output.value": json.dumps({"output": ANSWER})},
        took=5,
    )
    trace.span(
        2,
        "node Set",
        {"input.value": json.dumps({"chatInput": QUESTION}), "output.value": json.dumps({"n": 1})},
        parent=1,
    )
    turn = trace.span(
        3,
        "node AI Agent",
        {"input.value": json.dumps({"text": QUESTION}), "output.value": json.dumps({"output": ANSWER})},
        parent=1,
        at=3,
    ).turn()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)


# --- Dify


def test_dify() -> None:
    root = {
        "gen_ai.span.kind": "CHAIN",
        "gen_ai.session.id": "c-1",
        "gen_ai.user.id": "u-1",
        "gen_ai.framework": "dify",
        "input.value": QUESTION,
        "output.value": ANSWER,
    }
    model = {
        **root,
        "gen_ai.span.kind": "LLM",
        "gen_ai.request.model": "m-1",
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": "12",
        "gen_ai.usage.output_tokens": "5",
        "gen_ai.prompt": json.dumps(
            [{"role": "system", "text": "Be short.", "files": []}, {"role": "user", "text": QUESTION, "files": []}]
        ),
        "gen_ai.completion": ANSWER,
    }
    model |= {"input.value": model["gen_ai.prompt"], "output.value": ANSWER}
    retriever = {
        **root,
        "gen_ai.span.kind": "RETRIEVER",
        "retrieval.query": QUESTION,
        "retrieval.document": json.dumps([{"content": "Kayaks: 30 euros.", "metadata": {"score": 0.8}, "score": 0.8}]),
    }
    retriever |= {"input.value": QUESTION, "output.value": retriever["retrieval.document"]}
    tool = {
        **root,
        "gen_ai.span.kind": "TOOL",
        "tool.name": "prices",
        "tool.parameters": '{"q": "kayak"}',
        "input.value": '{"q": "kayak"}',
        "output.value": '{"text": "30"}',
    }
    trace = Trace().span(1, "workflow", root, took=9).span(2, "retrieval", retriever, parent=1)
    trace.span(3, "tool", tool, parent=1).span(4, "llm", model, parent=1)
    assert told(trace, "context", "tools", "tokens", "model", "conversation", "user") == {
        **TOLD,
        "context": ["Kayaks: 30 euros."],
        "tools": [("prices", {"q": "kayak"}, {"text": "30"})],
        "tokens": (12, 5),
        "model": "m-1",
        "conversation": "c-1",
        "user": "u-1",
    }


# --- Spring AI


def test_spring_ai_with_content_on_the_model() -> None:
    client = {
        "spring.ai.kind": "chat_client",
        "gen_ai.operation.name": "framework",
        "gen_ai.system": "spring_ai",
        "spring.ai.chat.client.conversation.id": "c-1",
    }
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "r-1",
        "gen_ai.response.finish_reasons": '["STOP"]',
        "gen_ai.usage.input_tokens": "12",
        "gen_ai.usage.output_tokens": "5",
    }
    for prompt, completion in (
        (json.dumps(["Be short.", QUESTION]), json.dumps([ANSWER])),
        (f'["{QUESTION}"]', f'["{ANSWER}"]'),
        (["Be short.", QUESTION], [ANSWER]),
    ):
        trace = Trace().span(1, "spring_ai chat_client", client, took=3)
        trace.span(2, "chat m-1", {**model, "gen_ai.prompt": prompt, "gen_ai.completion": completion}, parent=1)
        turn = trace.turn()
        assert (turn.input, turn.actual_output, turn.conversation_id) == (QUESTION, ANSWER, "c-1")
        assert facts(turn)["tokens"] == (12, 5)


def test_spring_ai_with_content_in_span_events() -> None:
    """The generation before: two events, each with all texts in one attribute."""
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": ["Be short.", QUESTION]}),
        ("gen_ai.content.completion", {"gen_ai.completion": [ANSWER]}),
    ]
    model = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m-1"}
    turn = Trace().span(1, "chat m-1", model, events=events).turn()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)


def test_spring_ai_without_content() -> None:
    client = {"spring.ai.kind": "chat_client", "gen_ai.operation.name": "framework"}
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.usage.input_tokens": 12}
    turn = Trace().span(1, "spring_ai chat_client", client, took=3).span(2, "chat m-1", model, parent=1).turn()
    assert turn.incomplete == "no_content"


def test_spring_ai_retrieves() -> None:
    store = {
        "db.operation.name": "query",
        "db.system": "pg_vector",
        "spring.ai.kind": "vector_store",
        "db.vector.query.content": QUESTION,
        "db.vector.query.response.documents": json.dumps(["Kayaks: 30 euros."]),
    }
    client = {
        "spring.ai.kind": "chat_client",
        "gen_ai.operation.name": "framework",
        "gen_ai.prompt": QUESTION,
        "gen_ai.completion": ANSWER,
    }
    model = chat(f"Context information is below.\n---\nKayaks: 30 euros.\n---\nQuery: {QUESTION}", ANSWER)
    trace = Trace().span(1, "chat_client", client, took=5).span(2, "pg_vector query", store, parent=1)
    turn = trace.span(3, "chat m-1", model, parent=1).turn()
    assert (turn.input, turn.actual_output, turn.retrieval_context) == (QUESTION, ANSWER, ("Kayaks: 30 euros.",))


RULER = "-" * 21
SPRING_RAG = f"Context information is below, surrounded by {RULER}\n\n{RULER}\nKayaks: 30 euros.\n{RULER}\n\nGiven the context, reply."
LANGCHAIN4J_RAG = "Answer using the following information:\nKayaks: 30 euros."


@pytest.mark.parametrize("below", [SPRING_RAG, LANGCHAIN4J_RAG], ids=["spring ai", "langchain4j"])
@pytest.mark.parametrize("question", [QUESTION, "料金は？\n\n二人乗りです。"])
def test_context_below_the_question_is_no_part_of_it(below: str, question: str) -> None:
    turn = Trace().span(1, "chat m-1", chat(f"{question}\n\n{below}", ANSWER)).turn()
    assert (turn.input, turn.retrieval_context) == (question, ("Kayaks: 30 euros.",))


# --- Langfuse


def langfuse(kind: str, given: Any, came: Any, **more: Any) -> dict[str, Any]:
    held = {"langfuse.observation.type": kind, "langfuse.observation.input": given, "langfuse.observation.output": came}
    return {**{key: each if isinstance(each, str) else json.dumps(each) for key, each in held.items()}, **more}


def test_langfuse_3_quotes_its_texts() -> None:
    root = langfuse(
        "span",
        json.dumps(QUESTION),
        json.dumps(ANSWER),
        **{"session.id": "s", "user.id": "u", "langfuse.trace.name": "ask"},
    )
    usage = json.dumps({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17})
    model = langfuse(
        "generation",
        REQUEST,
        REPLY,
        **{"langfuse.observation.model.name": "m-1", "langfuse.observation.usage_details": usage},
    )
    trace = Trace().span(1, "ask", root, took=3).span(2, "OpenAI-generation", model, parent=1)
    assert told(trace, "tokens", "model", "conversation", "user") == {
        **TOLD,
        "tokens": (12, 5),
        "model": "m-1",
        "conversation": "s",
        "user": "u",
    }


def test_langfuse_with_only_the_trace() -> None:
    """Input and output set on the trace alone; the type is span or left out."""
    held = {
        "langfuse.trace.input": json.dumps({"question": QUESTION}),
        "langfuse.trace.output": json.dumps(ANSWER),
        "langfuse.trace.name": "ask",
        "session.id": "s",
    }
    trace = Trace().span(1, "ask", held, took=3).span(2, "chat", chat(QUESTION, ANSWER), parent=1)
    assert (trace.turn().input, trace.turn().actual_output, trace.turn().conversation_id) == (QUESTION, ANSWER, "s")


def test_langfuse_generation_of_texts() -> None:
    trace = Trace().span(1, "gen", langfuse("generation", QUESTION, ANSWER))
    assert (trace.turn().input, trace.turn().actual_output) == (QUESTION, ANSWER)


def test_langfuse_usage_of_providers() -> None:
    for usage in (
        {"input": 12, "output": 5},
        {"input_tokens": 12, "output_tokens": 5},
        {"prompt_tokens": 12, "completion_tokens": 5},
    ):
        held = langfuse("generation", REQUEST, REPLY, **{"langfuse.observation.usage_details": json.dumps(usage)})
        assert facts(Trace().span(1, "gen", held).turn())["tokens"] == (12, 5)


def test_langfuse_session_in_metadata() -> None:
    held = langfuse(
        "generation",
        REQUEST,
        REPLY,
        **{"langfuse.trace.metadata.session_id": "s", "langfuse.observation.metadata.user_id": "u"},
    )
    assert told(Trace().span(1, "gen", held), "conversation", "user") == {**TOLD, "conversation": "s", "user": "u"}


def test_langfuse_evaluators_are_not_judged() -> None:
    trace = Trace().span(1, "ask", langfuse("span", QUESTION, ANSWER), took=9)
    trace.span(2, "gen", langfuse("generation", REQUEST, REPLY), parent=1)
    trace.span(3, "judge", langfuse("evaluator", ANSWER, "good"), parent=1)
    trace.span(
        4,
        "gen",
        langfuse("generation", [{"role": "user", "content": "Is this good?"}], {"role": "assistant", "content": "Yes"}),
        parent=3,
    )
    assert [turn.input for turn in trace.turns()] == [QUESTION]


def test_langfuse_error_level() -> None:
    held = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(REQUEST),
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "429",
    }
    assert told(Trace().span(1, "gen", held), "error") == {"input": QUESTION, "system": "Be short.", "error": "429"}


# --- Vercel AI SDK


def vercel(operation: str, **more: Any) -> dict[str, Any]:
    return {
        "operation.name": operation,
        "ai.operationId": operation,
        "ai.model.id": "m-1",
        "ai.model.provider": "openai.chat",
        **more,
    }


def test_vercel_5_with_tools() -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "prices", "input": {"q": "kayak"}}
    result = {
        "type": "tool-result",
        "toolCallId": "c1",
        "toolName": "prices",
        "output": {"type": "json", "value": {"euros": 30}},
    }
    user = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
    system = {"role": "system", "content": "Be short."}
    names = {
        "ai.telemetry.metadata.chatId": "c-1",
        "ai.telemetry.metadata.userId": "u-1",
        "ai.telemetry.functionId": "ask",
    }
    root = vercel(
        "ai.streamText",
        **{
            "ai.prompt": json.dumps({"system": "Be short.", "messages": [{"role": "user", "content": QUESTION}]}),
            "ai.response.text": ANSWER,
            "ai.response.finishReason": "stop",
            **names,
        },
    )
    first = vercel(
        "ai.streamText.doStream",
        **{
            "ai.prompt.messages": json.dumps([system, user]),
            "ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "prices", "input": '{"q":"kayak"}'}]),
            "ai.response.finishReason": "tool-calls",
            "ai.usage.inputTokens": 10,
            "ai.usage.outputTokens": 3,
            "ai.response.id": "r-1",
            "gen_ai.response.model": "m-2",
        },
    )
    tool = vercel(
        "ai.toolCall",
        **{
            "ai.toolCall.name": "prices",
            "ai.toolCall.id": "c1",
            "ai.toolCall.args": '{"q":"kayak"}',
            "ai.toolCall.result": '{"euros":30}',
        },
    )
    second = vercel(
        "ai.streamText.doStream",
        **{
            "ai.prompt.messages": json.dumps(
                [system, user, {"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}]
            ),
            "ai.response.text": ANSWER,
            "ai.response.reasoning": "hm",
            "ai.response.finishReason": "stop",
            "ai.usage.inputTokens": 20,
            "ai.usage.outputTokens": 6,
            "ai.response.id": "r-2",
            "gen_ai.response.model": "m-2",
        },
    )
    trace = Trace().span(1, "ai.streamText", root, took=9, scope="ai")
    trace.span(2, "doStream", first, parent=1).span(3, "ai.toolCall", tool, parent=1).span(
        4, "doStream", second, parent=1
    )
    assert told(trace, "tools", "tokens", "conversation", "user", "response") == {
        **TOLD,
        "tools": [("prices", {"q": "kayak"}, {"euros": 30})],
        "tokens": (30, 9),
        "conversation": "c-1",
        "user": "u-1",
        "response": "r-2",
    }


def test_vercel_3_results() -> None:
    leaf = vercel(
        "ai.generateText.doGenerate",
        **{
            "ai.prompt.format": "messages",
            "ai.prompt.messages": json.dumps(REQUEST),
            "ai.result.text": ANSWER,
            "ai.finishReason": "stop",
            "ai.usage.promptTokens": 12,
            "ai.usage.completionTokens": 5,
        },
    )
    root = vercel(
        "ai.generateText",
        **{"ai.prompt": json.dumps({"system": "Be short.", "prompt": QUESTION}), "ai.result.text": ANSWER},
    )
    trace = Trace().span(1, "ai.generateText", root, took=3).span(2, "doGenerate", leaf, parent=1)
    assert told(trace, "tokens") == {**TOLD, "tokens": (12, 5)}


def test_vercel_objects_and_recorded_outputs_off() -> None:
    leaf = vercel(
        "ai.generateObject.doGenerate",
        **{
            "ai.prompt.messages": json.dumps(REQUEST),
            "ai.response.object": '{"euros":30}',
            "ai.response.finishReason": "stop",
        },
    )
    assert Trace().span(1, "doGenerate", leaf).turn().actual_output == '{"euros":30}'
    bare = vercel(
        "ai.generateText.doGenerate",
        **{"ai.response.finishReason": "stop", "ai.usage.inputTokens": 3, "ai.usage.outputTokens": 4},
    )
    assert Trace().span(1, "doGenerate", bare).turn().incomplete == "no_content"


def test_vercel_embeddings_are_no_turns() -> None:
    assert (
        Trace()
        .span(1, "e", vercel("ai.embed", **{"ai.value": '"x"', "ai.embedding": "[1]"}), took=2)
        .span(2, "d", vercel("ai.embed.doEmbed"), parent=1)
        .turns()
        == []
    )


# --- Braintrust, Weave


def test_braintrust() -> None:
    root = {
        "braintrust.input_json": json.dumps({"question": QUESTION}),
        "braintrust.output_json": json.dumps(ANSWER),
        "braintrust.metadata": json.dumps({"session_id": "s", "user_id": "u"}),
        "braintrust.span_attributes": '{"type": "task"}',
        "braintrust.parent": "project_name:x",
    }
    model = {
        "braintrust.input_json": json.dumps(REQUEST),
        "braintrust.output_json": json.dumps([{"index": 0, "message": REPLY, "finish_reason": "stop"}]),
        "braintrust.metadata": json.dumps({"model": "m-1", "provider": "openai"}),
        "braintrust.metrics": json.dumps({"prompt_tokens": 12, "completion_tokens": 5}),
        "braintrust.span_attributes": '{"type": "llm"}',
    }
    score = {
        "braintrust.input_json": "{}",
        "braintrust.output_json": '{"score": 1}',
        "braintrust.span_attributes": '{"type": "score"}',
    }
    trace = (
        Trace()
        .span(1, "ask", root, took=9)
        .span(2, "Chat Completion", model, parent=1)
        .span(3, "judge", score, parent=1)
    )
    assert told(trace, "tokens", "model", "conversation", "user") == {
        **TOLD,
        "tokens": (12, 5),
        "model": "m-1",
        "conversation": "s",
        "user": "u",
    }


def test_braintrust_of_langchaingo_prints_calls_and_results() -> None:
    """The handler for Go writes parts of messages as Go prints them, and retrievals without a type."""

    def model(messages: list[Any], **answer: Any) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": "", **answer}}
        kind = {"braintrust.span_attributes": '{"type": "llm"}', "braintrust.metrics": '{"prompt_tokens": 4}'}
        return {**kind, "braintrust.input_json": json.dumps(messages), "braintrust.output_json": json.dumps([choice])}

    retrieval = {
        "braintrust.output_json": json.dumps({"query": QUESTION, "documents": [{"page_content": "Kayaks: 30 euros."}]}),
        "braintrust.metrics": '{"documents_retrieved": 1}',
    }
    call = {"id": "c1", "type": "function", "function": {"name": "get_price", "arguments": '{"of": "kayak"}'}}
    told_later = [("assistant", "{c1 function 0xc0001a2b40}"), ("tool", '{c1 get_price {"euros":30}}')]
    later = [{"role": role, "content": text} for role, text in told_later]
    trace = Trace().span(1, "shop", {}, took=9).span(2, "langchain.retriever", retrieval, parent=1)
    trace.span(3, "langchain.llm.generate_content", model(REQUEST, tool_calls=[call]), parent=1)
    trace.span(4, "langchain.llm.generate_content", model([*REQUEST, *later], content=ANSWER), parent=1)
    assert told(trace, "tools", "context") == {
        **TOLD, "tools": [("get_price", {"of": "kayak"}, {"euros": 30})], "context": ["Kayaks: 30 euros."],
    }  # fmt: skip


def test_a_streamed_request_for_tools_around_the_call_with_their_results_is_a_call_of_its_own() -> None:
    """LangChain4j goes on inside the callback of the stream, so that one call is below the other."""
    asked = {"finish_reason": "tool_calls", "message": {"role": "assistant", "content": ""}}
    call = {"id": "c1", "type": "function", "function": {"name": "get_price", "arguments": "{}"}}
    later = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "30"}]
    kinds = {
        "braintrust.span_attributes": '{"type": "llm"}',
        "braintrust.metrics": '{"prompt_tokens": 4, "completion_tokens": 2}',
    }
    first = {"braintrust.input_json": json.dumps(REQUEST), "braintrust.output_json": json.dumps([asked])}
    then = {
        "braintrust.input_json": json.dumps([*REQUEST, *later]),
        "braintrust.output_json": json.dumps([{"message": REPLY}]),
    }
    trace = (
        Trace()
        .span(1, "Chat Completion", {**kinds, **first}, took=9)
        .span(2, "Chat Completion", {**kinds, **then}, parent=1)
    )
    assert told(trace, "tokens", "tools") == {**TOLD, "tokens": (8, 4), "tools": [("get_price", {}, "30")]}


def test_weave_marks_a_turn_of_a_thread() -> None:
    root = {"wandb.is_turn": True, "wandb.thread_id": "t-1", "input.value": QUESTION, "output.value": ANSWER}
    trace = Trace().span(1, "turn", root, took=3).span(2, "chat", chat(QUESTION, ANSWER), parent=1)
    assert told(trace, "conversation") == {"input": QUESTION, "answer": ANSWER, "conversation": "t-1"}


# --- feedback


def test_an_applications_own_evaluation_is_kept() -> None:
    trace = Trace().span(1, "chat", chat(QUESTION, ANSWER, **{"gen_ai.response.id": "r-1"}))
    about = {
        "gen_ai.evaluation.name": "thumbs",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "up",
        "gen_ai.response.id": "r-1",
    }
    trace.record(None, "gen_ai.evaluation.result", None, about)
    assert facts(trace.turn())["feedback"] == [("thumbs", 1.0, "up", None)]


def test_other_evaluators_calls_are_not_turns() -> None:
    trace = Trace().span(1, "chat", chat(QUESTION, ANSWER))
    trace.span(
        2, "EVALUATOR", {"openinference.span.kind": "EVALUATOR", "input.value": ANSWER, "output.value": "0.9"}, took=5
    )
    trace.span(3, "chat", chat("Is this good?", "0.9"), parent=2)
    assert [turn.input for turn in trace.turns()] == [QUESTION]


# --- Claude Code


def test_claude_codes_spans_are_one_turn_that_cannot_be_judged() -> None:
    who = {"session.id": "s", "user.id": "u"}
    requests = {
        "model": "m-1",
        "gen_ai.system": "anthropic",
        "gen_ai.request.model": "m-1",
        "input_tokens": 10,
        "output_tokens": 2,
        "success": True,
        **who,
    }
    for prompt, known in (("<REDACTED>", None), (QUESTION, QUESTION)):
        interaction = {"user_prompt": prompt, "user_prompt_length": 20, "interaction.sequence": 1, **who}
        trace = Trace().span(
            1, "claude_code.interaction", interaction, scope="com.anthropic.claude_code.tracing", took=9
        )
        for number in (2, 4):
            trace.span(number, "claude_code.llm_request", requests, parent=1, scope="com.anthropic.claude_code.tracing")
        trace.span(
            3, "claude_code.tool", {"tool_name": "Bash", **who}, parent=1, scope="com.anthropic.claude_code.tracing"
        )
        turn = trace.turn()
        assert (turn.input, turn.actual_output, turn.conversation_id, turn.user_id) == (known, None, "s", "u")
        assert turn.incomplete == "no_content"


def test_claude_codes_records() -> None:
    trace = Trace().record(
        None,
        "",
        None,
        {"event.name": "user_prompt", "prompt": QUESTION, "session.id": "s"},
        scope="com.anthropic.claude_code.events",
    )
    assert facts(trace.turn()) == {"input": QUESTION, "conversation": "s", "incomplete": "no_content"}


# --- AWS's distribution


def adot(scope: str, given: Any, came: Any) -> tuple[str, dict[str, Any]]:
    return scope, {"input": {"messages": given}, "output": {"messages": came}}


def test_adot_moves_the_contents_of_strands() -> None:
    given = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": {"content": json.dumps([{"text": QUESTION}])}},
    ]
    came = [{"role": "assistant", "content": {"message": json.dumps([{"text": ANSWER}]), "finish_reason": "end_turn"}}]
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
    }
    trace = Trace().span(1, "chat", model, scope="strands.telemetry.tracer")
    name, body = adot("strands.telemetry.tracer", given, came)
    trace.record(1, name, body, {"session.id": "s"}, scope=name)
    assert told(trace, "tokens") == {**TOLD, "tokens": (9, 4)}


def test_adot_moves_tool_calls() -> None:
    use = [{"toolUse": {"toolUseId": "c1", "name": "prices", "input": {"q": "kayak"}}}]
    result = [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "30"}]}}]
    given = [
        {"role": "user", "content": {"content": json.dumps([{"text": QUESTION}])}},
        {"role": "assistant", "content": {"content": json.dumps(use)}},
        {"role": "user", "content": {"content": json.dumps(result)}},
    ]
    came = [{"role": "assistant", "content": {"message": json.dumps([{"text": ANSWER}]), "finish_reason": "end_turn"}}]
    trace = Trace().span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
    name, body = adot("strands.telemetry.tracer", given, came)
    assert facts(trace.record(1, name, body, scope=name).turn())["tools"] == [("prices", {"q": "kayak"}, "30")]


def test_adot_moves_the_contents_of_openinference() -> None:
    """The roles stay on the span, what was said is gone from it."""
    held = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.input_messages.0.message.role": "user",
        "llm.output_messages.0.message.role": "assistant",
    }
    name, body = adot(
        "openinference.instrumentation.langchain",
        [{"role": "user", "content": QUESTION}],
        [{"role": "assistant", "content": ANSWER}],
    )
    turn = Trace().span(1, "ChatOpenAI", held, scope=name).record(1, name, body, scope=name).turn()
    assert (turn.input, turn.actual_output, turn.model) == (QUESTION, ANSWER, "m-1")


def test_vercel_6_leaves_an_empty_answer_out() -> None:
    leaf = vercel(
        "ai.generateText.doGenerate",
        **{
            "ai.prompt.messages": json.dumps(REQUEST),
            "ai.response.finishReason": "stop",
            "ai.usage.inputTokens": 12,
            "ai.usage.outputTokens": 0,
        },
    )
    root = vercel(
        "ai.generateText",
        **{"ai.prompt": json.dumps({"system": "Be short.", "prompt": QUESTION}), "ai.response.finishReason": "stop"},
    )
    turn = Trace().span(1, "ai.generateText", root, took=3).span(2, "doGenerate", leaf, parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, "", None)


def test_vercel_7_keeps_its_names_in_the_settings_context() -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "ai.settings.context.sessionId": "s",
        "ai.settings.context.userId": "u",
    }
    trace = Trace().span(1, "invoke_agent", agent, took=3, scope="gen_ai")
    turn = trace.span(2, "chat", chat(QUESTION, ANSWER), parent=1, scope="gen_ai").turn()
    assert (turn.conversation_id, turn.user_id) == ("s", "u")


# --- MLflow, LangSmith, Haystack


def test_mlflow_quotes_everything() -> None:
    root = {
        "mlflow.spanType": '"AGENT"',
        "mlflow.spanInputs": json.dumps({"question": QUESTION}),
        "mlflow.spanOutputs": json.dumps(ANSWER),
    }
    model = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": json.dumps({"model": "m-1", "messages": REQUEST}),
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": REPLY, "finish_reason": "stop"}]}),
        "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}),
        "mlflow.llm.model": '"m-1"',
    }
    found = {
        "mlflow.spanType": '"RETRIEVER"',
        "mlflow.spanInputs": json.dumps({"query": QUESTION}),
        "mlflow.spanOutputs": json.dumps([{"page_content": "30 euros.", "metadata": {"doc_uri": "d"}, "id": None}]),
    }
    trace = (
        Trace()
        .span(1, "ask", root, took=9)
        .span(2, "retrieve", found, parent=1)
        .span(3, "Completions", model, parent=1)
    )
    assert told(trace, "tokens", "model", "context") == {
        **TOLD,
        "tokens": (12, 5),
        "model": "m-1",
        "context": ["30 euros."],
    }


def test_mlflow_fails_without_a_message() -> None:
    model = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": REQUEST})}
    event = ("exception", {"exception.type": "RateLimitError", "exception.message": "429"})
    assert Trace().span(1, "Completions", model, error="", events=[event]).turn().error == "RateLimitError: 429"


def lc(name: str, text: str) -> dict[str, Any]:
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", name],
        "kwargs": {"content": text},
    }


def test_langsmith_runs_of_langchain() -> None:
    given = {"messages": [[lc("SystemMessage", "Be short."), lc("HumanMessage", QUESTION)]]}
    came = {
        "generations": [[{"text": ANSWER, "type": "ChatGeneration", "message": lc("AIMessage", ANSWER)}]],
        "llm_output": None,
    }
    model = {
        "langsmith.span.kind": "llm",
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": json.dumps(given),
        "gen_ai.completion": json.dumps(came),
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "langsmith.metadata.thread_id": "t",
        "langsmith.trace.session_id": "a project",
        "langsmith.metadata.ls_model_name": "m-1",
    }
    assert told(Trace().span(1, "ChatOpenAI", model), "tokens", "conversation", "model") == {
        **TOLD,
        "tokens": (12, 5),
        "conversation": "t",
        "model": "m-1",
    }


def test_haystack_generators_of_texts() -> None:
    """The generator that is no chat generator: a prompt, and replies that are texts."""
    held = {
        "haystack.component.name": "llm",
        "haystack.component.type": "OpenAIGenerator",
        "haystack.component.input": json.dumps({"prompt": QUESTION, "generation_kwargs": {}}),
        "haystack.component.output": json.dumps(
            {
                "replies": [ANSWER],
                "meta": [
                    {"model": "m-1", "finish_reason": "stop", "usage": {"prompt_tokens": 12, "completion_tokens": 5}}
                ],
            }
        ),
    }
    assert facts(Trace().span(1, "haystack.component.run", held).turn()) == {
        "input": QUESTION,
        "answer": ANSWER,
        "tokens": (12, 5),
        "model": "m-1",
    }


# --- voice: a whole conversation in one trace


def test_pipecat() -> None:
    trace = Trace().span(1, "conversation", {"conversation.id": "c", "conversation.type": "voice"}, took=30)
    before: list[dict[str, str]] = []
    for number, (question, answer) in enumerate(((QUESTION, ANSWER), ("And boats?", "Forty."))):
        before.append({"role": "user", "content": question})
        turn = {"turn.number": number + 1, "turn.type": "conversation"}
        model = {
            "gen_ai.system": "openai",
            "gen_ai.request.model": "m-1",
            "gen_ai.operation.name": "chat",
            "input": json.dumps(before),
            "output": answer,
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 4,
        }
        trace.span(2 + 10 * number, "turn", turn, parent=1, took=5).span(
            3 + 10 * number, "llm", model, parent=2 + 10 * number
        )
        before.append({"role": "assistant", "content": answer})
    assert [(turn.input, turn.actual_output, turn.conversation_id) for turn in trace.turns()] == [
        (QUESTION, ANSWER, "c"),
        ("And boats?", "Forty.", "c"),
    ]


def test_livekit() -> None:
    context = {
        "items": [
            {"id": "i", "type": "message", "role": "system", "content": ["Be short."]},
            {"id": "j", "type": "message", "role": "user", "content": [QUESTION]},
        ]
    }
    node = {"lk.chat_ctx": json.dumps(context), "lk.response.text": ANSWER}
    trace = Trace().span(1, "agent_turn", {}, took=5).span(2, "llm_node", node, parent=1, took=3)
    trace.span(
        3,
        "llm_request",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m-1",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 5,
        },
        parent=2,
        at=2.5,
    )
    assert told(trace, "tokens") == {**TOLD, "tokens": (12, 5)}


def test_documents_that_are_plain_texts_are_passages_and_ids_are_none() -> None:
    documents = ["Kayaks: 30 euros.", "doc-17", "保証金は120ユーロです。", {"id": "3", "content": "Open."}, 7, None]
    found = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(documents)}
    trace = Trace().span(1, "invoke_agent", {**chat(QUESTION, ANSWER), "gen_ai.operation.name": "invoke_agent"}, took=9)
    turn = trace.span(2, "retrieval", found, parent=1).span(3, "chat", chat(QUESTION, ANSWER), parent=1).turn()
    assert turn.retrieval_context == ("Kayaks: 30 euros.", "保証金は120ユーロです。", "Open.")
