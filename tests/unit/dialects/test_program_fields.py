"""Structured programs (DSPy): questions and answers out of the prompts of their adapters, and never the prompts themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from made_up import Trace, facts

from collector.dialects.program_fields import is_scaffolding

QUESTION, ANSWER = "How much is a double kayak?", "It costs 42 euros a day."
CONTEXT = "[1] «Double kayaks: 42 euros\na day.»\n[2] «Open 9 to 18.»"
KIND = "openinference.span.kind"


def system(inputs: Sequence[str], outputs: Sequence[str]) -> str:
    def listing(names: Sequence[str]) -> str:
        return "\n".join(f"{number}. `{name}` (str): " for number, name in enumerate(names, 1))

    rest = "All interactions will be structured in the following way, with the appropriate values filled in."
    return f"Your input fields are:\n{listing(inputs)}\nYour output fields are:\n{listing(outputs)}\n{rest}"


def wrap(adapter: str, fields: dict[str, Any], *, outputs: bool) -> str:
    if adapter == "json" and outputs:
        return json.dumps(fields)
    if adapter == "xml":
        return "\n".join(f"<{name}>\n{value}\n</{name}>" for name, value in fields.items())
    marked = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
    return marked + ("\n\n[[ ## completed ## ]]\n" if outputs else "")


def model_call(adapter: str, inputs: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """The attributes of one model call that an adapter made."""
    user = wrap(adapter, inputs, outputs=False) + "\n\nRespond with the corresponding output fields, as agreed."
    attributes: dict[str, Any] = {
        KIND: "LLM",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": system(list(inputs), list(outputs or {"answer": ""})),
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": user,
    }
    if outputs is not None:
        attributes["llm.output_messages.0.message.role"] = "assistant"
        attributes["llm.output_messages.0.message.content"] = wrap(adapter, outputs, outputs=True)
    return attributes


def chain(inputs: Any, outputs: Any) -> dict[str, Any]:
    return {KIND: "CHAIN", "input.value": json.dumps(inputs), "output.value": json.dumps(outputs)}


ADAPTERS = pytest.mark.parametrize("adapter", ["chat", "json", "xml"])


@ADAPTERS
@pytest.mark.parametrize("enclosed", [True, False])
def test_question_answer_and_passages_are_the_fields_values(adapter: str, enclosed: bool) -> None:
    trace = Trace()
    if enclosed:
        trace.span(0, "ChainOfThought.forward", chain({"question": QUESTION}, {"reasoning": "So.", "answer": ANSWER}))
    inputs, outputs = {"context": CONTEXT, "question": QUESTION}, {"reasoning": "It follows.", "answer": ANSWER}
    trace.span(1, "LM.__call__", model_call(adapter, inputs, outputs), parent=0 if enclosed else None)
    [turn] = trace.turns()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, ANSWER, None)
    assert turn.retrieval_context == ("Double kayaks: 42 euros\na day.", "Open 9 to 18.")


@ADAPTERS
def test_an_agent_is_one_turn_with_its_tools(adapter: str) -> None:
    trace = Trace()
    trace.span(0, "ReAct.forward", chain({"input_args": {"question": QUESTION}}, {"answer": ANSWER}), took=9)
    call = {"next_thought": "Look.", "next_tool_name": "find_price", "next_tool_args": '{"boat": "double"}'}
    done = {"next_thought": "Done.", "next_tool_name": "finish", "next_tool_args": "{}"}
    for number, (trajectory, outputs) in enumerate([("", call), ("looked", done)], 1):
        inputs = {"question": QUESTION, "trajectory": trajectory}
        trace.span(number, "LM.__call__", model_call(adapter, inputs, outputs), parent=0)
    tool = {KIND: "TOOL", "input.value": '{"kwargs": {"boat": "double"}}', "output.value": "42 euros"}
    trace.span(4, "find_price.__call__", tool, parent=0, at=1.6, took=0.1)
    last = model_call(adapter, {"question": QUESTION, "trajectory": "all"}, {"reasoning": "So.", "answer": ANSWER})
    trace.span(3, "LM.__call__", last, parent=0)
    [turn] = trace.turns()
    held = facts(turn)
    assert (held["input"], held["answer"], held["tools"]) == (
        QUESTION,
        ANSWER,
        [("find_price", {"boat": "double"}, "42 euros")],
    )


@ADAPTERS
def test_several_outputs_are_an_object(adapter: str) -> None:
    trace = Trace()
    trace.span(1, "LM.__call__", model_call(adapter, {"text": "42 euros"}, {"price": "42", "currency": "EUR"}))
    [turn] = trace.turns()
    assert turn.input == "42 euros"
    assert json.loads(turn.actual_output or "") == {"price": "42", "currency": "EUR"}


def test_a_failed_call_keeps_its_clean_question() -> None:
    trace = Trace()
    trace.span(1, "LM.__call__", model_call("chat", {"question": QUESTION}, None), error="upstream crashed")
    [turn] = trace.turns()
    assert turn.input == QUESTION
    assert turn.error


def test_without_the_system_prompt_markers_are_enough() -> None:
    attributes = model_call("chat", {"question": QUESTION}, {"answer": ANSWER})
    attributes["llm.input_messages.0.message.content"] = "cut away"
    trace = Trace()
    trace.span(1, "LM.__call__", attributes)
    [turn] = trace.turns()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)


PARTS = '[{"type": "text", "text": "It costs 42 euros a day."}, {"type": "reasoning", "text": "Hm."}]'
SCAFFOLDS = ["[[ ## price\nunfinished", "<shop.Answer object at 0x7f00aa>", "x\n[[ ## answer ## ]]\nIt", PARTS]


def plain_call(answer: str) -> dict[str, Any]:
    return {
        KIND: "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"Answer shortly: {QUESTION}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }


@pytest.mark.parametrize("answer", SCAFFOLDS[1:3], ids=["repr", "markers"])
def test_scaffolding_is_not_judged(answer: str) -> None:
    trace = Trace()
    trace.span(1, "call", plain_call(answer))
    [turn] = trace.turns()
    assert (turn.actual_output, turn.incomplete) == (None, "scaffolding")


@pytest.mark.parametrize("answer", SCAFFOLDS[1:3], ids=["repr", "markers"])
def test_a_clean_answer_around_scaffolding_is_used(answer: str) -> None:
    trace = Trace()
    trace.span(0, "answer", chain({"question": QUESTION}, {"answer": ANSWER}), took=3)
    trace.span(1, "call", plain_call(answer), parent=0)
    [turn] = trace.turns()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, ANSWER, None)


def test_a_chain_with_another_question_does_not_lend_its_answer() -> None:
    trace = Trace()
    trace.span(0, "nightly", chain({"question": "Rebuild the index of all boats."}, {"answer": "done"}), took=3)
    trace.span(1, "call", plain_call(SCAFFOLDS[1]), parent=0)
    [turn] = trace.turns()
    assert (turn.actual_output, turn.incomplete) == (None, "scaffolding")


@pytest.mark.parametrize("text", [SCAFFOLDS[1], SCAFFOLDS[2], PARTS, "[[ ## answer ## ]]\nYes."])
def test_what_is_scaffolding(text: str) -> None:
    assert is_scaffolding(text)


@pytest.mark.parametrize(
    "text",
    [None, "", ANSWER, "Use [[ ## x ## ]] in a template.", '{"price": 42}', "[1, 2]", "<b>bold</b>", '[{"name": "A"}]',
     "print(kayak)", SCAFFOLDS[0], "[" * 5000],
    ids=range(11),
)  # fmt: skip
def test_what_is_not_scaffolding(text: str | None) -> None:
    assert not is_scaffolding(text)
