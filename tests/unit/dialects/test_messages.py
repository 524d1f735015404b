"""Every shape of chat messages gives the same messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.dialects.call import ChatMessage
from collector.dialects.messages import parse_messages, parse_system_text, parse_tool_calls
from evaluators.cases import ToolCall

ARGUMENTS = {"place": "Skagen"}
RESULT = '{"wind_ms": 11}'
CALL = ToolCall(id="c1", name="get_wind", arguments=ARGUMENTS)

OPENAI = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "text", "text": "Is it windy?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_wind", "arguments": json.dumps(ARGUMENTS)}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": RESULT},
    {"role": "assistant", "content": "Yes."},
]

SHAPES: dict[str, Any] = {
    "parts": [
        {"role": "system", "parts": [{"type": "text", "content": "Be short."}]},
        {"role": "user", "parts": [{"content": "Is it windy?", "type": "text"}], "name": None},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "tool_call", "id": "c1", "name": "get_wind", "arguments": ARGUMENTS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": RESULT}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
    ],
    "parts, answers under role user": [
        {"role": "system", "parts": [{"type": "text", "content": "Be short."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "get_wind", "arguments": json.dumps(ARGUMENTS)}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": RESULT}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
    ],
    "openai": OPENAI,
    "openai request": {"model": "m", "messages": OPENAI, "tools": []},
    "list of lists": [OPENAI],
    "openai responses": {
        "model": "m",
        "instructions": "Be short.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Is it windy?"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "get_wind", "arguments": json.dumps(ARGUMENTS)},
            {"type": "function_call_output", "call_id": "c1", "output": RESULT},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        ],
    },
    "anthropic": {
        "system": [{"type": "text", "text": "Be short."}],
        "messages": [
            {"role": "user", "content": "Is it windy?"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "c1", "name": "get_wind", "input": ARGUMENTS}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": RESULT}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        ],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Is it windy?"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"id": "c1", "name": "get_wind", "args": ARGUMENTS}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "get_wind", "response": json.loads(RESULT)}}]},
            {"role": "model", "parts": [{"text": "Yes."}]},
        ],
        "config": {"system_instruction": "Be short."},
    },
    "bedrock": {
        "system": [{"text": "Be short."}],
        "messages": [
            {"role": "user", "content": [{"text": "Is it windy?"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "get_wind", "input": ARGUMENTS}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": RESULT}]}}]},
            {"role": "assistant", "content": [{"text": "Yes."}]},
        ],
    },
    "ai sdk": {
        "system": "Be short.",
        "messages": [
            {"role": "user", "content": "Is it windy?"},
            {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "get_wind", "args": ARGUMENTS}]},
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_wind", "output": {"type": "text", "value": RESULT}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        ],
    },
    "langchain constructors": {
        "messages": [
            [
                {"lc": 1, "id": ["langchain", "schema", "messages", "SystemMessage"], "kwargs": {"content": "Be short."}},
                {"lc": 1, "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Is it windy?", "type": "human"}},
                {"lc": 1, "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "", "tool_calls": [{"id": "c1", "name": "get_wind", "args": ARGUMENTS, "type": "tool_call"}]}},
                {"lc": 1, "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": {"content": RESULT, "tool_call_id": "c1"}},
                {"lc": 1, "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "Yes."}},
            ]
        ]
    },
    "langchain types": [
        {"type": "system", "content": "Be short."},
        {"type": "human", "data": {"content": "Is it windy?", "type": "human"}},
        {"type": "ai", "data": {"content": "", "tool_calls": [{"id": "c1", "name": "get_wind", "args": ARGUMENTS}]}},
        {"type": "tool", "data": {"content": RESULT, "tool_call_id": "c1"}},
        {"type": "ai", "content": "Yes."},
    ],
    "haystack": [
        {"role": "system", "meta": {}, "content": [{"text": "Be short."}]},
        {"role": "user", "content": [{"text": "Is it windy?"}]},
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "get_wind", "arguments": ARGUMENTS, "id": "c1"}}]},
        {"role": "tool", "content": [{"tool_call_result": {"result": RESULT, "origin": {"tool_name": "get_wind", "arguments": ARGUMENTS, "id": "c1"}, "error": False}}]},
        {"role": "assistant", "content": [{"text": "Yes."}]},
    ],
    "llamaindex": [
        {"role": "system", "blocks": [{"block_type": "text", "text": "Be short."}], "additional_kwargs": {}},
        {"role": "user", "blocks": [{"block_type": "text", "text": "Is it windy?"}]},
        {"role": "assistant", "blocks": [{"block_type": "tool_call", "tool_call_id": "c1", "tool_name": "get_wind", "tool_kwargs": json.dumps(ARGUMENTS)}]},
        {"role": "tool", "blocks": [{"block_type": "text", "text": RESULT}], "additional_kwargs": {"tool_call_id": "c1"}},
        {"role": "assistant", "blocks": [{"block_type": "text", "text": "Yes."}]},
    ],
    "litellm v1": [
        {"role": "system", "parts": [{"type": "text", "content": "Be short."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]},
        {"role": "assistant", "parts": [], "tool_calls": [{"id": "c1", "function": {"name": "get_wind", "arguments": json.dumps(ARGUMENTS)}}]},
        {"role": "tool", "parts": [{"type": "text", "content": RESULT}], "tool_call_id": "c1"},
        {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
    ],
    "autogen": [
        {"type": "SystemMessage", "content": "Be short."},
        {"type": "UserMessage", "source": "user", "content": "Is it windy?"},
        {"type": "AssistantMessage", "source": "boss", "thought": None, "content": [{"id": "c1", "name": "get_wind", "arguments": json.dumps(ARGUMENTS)}]},
        {"type": "FunctionExecutionResultMessage", "content": [{"content": RESULT, "name": "get_wind", "call_id": "c1", "is_error": False}]},
        {"type": "AssistantMessage", "source": "boss", "content": "Yes."},
    ],
    "pydantic ai": [
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "Be short."}, {"part_kind": "user-prompt", "content": "Is it windy?", "timestamp": "2026"}]},
        {"kind": "response", "parts": [{"part_kind": "thinking", "content": "hm"}, {"part_kind": "tool-call", "tool_name": "get_wind", "args": json.dumps(ARGUMENTS), "tool_call_id": "c1"}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "get_wind", "content": RESULT, "tool_call_id": "c1"}]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Yes."}]},
    ],
    "semantic kernel": [
        {"role": {"label": "system"}, "items": [{"$type": "TextContent", "text": "Be short."}]},
        {"role": {"label": "user"}, "items": [{"$type": "TextContent", "text": "Is it windy?"}]},
        {"role": {"label": "assistant"}, "items": [{"$type": "FunctionCallContent", "id": "c1", "name": "get_wind", "arguments": ARGUMENTS}]},
        {"role": {"label": "tool"}, "items": [{"$type": "FunctionResultContent", "id": "c1", "name": "get_wind", "result": RESULT}]},
        {"role": {"label": "assistant"}, "items": [{"$type": "TextContent", "text": "Yes."}]},
    ],
    "ai sdk, for a page": [
        {"role": "system", "parts": [{"type": "text", "text": "Be short."}]},
        {"role": "user", "parts": [{"type": "text", "text": "Is it windy?"}]},
        {"role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-get_wind", "toolCallId": "c1", "state": "output-available", "input": ARGUMENTS, "output": RESULT}]},
        {"role": "assistant", "parts": [{"type": "text", "text": "Yes.", "state": "done"}]},
    ],
}  # fmt: skip


def gist(said: tuple[ChatMessage, ...]) -> list[Any]:
    return [
        (each.role, each.text.replace('{"wind_ms":11}', RESULT), each.tool_calls, each.tool_call_id) for each in said
    ]


WANTED = [
    ("system", "Be short.", (), None),
    ("user", "Is it windy?", (), None),
    ("assistant", "", (CALL,), None),
    ("tool", RESULT, (), "c1"),
    ("assistant", "Yes.", (), None),
]


@pytest.mark.parametrize("form", ["value", "json", "python repr"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(shape: str, form: str) -> None:
    value = SHAPES[shape]
    heard = parse_messages({"value": value, "json": json.dumps(value), "python repr": repr(value)}[form])
    assert gist(heard.messages) == WANTED
    assert heard.incomplete is None


ANSWERS: dict[str, Any] = {
    "parts": [{"role": "assistant", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"}],
    "openai": {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}]},
    "completion": {"choices": [{"text": "Yes.", "finish_reason": "stop"}]},
    "one message": {"role": "assistant", "content": "Yes.", "stop_reason": "end_turn"},
    "no role": {"content": "Yes.", "finish_reason": "stop"},
    "bedrock": {"output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}}, "stopReason": "end_turn"},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]},
    "generations": {"generations": [[{"text": "Yes.", "generation_info": {"finish_reason": "stop"}, "message": {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "Yes."}}}]]},
    "replies": {"replies": [{"role": "assistant", "meta": {"finish_reason": "stop"}, "content": [{"text": "Yes."}]}]},
}  # fmt: skip


@pytest.mark.parametrize("shape", ANSWERS)
def test_answers_with_their_finish_reason(shape: str) -> None:
    said = parse_messages(json.dumps(ANSWERS[shape]), "assistant").messages
    assert [(each.role, each.text, each.finish_reason) for each in said] == [("assistant", "Yes.", "stop")]


def test_responses_output_and_lists_of_whole_responses() -> None:
    output = [
        {"type": "reasoning", "summary": [], "content": []},
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Yes."}],
        },
    ]
    response = {"object": "response", "output": output, "text": {"format": {"type": "text"}}}
    for value in (output, response, [response]):
        assert [each.text for each in parse_messages(value, "assistant").messages] == ["Yes."]


@pytest.mark.parametrize(
    "text",
    [
        "Yes.",
        '{"answer": "84 euros", "role": "clerk"}',
        '{"price": 84}',
        '{"kind": {"of": "request"}, "parts": 5}',
        "[doc-17] is a source",
        "[1, 2, 3]",
        '"quoted"',
        "{name}, hello",
        "assistant: no",
    ],
)
def test_a_text_that_is_no_message_stays_a_text(text: str) -> None:
    heard = parse_messages(text, "assistant")
    assert heard.messages == (ChatMessage("assistant", text),)
    assert not heard.is_structured


def test_a_cut_document_keeps_what_is_complete() -> None:
    document = json.dumps(SHAPES["parts"])
    for size in range(1, len(document)):
        heard = parse_messages(document[:size])
        if size > 3:
            assert heard.incomplete == "truncated"
        assert gist(heard.messages) == WANTED[: len(heard.messages)] or heard.messages[-1].tool_calls == ()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"messages": [["system", "S"], ["human", "Q"]]}, [("system", "S"), ("user", "Q")]),
        ([["user", "Q"]], [("user", "Q")]),
        (
            {"message": "Q", "preamble": "S", "chat_history": [{"role": "USER", "message": "H"}, {"role": "CHATBOT", "message": "I"}]},
            [("system", "S"), ("user", "H"), ("assistant", "I"), ("user", "Q")],
        ),
        ({"prompts": ["Human: Q"]}, [("user", "Human: Q")]),
        ([{"source": "user", "type": "TextMessage", "content": "Q"}, {"source": "boss", "type": "TextMessage", "content": "A"}], [("user", "Q"), ("assistant", "A")]),
        ({"choices": [{"message": {"role": "assistant", "content": None, "refusal": "I will not."}}]}, [("assistant", "I will not.")]),
        ({"choices": [{"message": {"role": "assistant", "content": None, "audio": {"id": "a", "data": "…", "transcript": "A"}}}]}, [("assistant", "A")]),
        ({"message": {"role": "assistant", "content": "A"}, "done": True, "done_reason": "stop"}, [("assistant", "A")]),
        (["user", "Q"], [("user", "user"), ("user", "Q")]),
    ],
)  # fmt: skip
def test_other_shapes(value: Any, wanted: list[tuple[str, str]]) -> None:
    assert [(each.role, each.text) for each in parse_messages(json.dumps(value)).messages] == wanted


def test_what_a_provider_runs_is_a_call_with_its_answer() -> None:
    items = [
        {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "wind"}},
        {"type": "mcp_call", "id": "m", "name": "get_wind", "arguments": "{}", "output": "11", "server_label": "s"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]
    said = parse_messages({"output": items}, "assistant").messages
    assert [(call.name, call.arguments) for each in said for call in each.tool_calls] == [
        ("web_search", {"type": "search", "query": "wind"}),
        ("get_wind", {}),
    ]
    assert [(each.tool_call_id, each.text) for each in said if each.role == "tool"] == [("ws", ""), ("m", "11")]
    assert said[-1].text == "Yes."


def test_order_in_one_message() -> None:
    """AI SDK 7 puts the answer before the tool call that led to it; Anthropic's answers come before new words."""
    run = [{"role": "assistant", "parts": [
        {"type": "text", "content": "Yes."},
        {"type": "tool_call", "id": "c1", "name": "get_wind", "arguments": {}},
        {"type": "tool_call_response", "id": "c1", "response": {"wind_ms": 11}},
    ]}]  # fmt: skip
    assert [(each.role, each.text) for each in parse_messages(run).messages] == [
        ("assistant", "Yes."),
        ("tool", '{"wind_ms":11}'),
    ]
    user = [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "11"},
                {"type": "text", "text": "And now?"},
            ],
        }
    ]
    assert [(each.role, each.text) for each in parse_messages(user).messages] == [("tool", "11"), ("user", "And now?")]


