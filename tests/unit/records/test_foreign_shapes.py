"""Cases in the words of DeepEval, Ragas, promptfoo, OpenAI, LangChain, Anthropic and UiPath, and words of nobody."""

from __future__ import annotations

from typing import Any

import pytest
from orjson import loads

from collector.commands.cases.formats import to_jsonl, to_turns
from collector.commands.cases.selection import SelectedCase
from collector.errors import BadInput
from collector.records.foreign_shapes import csv_rows, rows_of
from collector.records.ready_made import turns_in
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Message, ToolCall, Turn

CALLED = ToolCall(name="find", arguments={"a": 1})


def one(document: dict[str, Any]) -> Turn:
    [turn] = turns_in(document)
    return turn


@pytest.mark.parametrize(
    "call",
    [
        {"name": "find", "arguments": {"a": 1}},
        {"name": "find", "args": {"a": 1}, "type": "tool_call"},
        {"name": "find", "input_parameters": {"a": 1}, "description": "Finds.", "reasoning": None},
        {"name": "find", "inputParameters": {"a": 1}},
        {"type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}},
        {"type": "tool_use", "name": "find", "input": {"a": 1}},
        {"type": "function_call", "name": "find", "arguments": '{"a": 1}', "status": "completed"},
        {"functionCall": {"name": "find", "args": {"a": 1}}},
        {"toolName": "find", "args": {"a": 1}},
        {"part_kind": "tool-call", "tool_name": "find", "args": '{"a": 1}'},  # Pydantic AI
        {"function_name": "find", "plugin_name": "p", "arguments": {"a": 1}},  # Semantic Kernel
        {"tool_name": "find", "tool_kwargs": {"a": 1}},  # LlamaIndex
        {"tool": "find", "tool_input": {"a": 1}, "log": "Calling"},  # agents of LangChain, cases of Google's ADK
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "find", "arguments": {"a": 1}}},  # MCP
        {"function": "find", "kwargs": {"a": 1}},
    ],
)
@pytest.mark.parametrize("field", ["tools_called", "expected_tools", "toolsCalled"])
def test_tool_calls_keep_their_arguments(call: dict[str, Any], field: str) -> None:
    turn = one({"input": "Q", "actual_output": "A", field: [call]})
    assert (turn.expected_tools if field == "expected_tools" else turn.tools_called) == (CALLED,)
    said = one(
        {"input": "Q", "actual_output": "A", "history": [{"role": "assistant", "content": "", "tool_calls": [call]}]}
    )
    assert said.history == (Message(role="assistant", content="", tool_calls=(CALLED,)),)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools_called": [{"name": "x", "argz": {}}]}, "tools_called.0.argz: unknown key in a tool call"),
    ({"expected_tools": [{"name": "x", "arguements": {}}]}, "did you mean 'arguments'?"),
    ({"tools_called": [{"name": "x", "args": {"a": 1}, "input": {"a": 2}}]}, "says arguments a second time"),
    ({"tools_called": ["x"]}, "tools_called.0 must be an object"),
    ({"history": [{"role": "user", "contnet": "Hi"}]}, "history.0.contnet: unknown key in a message"),
    ({"history": [{"role": "user", "content": "Hi", "nmae": "Ada"}]}, "history.0.nmae: unknown key"),
    (
        {"feedback": [{"name": "thumbs", "valeu": 1}]},
        "feedback.0.valeu: unknown key in feedback; did you mean 'value'",
    ),
    ({"tools_offered": [{"name": "x", "paramters": {}}]}, "did you mean 'parameters'?"),
    ({"attachments": [{"kind": "image", "adress": "x"}]}, "attachments.0.adress: unknown key in an attachment"),
    ({"usage": {"tokens": 3}}, "usage.tokens: unknown key in usage"),
    ({"retrieval_context": [{"txt": "P"}]}, "retrieval_context"),
    ({"answer": "B"}, "answer: says actual_output a second time; keep one of them"),
]


