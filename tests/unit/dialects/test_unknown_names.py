"""Names that no dialect knows: of kinds, roles and parts. None of them may lose a turn, or put other text into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import ASSEMBLER, Trace, chat, parts

from collector.assemble.explain import explain

QUESTION, ANSWER = "Windy?", "Yes."
ASKED = [{"role": "user", "content": QUESTION}]
SAID = {"role": "assistant", "content": ANSWER}
CHOICE = {"choices": [{"message": SAID}]}

KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("openinference.span.kind", "CHAT", {
        "llm.model_name": "m", "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION, "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER}),
    ("langfuse.observation.type", "realtime", {
        "langfuse.observation.model.name": "m", "langfuse.observation.input": json.dumps(ASKED),
        "langfuse.observation.output": json.dumps(SAID)}),
    ("mlflow.spanType", '"REALTIME"', {
        "mlflow.spanInputs": json.dumps({"model": "m", "messages": ASKED}), "mlflow.spanOutputs": json.dumps(CHOICE),
        "mlflow.llm.model": '"m"'}),
    ("langsmith.span.kind", "chat_model", {
        "gen_ai.request.model": "m", "gen_ai.prompt": json.dumps({"messages": ASKED}),
        "gen_ai.completion": json.dumps(CHOICE)}),
    ("mastra.span.type", "realtime_generation", {
        "gen_ai.request.model": "m", "gen_ai.input.messages": parts(("user", QUESTION)),
        "gen_ai.output.messages": parts(("assistant", ANSWER))}),
    ("traceloop.span.kind", "realtime", {
        "gen_ai.request.model": "m", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION,
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": ANSWER}),
    ("braintrust.span_attributes", '{"type": "chat"}', {
        "braintrust.input_json": json.dumps(ASKED), "braintrust.output_json": json.dumps(CHOICE["choices"]),
        "braintrust.metadata": '{"model": "m"}'}),
    ("genkit:metadata:subtype", "live-model", {
        "genkit:type": "action", "genkit:name": "googleai/gemini",
        "genkit:input": json.dumps({"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}),
        "genkit:output": json.dumps({"message": {"role": "model", "content": [{"text": ANSWER}]}})}),
    ("gen_ai.span.kind", "REALTIME", {
        "gen_ai.request.model": "m", "input.value": QUESTION, "output.value": ANSWER}),
    ("gen_ai.operation.name", "llm_call", chat(QUESTION, ANSWER)),
    ("ai.operationId", "ai.realtime", {
        "ai.model.id": "m", "ai.prompt": json.dumps({"prompt": QUESTION}), "ai.response.text": ANSWER}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "name", "held"), KINDS, ids=[key for key, _, _ in KINDS])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "around a tool"])
def test_an_unknown_kind_is_a_models_call(key: str, name: str, held: dict[str, Any], *, inside: bool) -> None:
    trace = Trace().span(9, "request", at=0, took=20).span(1, "call", {**held, key: name}, parent=9)
    if inside:
        trace.span(2, "wind", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wind"}, parent=1)
    turn = trace.turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, ANSWER, None)


@pytest.mark.parametrize("role", ["customer", "end_user", "human-user", "User"])
def test_a_user_of_another_name_asks(role: str) -> None:
    held = {**chat("", ANSWER), "gen_ai.input.messages": parts(("system", "Be brief."), (role, QUESTION))}
    assert Trace().span(1, "chat", held).turn().input == QUESTION


@pytest.mark.parametrize("role", ["agent", "ai_assistant", "ASSISTANT", "support-bot"])
def test_an_assistant_of_another_name_answers(role: str) -> None:
    held = {**chat(QUESTION, None), "gen_ai.output.messages": parts((role, ANSWER))}
    assert Trace().span(1, "chat", held).turn().actual_output == ANSWER


def test_words_of_an_unknown_role_are_no_empty_answer() -> None:
    held = {**chat(QUESTION, None), "gen_ai.output.messages": parts(("narrator", ANSWER))}
    turn = Trace().span(1, "chat", held).turn()
    assert (turn.actual_output, turn.incomplete) == (None, "no_content")


@pytest.mark.parametrize(
    "kind", ["thought", "thoughts", "reasoning_content", "reasoning.text", "thinking_block", "ThinkingPart"]
)
def test_thoughts_of_any_name_are_no_answer(kind: str) -> None:
    spoken = [{"type": kind, "content": "Hm."}, {"type": "text", "content": ANSWER}]
    held = {**chat(QUESTION, None), "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": spoken}])}
    assert Trace().span(1, "chat", held).turn().actual_output == ANSWER


@pytest.mark.parametrize(("texts", "thoughts", "warned"), [(2, 9, True), (2, 0, False), (1, 9, False)])
def test_thoughts_that_nobody_marked_are_warned_of(texts: int, thoughts: int, *, warned: bool) -> None:
    spoken = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}] * texts}]
    held = {**chat(QUESTION, None), "gen_ai.output.messages": json.dumps(spoken)}
    trace = Trace().span(1, "chat", {**held, "gen_ai.usage.reasoning.output_tokens": thoughts})
    (span,) = explain("", trace.pieces(), ASSEMBLER).spans
    assert any("some may be thoughts" in reason for reason in span.incomplete) is warned


@pytest.mark.parametrize("kind", ["markdown", "Text", "rich_text"])
def test_texts_of_any_name_are_the_answer(kind: str) -> None:
    spoken = [{"role": "assistant", "parts": [{"type": kind, "content": ANSWER}]}]
    held = {**chat(QUESTION, None), "gen_ai.output.messages": json.dumps(spoken)}
    assert Trace().span(1, "chat", held).turn().actual_output == ANSWER


@pytest.mark.parametrize("reason", ["FinishReason.STOP", "requires_action", "done"])
def test_an_unknown_finish_reason_loses_nothing(reason: str) -> None:
    held = {**chat(QUESTION, ANSWER), "gen_ai.response.finish_reasons": [reason]}
    assert Trace().span(1, "chat", held).turn().actual_output == ANSWER
