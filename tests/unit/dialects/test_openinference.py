"""OpenInference around frameworks: multi-part messages, text completions, rerankers, feedback, masks, handoffs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, facts

KIND = "openinference.span.kind"


def llm(**more: Any) -> dict[str, Any]:
    return {KIND: "LLM", "llm.model_name": "m-1", **more}


def said(**more: Any) -> dict[str, Any]:
    held = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "What is this?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A kayak.",
    }
    return llm(**{**held, **more})


def test_several_parts_and_a_picture() -> None:
    held = llm(**{
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "What is this?",
        "llm.input_messages.0.message.contents.1.message_content.type": "image",
        "llm.input_messages.0.message.contents.1.message_content.image.image.url": "__REDACTED__",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": "reasoning",
        "llm.output_messages.0.message.contents.0.message_content.text": "Hm.",
        "llm.output_messages.0.message.contents.1.message_content.type": "text",
        "llm.output_messages.0.message.contents.1.message_content.text": "A kayak.",
    })  # fmt: skip
    assert facts(Trace().span(1, "ChatCompletion", held).turn()) == {
        "input": "What is this?", "answer": "A kayak.", "model": "m-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "choice"),
    [
        ({"llm.prompts": ["What is this?"]}, {"output.value": "A kayak."}),
        ({"llm.prompts.0.prompt.text": "What is this?"}, {"llm.choices.0.completion.text": "A kayak."}),
        ({"input.value": '{"prompt": "What is this?"}'}, {"output.value": '{"choices": [{"text": "A kayak."}]}'}),
    ],
)
def test_text_completions(prompt: dict[str, Any], choice: dict[str, Any]) -> None:
    turn = Trace().span(1, "Completion", llm(**prompt, **choice)).turn()
    assert (turn.input, turn.actual_output) == ("What is this?", "A kayak.")


def test_langchain4js_listeners_print_messages_and_say_only_that_a_service_ran() -> None:
    printed = said(**{
        "llm.input_messages.0.message.content": 'UserMessage { name = null, contents = [TextContent { text = "What is this?" }] }',
        "input.value": json.dumps([{"role": "user", "content": "What is this?"}]),
    })  # fmt: skip
    assert facts(Trace().span(1, "generate", printed).turn())["input"] == "What is this?"
    ran = {KIND: "AGENT", "input.value": "Execution Started", "output.value": "Execution Completed"}
    assert Trace().span(1, "AiService.start", ran).turns() == []
    inside = Trace().span(1, "AiService.start", ran, took=9).span(2, "AiService.chat", said(), parent=1)
    assert facts(inside.turn())["answer"] == "A kayak."


def test_a_reranker_chooses_what_was_retrieved() -> None:
    retriever = {KIND: "RETRIEVER", "input.value": "What is this?"}
    reranker = {KIND: "RERANKER", "reranker.query": "What is this?"}
    for index, text in enumerate(("A boat.", "A kayak has a paddle.", "A car.")):
        retriever |= {
            f"retrieval.documents.{index}.document.content": text,
            f"retrieval.documents.{index}.document.score": 0.1,
        }
        reranker |= {f"reranker.input_documents.{index}.document.content": text}
    reranker |= {"reranker.output_documents.0.document.content": "A kayak has a paddle."}
    trace = Trace().span(
        1, "query", {KIND: "CHAIN", "input.value": "What is this?", "output.value": "A kayak."}, took=9
    )
    trace.span(2, "retrieve", retriever, parent=1).span(3, "rerank", reranker, parent=1).span(
        4, "llm", said(), parent=1
    )
    assert facts(trace.turn())["context"] == ["A kayak has a paddle."]


def test_annotations_are_feedback() -> None:
    held = said(**{
        "annotations.0.annotation.name": "thumbs",
        "annotations.0.annotation.label": "up",
        "annotations.0.annotation.score": 1.0,
        "annotations.0.annotation.annotator_kind": "HUMAN",
        "trace.evaluations.0.evaluation.name": "helpful",
        "trace.evaluations.0.evaluation.score": 0.5,
    })  # fmt: skip
    turn = Trace().span(1, "llm", held).turn()
    assert facts(turn)["feedback"] == [("thumbs", 1.0, "up", None), ("helpful", 0.5, None, None)]
    assert turn.feedback[0].source == "user"


def test_usage_session_user_and_finish() -> None:
    held = said(**{
        "llm.token_count.prompt": 9, "llm.token_count.completion": 4, "llm.token_count.total": 13,
        "session.id": "a/b#c", "user.id": "u", "llm.finish_reason": "stop", "metadata": '{"tier": "gold"}',
        "output.value": '{"id":"chatcmpl-1","choices":[]}', "output.mime_type": "application/json",
    })  # fmt: skip
    assert facts(Trace().span(1, "llm", held).turn()) == {
        "input": "What is this?", "answer": "A kayak.", "tokens": (9, 4), "model": "m-1", "response": "chatcmpl-1",
        "conversation": "a/b#c", "user": "u",
    }  # fmt: skip


def test_the_session_of_a_root_holds_for_what_is_below() -> None:
    trace = Trace().span(1, "root", {KIND: "CHAIN", "metadata": '{"thread_id": "t", "user_id": "u"}'}, took=5)
    turn = trace.span(2, "llm", said(), parent=1).turn()
    assert (turn.conversation_id, turn.user_id) == ("t", "u")


def test_masked_inputs_and_outputs() -> None:
    for side, hidden in (("input", "input"), ("output", "actual_output")):
        held = said(**{f"llm.{side}_messages.0.message.content": "__REDACTED__", f"{side}.value": "__REDACTED__"})
        turn = Trace().span(1, "llm", held).turn()
        assert (getattr(turn, hidden), turn.incomplete) == (None, "redacted")


def test_an_agents_call_without_arguments_has_none() -> None:
    """Empty arguments are left out."""
    asks = llm(**{
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Is it windy?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "h",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "transfer_to_wind",
    })  # fmt: skip
    answers = llm(**{
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Is it windy?",
        "llm.input_messages.1.message.role": "tool",
        "llm.input_messages.1.message.tool_call_id": "h",
        "llm.input_messages.1.message.content": '{"assistant": "wind"}',
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Yes.",
    })  # fmt: skip
    trace = Trace().span(1, "Agent workflow", {KIND: "AGENT"}, took=9)
    turn = trace.span(2, "response", asks, parent=1).span(3, "response", answers, parent=1).turn()
    assert facts(turn)["tools"] == [("transfer_to_wind", {}, {"assistant": "wind"})]


def test_the_request_helps_where_attributes_were_evicted() -> None:
    request = {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is this?"}]}
    held = llm(**{
        "llm.input_messages.1.message.content": "What is this?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A kayak.",
        "input.value": json.dumps(request),
    })  # fmt: skip
    turn = Trace().span(1, "llm", held, dropped=12).turn()
    assert (turn.system_prompt, turn.input, turn.actual_output) == ("Be short.", "What is this?", "A kayak.")