@pytest.mark.parametrize(("fields", "problem"), REFUSED)
def test_a_key_that_nobody_uses_is_refused_with_its_place(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        one({"input": "Q", "actual_output": "A", **fields})
    assert problem in str(caught.value)


TURNS: list[dict[str, Any]] = [
        {"input": "Q", "actual_output": "A", "expected_output": "E", "retrieval_context": ["P"]},
        {"input": "Q", "actualOutput": "A", "expectedOutput": "E", "retrievalContext": ["P"], "sourceFile": "x",
         "context": None, "toolsCalled": None, "additionalMetadata": None, "comments": None},
        {"user_input": "Q", "response": "A", "reference": "E", "retrieved_contexts": ["P"], "rubrics": None},
        {"question": "Q", "answer": "A", "ground_truth": "E", "contexts": ["P"]},
        {"query": "Q", "response": "A", "expected_answer": "E", "documents": [{"page_content": "P", "metadata": {}}]},
        {"input": "Q", "output": "A", "expected": "E", "retrieval_context": [{"text": "P"}]},
        {"Question": "Q", "Answer": "A", "Ground Truth": "E", "Contexts": ["P"]},
        {"prompt": "Q", "completion": "A", "target": "E", "contexts": ["P"]},
]  # fmt: skip


@pytest.mark.parametrize("document", TURNS)
def test_a_turn_by_other_names(document: dict[str, Any]) -> None:
    turn = one(document)
    assert (turn.input, turn.actual_output, turn.expected_output, turn.retrieval_context) == ("Q", "A", "E", ("P",))


def test_turns_with_roles_become_one_turn_for_each_answer() -> None:
    document = {
        "scenario": "A return.",
        "expectedOutcome": "It is accepted.",
        "userDescription": "In a hurry.",
        "turns": [
            {"role": "user", "content": "Hi"},
            {"role": "user", "content": "Can I return it?"},
            {"role": "assistant", "content": "Yes.", "tools_called": [{"name": "find", "input_parameters": {"a": 1}}]},
            {"role": "user", "content": "When?"},
            {"role": "assistant", "content": "Now.", "retrieval_context": ["30 days"]},
        ],
    }
    first, second = turns_in(document, "file:1")
    assert (first.input, first.actual_output, first.tools_called) == ("Hi\nCan I return it?", "Yes.", (CALLED,))
    assert (second.input, second.actual_output, second.retrieval_context) == ("When?", "Now.", ("30 days",))
    assert first.conversation_id == second.conversation_id is not None
    assert first.attributes == {
        "conversation.scenario": "A return.",
        "conversation.expected_outcome": "It is accepted.",
    }
    assert [message.content for message in second.history] == ["Hi\nCan I return it?", "Yes."]


def test_a_chat_of_ragas() -> None:
    messages = [{"content": "Q", "type": "human"}, {"content": "A", "type": "ai", "tool_calls": None}]
    turn = one({"user_input": messages, "reference": "E"})
    assert (turn.input, turn.actual_output, turn.expected_output) == ("Q", "A", "E")


@pytest.mark.parametrize(
    "document",
    [
        [{"vars": {"question": "Q", "context": "P"}, "assert": [{"type": "equals", "value": "E"}]}],
        {"results": {"version": 3, "results": [{"vars": {"topic": "Q"}, "response": {"output": "A"}, "testCase": {"assert": [{"type": "equals", "value": "E"}]}}]}},
        {"results": [{"vars": {"a": "x", "b": "y"}, "prompt": {"raw": "Q"}, "response": {"output": "A"}, "assert": [{"type": "factuality", "value": "E"}]}]},
    ],
)  # fmt: skip
def test_rows_of_promptfoo(document: Any) -> None:
    [row] = rows_of(document)
    assert (row["input"], row["expected_output"]) == ("Q", "E")
    assert "vars" not in row
    assert rows_of({"input": "Q"}) == []


def test_a_table() -> None:
    text = 'question,answer,contexts,expected,segment\n"Q, or not",A,"[""P"", ""R""]",,gold\nQ,"A\nB",P,E,\n'
    first, second = (one(dict(row)) for row in csv_rows(text))
    assert (first.input, first.retrieval_context, first.expected_output) == ("Q, or not", ("P", "R"), None)
    assert first.attributes == {"segment": "gold"}
    assert (second.actual_output, second.retrieval_context, second.attributes) == ("A\nB", ("P",), {})
    for wrong, problem in (
        ("input,answer,actual_outptu\nQ,A,B\n", "did you mean 'actual_output'"),
        ("input\nQ,A\n", "line 2 has"),
    ):
        with pytest.raises(BadInput, match=problem):
            csv_rows(wrong)


def test_a_conversation_of_a_data_set_is_read_in_the_default_form_too() -> None:
    """`score` refused it for its key `input`, and did not say which form it reads."""
    turns = [Turn(turn_id=f"t{n}", conversation_id="c", input=f"{n}?", actual_output="Yes.") for n in range(2)]
    talk = Conversation(conversation_id="c", turns=tuple(turns), expected_outcome="They agree.")
    case = SelectedCase(case=talk, evaluations=(), labels=(), which="sampled", probability=0.5)
    [default, own] = [loads(write([case], "desk")) for write in (to_jsonl, to_turns)]
    read, plain = (list(turns_in(document, "cases.jsonl:1")) for document in (default, own))
    assert read == plain
    assert conversation_fields(read)["expected_outcome"] == "They agree."
    del default["metadata"]
    with pytest.raises(BadInput, match="input: unknown key in a conversation"):
        list(turns_in(default, "cases.jsonl:1"))