def test_media_stand_in_only_where_there_is_no_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:…"}}
    assert parse_messages([{"role": "user", "content": [picture]}]).messages[0].text == "[image]"
    assert (
        parse_messages([{"role": "user", "content": [{"type": "text", "text": "This?"}, picture]}]).messages[0].text
        == "This?"
    )
    assert (
        parse_messages([{"role": "user", "parts": [{"type": "blob", "modality": "audio", "content": "…"}]}])
        .messages[0]
        .text
        == "[audio]"
    )


def test_what_a_provider_runs_itself_is_not_waited_for() -> None:
    said = parse_messages(
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                    {"type": "text", "text": "Found."},
                ],
            }
        ]
    ).messages
    assert {each.tool_call_id for each in said if each.role == "tool"} == {"s"}


def test_definitions_of_tools_are_not_messages() -> None:
    definition = {"role": "tool", "content": {"type": "function", "function": {"name": "get_wind"}}}
    assert [each.role for each in parse_messages([{"role": "user", "content": "hi"}, definition]).messages] == ["user"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"a": "{\\"b\\": 1}"}', {"a": '{"b": 1}'}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("free text", "free text"),
        ("{'a': None, 'b': True}", {"a": None, "b": True}),
    ],
)
def test_arguments_are_decoded_exactly_once(arguments: Any, wanted: Any) -> None:
    assert parse_tool_calls([{"id": "c", "name": "n", "arguments": arguments}])[0].arguments == wanted


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "text", "content": "Be short."}],
        '[{"content": "Be short.", "type": "text"}]',
        [{"text": "Be short."}],
        "Be short.",
        {"role": "user", "parts": [{"text": "Be short."}]},
    ],
)
def test_system_instructions(value: Any) -> None:
    assert parse_system_text(value) == "Be short."


def test_haystack_reprs() -> None:
    text = (
        "{'messages': [ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Is it \\'windy\\'?')], "
        "_name=None, _meta={}), ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[ToolCall(tool_name="
        "'get_wind', arguments={'place': 'Skagen'}, id='c1')], _meta={}), ChatMessage(_role=<ChatRole.TOOL: 'tool'>, "
        "_content=[ToolCallResult(result='11', origin=ToolCall(tool_name='get_wind', arguments={}, id='c1'), "
        "error=False)])], 'streaming_callback': <function <lambda> at 0x7f016c5134c0>}"
    )
    said = parse_messages(text).messages
    assert [(each.role, each.text, each.tool_calls, each.tool_call_id) for each in said] == [
        ("user", "Is it 'windy'?", (), None),
        ("assistant", "", (CALL,), None),
        ("tool", "11", (), "c1"),
    ]
