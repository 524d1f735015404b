"""Definitions of the tools that a model was offered, in the forms of many libraries, and in none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace

from collector.dialects.parameter_schema import compact_schema
from collector.dialects.tool_definitions import MOST_TOOLS, find_tool_definitions
from evaluators.cases import ToolCall, ToolDefinition

FLAT = {
    "type": "function",
    "name": "look",
    "description": "Looks it up.",
    "parameters": {"type": "object", "properties": {"item": {"type": "integer", "description": "Which one."}}},
}
NESTED = {"type": "function", "function": FLAT}
PARAMETERS = {"type": "object", "properties": {"item": {"type": "integer"}}}
LOOK = (ToolDefinition(name="look", description="Looks it up.", parameters=PARAMETERS),)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.tool.definitions": json.dumps([FLAT])},
        {"gen_ai.tool.definitions": json.dumps([NESTED])},
        {"gen_ai.tool.definitions": [json.dumps(FLAT)]},
        {"gen_ai.tool.definitions": [FLAT]},
        {"ai.prompt.tools": [json.dumps(FLAT)]},
        {"mlflow.chat.tools": json.dumps([NESTED])},
        {"llm.tools.0.tool.json_schema": json.dumps(NESTED)},
        {
            "llm.request.functions.0.name": "look",
            "llm.request.functions.0.description": "Looks it up.",
            "llm.request.functions.0.parameters": json.dumps(FLAT["parameters"]),
        },
        {"model_request_parameters": json.dumps({"function_tools": [FLAT]})},
        {"request_data": json.dumps({"messages": [], "tools": [NESTED]})},
        {"llm.invocation_parameters": json.dumps({"tools": [NESTED]})},
        {"langfuse.observation.input": json.dumps({"messages": [], "tools": [NESTED]})},
        {"gcp.vertex.agent.llm_request": json.dumps({"config": {"tools": [{"function_declarations": [FLAT]}]}})},
        {"gen_ai.tool.definitions": json.dumps([{"toolSpec": FLAT}])},
        {"haystack.agent.tools": json.dumps([{"type": "haystack.tools.tool.Tool", "data": FLAT}])},
    ],
    ids=lambda attributes: next(iter(attributes)),
)
def test_forms(attributes: dict[str, Any]) -> None:
    assert find_tool_definitions([attributes]) == LOOK


@pytest.mark.parametrize(
    "value",
    ["", "no JSON", "[", "7", 7, True, None, [], {}, [[]], [{"name": 7}], [{"name": " "}], {"function": {"function": {}}}, "[" * 500],
)  # fmt: skip
def test_what_is_no_definition(value: Any) -> None:
    names = ("gen_ai.tool.definitions", "model_request_parameters", "llm.tools.0.tool.json_schema", "llm.tools.x")
    assert find_tool_definitions([{name: value} for name in names]) == ()


def test_each_tool_once_with_its_description_and_not_too_many() -> None:
    bare = {"gen_ai.tool.definitions": json.dumps([{"name": "look"}, {"name": "order"}])}
    told = {"gen_ai.tool.definitions": json.dumps([FLAT])}
    found = find_tool_definitions([bare, told, bare])
    assert found == (*LOOK, ToolDefinition(name="order"))
    many = {"gen_ai.tool.definitions": json.dumps([{"name": f"t{n}", "description": "x" * 9000} for n in range(1000)])}
    definitions = find_tool_definitions([many])
    assert len(definitions) == MOST_TOOLS
    assert all(len(each.description or "") == 500 for each in definitions)


@pytest.mark.parametrize(
    ("schema", "compact"),
    [
        ({"properties": {}}, {"properties": {}}),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}, {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        ({"json": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}}, {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}),
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B"}}, "B": {"type": "number", "title": "B"}}},
            {"properties": {"a": {"type": "array", "items": {"type": "number"}}}},
        ),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}}, {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        ({"properties": {"a": {"type": "date"}}, "required": ["a", 7], "additionalProperties": {}}, {"properties": {"a": {}}, "required": ["a"], "additionalProperties": True}),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(300)}}, None),  # too large
        ({"type": "object"}, None),
        ("x", None),
        ([], None),
    ],
)  # fmt: skip
def test_schemas_of_arguments_are_reduced(schema: Any, compact: Any) -> None:
    assert compact_schema(schema) == compact


@pytest.mark.parametrize("name", ["gen_ai.tool.definitions", "llm.tools.0.tool.json_schema"])
def test_a_text_that_comes_again_is_decoded_once_unless_it_is_long(name: str) -> None:
    def found(description: str) -> ToolDefinition:
        tool = {**FLAT, "description": description}
        return find_tool_definitions([{name: json.dumps(tool if "schema" in name else [tool])}])[0]

    assert found("Looks it up.") is found("Looks it up.")
    assert found("Looks it up.") != found("Finds it.")
    assert found("x" * 40_000) is not found("x" * 40_000)


def test_a_schema_that_refers_to_itself_or_grows_by_references_ends() -> None:
    assert compact_schema({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}) == {
        "properties": {"a": {}}
    }
    doubling = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 50} for n in range(9)}
    assert compact_schema({"properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": doubling}) is None


def test_a_turn_has_the_tools_offered_the_calls_of_models_and_why_a_tool_failed() -> None:
    def messages(*each: tuple[str, list[dict[str, Any]]]) -> str:
        return json.dumps([{"role": role, "parts": said} for role, said in each])

    asked = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"item": 7}}
    question = ("user", [{"type": "text", "content": "Where is it?"}])
    answered = ("tool", [{"type": "tool_call_response", "id": "c1", "response": "no connection"}])
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.tool.definitions": json.dumps([FLAT]),
        "gen_ai.input.messages": messages(question),
        "gen_ai.output.messages": messages(("assistant", [asked])),
    }
    later = {
        "gen_ai.operation.name": "chat",
        "gen_ai.tool.definitions": json.dumps([FLAT]),
        "gen_ai.input.messages": messages(question, ("assistant", [asked]), answered),
        "gen_ai.output.messages": messages(("assistant", [{"type": "text", "content": "I cannot say."}])),
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"}
    trace = Trace().span(1, "invoke_agent", {"gen_ai.operation.name": "invoke_agent"}, took=9.0)
    trace.span(2, "chat", chat, parent=1).span(3, "look", tool, parent=1, error="timeout").span(
        4, "chat", later, parent=1
    )
    turn = trace.turn()
    assert (turn.tools_offered, turn.model_calls) == (LOOK, 2)
    assert turn.tools_called == (
        ToolCall(id="c1", name="look", arguments={"item": 7}, result="no connection", error="timeout"),
    )


def test_tools_that_repeat_beside_other_messages_are_decoded_once() -> None:
    inputs = [json.dumps({"messages": [{"role": "user", "content": text}], "tools": [NESTED]}) for text in ("a", "b")]
    first, second = (find_tool_definitions([{"langfuse.observation.input": each}]) for each in inputs)
    assert first == LOOK
    assert first[0] is second[0]


@pytest.mark.parametrize("tools", [json.dumps([NESTED]), NESTED, None, 3])
def test_tools_in_a_document_are_a_list_its_json_or_one_tool(tools: Any) -> None:
    found = find_tool_definitions([{"llm.invocation_parameters": json.dumps({"tools": tools})}])
    assert found == (LOOK if isinstance(tools, (str, dict)) else ())
