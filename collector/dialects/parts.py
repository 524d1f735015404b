"""The parts of one chat message: texts, tool calls and tool results, in every spelling in use."""

import re
from typing import Any, NamedTuple

from collector.dialects.attributes import find_text
from collector.dialects.call import ChatMessage
from collector.dialects.decode import as_dict, as_list, decode, decode_json
from collector.dialects.media import MEDIA_KEYS, MEDIA_TYPES, as_attachment, find_attachment, find_transcript
from evaluators.cases import Attachment, Json, ToolCall
from evaluators.texts.exact_json import as_text, encode_compact

JsonObject = dict[str, Any]

HIDDEN_TYPES = frozenset(
    {
        "reasoning", "thinking", "redacted_thinking", "reasoning_text", "step-start", "compaction", "mcp_list_tools",
        "item_reference",
    }
)  # fmt: skip
"""Parts that are addressed to no reader: never part of an answer that is judged."""

CALL_TYPES = frozenset(
    {
        "tool_call", "tool_use", "tool-call", "function_call", "function", "server_tool_call", "server_tool_use",
        "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call",
    }
)  # fmt: skip
RESULT_TYPES = frozenset(
    {
        "tool_call_response", "tool_result", "tool-result", "function_call_output", "custom_tool_call_output",
        "computer_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
    }
)  # fmt: skip
_PROVIDER_CALLS = frozenset(
    {"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}
)
"""Items of the Responses API that are a tool call and its result in one, since the provider runs the tool."""

_SERVER_RESULT = "server_tool_call_response"
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
PART_TYPES = HIDDEN_TYPES | CALL_TYPES | RESULT_TYPES | _PROVIDER_CALLS | _TEXT_TYPES | MEDIA_TYPES | {_SERVER_RESULT}

_CALL_KEYS = ("toolUse", "functionCall", "function_call", "tool_call", "toolRequest")
_RESULT_KEYS = ("toolResult", "functionResponse", "function_response", "tool_call_result", "toolResponse")
PART_KEYS = frozenset({"text", "reasoningContent", "tool_kwargs", "tool_name", *_CALL_KEYS, *_RESULT_KEYS}) | MEDIA_KEYS
"""Keys that make an object without a `type` a part."""


class MessageParts(NamedTuple):
    """The sorted parts of a message. `media` are placeholders for everything that is not text, like `attachments`."""

    texts: list[str]
    tool_calls: list[ToolCall]
    tool_results: list[ChatMessage]
    media: list[str]
    attachments: list[Attachment]


def parse_parts(content: Json) -> MessageParts:
    """Parse the content of a message: a text, one part, or a list of parts and texts."""
    parts = MessageParts([], [], [], [], [])
    if isinstance(content, str):
        parts.texts.append(content)
    elif isinstance(content, dict):
        _add_part(parts, as_dict(content))
    else:
        for part in as_list(content):
            if isinstance(part, str):
                parts.texts.append(part)
            else:
                _add_part(parts, as_dict(part))
    return parts


def _add_part(parts: MessageParts, part: JsonObject) -> None:
    kind = part.get("type", _media_kind(part))
    if kind == "text":  # by far the most frequent
        text = part.get("content", part.get("text"))
        if isinstance(text, str):
            if not text.startswith(_DUMPED_THOUGHT):
                parts.texts.append(text)
        elif isinstance(text, list):  # OpenLIT puts Anthropic's blocks of a system prompt into one text
            parts.texts.extend(parse_parts(text).texts)
    elif not _is_hidden(part, kind):
        _add_other(parts, part, kind if isinstance(kind, str) else "")


def _media_kind(part: JsonObject) -> str | None:
    """Pydantic AI's own kind of a picture or file."""
    kind = part.get("kind")
    return kind if isinstance(kind, str) and kind in MEDIA_TYPES else None


_DUMPED_THOUGHT = '{"reasoningContent": '
"""OpenLLMetry writes Bedrock's thoughts as texts with their JSON."""


_THOUGHT = re.compile("think|thought|reason", re.IGNORECASE)
"""Words in the types of thoughts, which libraries name in many ways."""


def _is_hidden(part: JsonObject, kind: Json) -> bool:
    if isinstance(kind, str) and (kind in HIDDEN_TYPES or _THOUGHT.search(kind)):
        return True
    return part.get("thought") is True or "reasoningContent" in part


def _add_other(parts: MessageParts, part: JsonObject, kind: str) -> None:
    if kind in _PROVIDER_CALLS:
        _add_provider_call(parts, part, kind)
        return
    tool_result = parse_tool_result(part)
    if tool_result is not None:
        parts.tool_results.append(tool_result)
        return
    call = _parse_call_part(part, kind)
    if call is not None:
        parts.tool_calls.append(call)
        if kind.startswith("server_"):  # the provider runs it: its result is not waited for
            parts.tool_results.append(ChatMessage("tool", "", (), call.id, call.name))
        elif part.get("state") == "output-available":  # the AI SDK's UI messages hold both
            parts.tool_results.append(make_tool_result({"id": call.id, "name": call.name}, part.get("output")))
        return
    attachment = find_attachment(part, kind)
    if attachment is not None:
        parts.attachments.append(attachment)
    text = find_part_text(part) if kind not in MEDIA_TYPES else None
    transcript = find_transcript(part) if attachment is not None and text is None else None
    if text is not None or transcript is not None:
        parts.texts.append(text or transcript or "")
    elif kind or part.keys() & MEDIA_KEYS:
        parts.media.append(_make_placeholder(part, kind))
    elif "data" in part:  # Genkit's structured answers
        parts.texts.append(as_text(part["data"]))


def _add_provider_call(parts: MessageParts, part: JsonObject, kind: str) -> None:
    name = find_text(part, "name") or kind.removesuffix("_call")
    call_arguments = next(
        (part[key] for key in ("arguments", "action", "queries", "code") if part.get(key) is not None), None
    )
    output = next((part[key] for key in ("output", "results", "outputs") if part.get(key) is not None), None)
    call = ToolCall(id=find_text(part, "id"), name=name, arguments=parse_arguments(call_arguments))
    parts.tool_calls.append(call)
    parts.tool_results.append(make_tool_result({"id": call.id, "name": name}, output))
    picture = part.get("result")
    if kind == "image_generation_call" and isinstance(picture, str):
        parts.attachments.append(as_attachment(picture, "image"))


def _make_placeholder(part: JsonObject, kind: str) -> str:
    name = find_text(part, "modality") or kind or min(part.keys() & MEDIA_KEYS)
    return f"[{name.removeprefix('input_').removesuffix('_url')[:40]}]"


def find_part_text(part: JsonObject) -> str | None:
    """Find the text of a part; None if it has none."""
    for key in ("text", "content", "refusal"):
        text = part.get(key)
        if isinstance(text, str):
            return text
        inner = as_dict(text).get("value")
        if isinstance(inner, str):
            return inner
    return None


_ESCAPED_LETTERS = ("\\x", "\\n{", "\\1", *(f"\\u00{digit}" for digit in "01234567"))
"""Beginnings of letters that are written as a number or a name, in lower case."""


def is_free_of_tools(value: Json) -> bool:
    """Whether no shape of messages has a tool call in a text, encoded or not, or in a list of texts. No: in doubt.

    Every key or type by which a tool call is known has one of these words in it.
    """
    if isinstance(value, list):
        return all(isinstance(each, str) and is_free_of_tools(each) for each in as_list(value))
    if not isinstance(value, str):
        return value is None
    text = value.lower()
    if "tool" in text or "function" in text or "call" in text or "arguments" in text:
        return False
    return "\\" not in text or not any(each in text for each in _ESCAPED_LETTERS)


def parse_tool_call(item: JsonObject) -> ToolCall | None:
    """Parse a tool call, flat or with its function inside; None if it names no tool."""
    inner = (item[key] for key in ("function", "server_tool_call", *_CALL_KEYS) if isinstance(item.get(key), dict))
    function: JsonObject = {**item, **as_dict(within)} if (within := next(inner, None)) is not None else item
    name = find_text(function, "name", "tool_name", "toolName") or (
        find_text(function, "type") if function is not item else None
    )
    if name is None:
        return None
    call_arguments = next((function[key] for key in _ARGUMENT_KEYS if function.get(key) is not None), None)
    call_id = find_text(function, "id", "toolCallId", "call_id", "tool_call_id", "toolUseId", "ref")
    return ToolCall(id=call_id, name=name, arguments=parse_arguments(call_arguments))


_ARGUMENT_KEYS = ("arguments", "args", "input", "tool_kwargs", "parameters")


def parse_arguments(value: Json) -> Json:
    """Parse a tool call's arguments: decoded if they are JSON in a text, also an object that was encoded twice."""
    if isinstance(value, str) and value.startswith(('"{', '"[')):
        value = decode_json(value)
    return {} if value == "" else decode(value)


def find_tool_calls(body: JsonObject) -> tuple[ToolCall, ...]:
    """Find the tool calls beside a message's content, under any of the keys in use."""
    for holder in (body, as_dict(body.get("additional_kwargs"))):
        written = decode(holder.get("tool_calls", holder.get("toolExecutionRequests")))
        parsed_calls = [parse_tool_call(as_dict(tool_call)) for tool_call in as_list(written)]
        calls = tuple(call for call in parsed_calls if call is not None)
        if calls:
            return calls
        function_call = parse_tool_call(as_dict(holder.get("function_call")))
        if function_call is not None:
            return (function_call,)
    return ()


def _parse_call_part(part: JsonObject, kind: str) -> ToolCall | None:
    if kind.endswith("_call") and find_text(part, "call_id"):  # in the Responses API `id` is the item's own
        name = find_text(part, "name") or kind.removesuffix("_call")
        return parse_tool_call({"input": part.get("action"), **part, "id": part["call_id"], "name": name})
    if kind in CALL_TYPES or "tool_kwargs" in part or any(isinstance(part.get(key), dict) for key in _CALL_KEYS):
        return parse_tool_call(part)
    if ("tool_name" in part or (not kind and "name" in part)) and "arguments" in part:  # Haystack's reprs, AutoGen
        return parse_tool_call(part)
    if kind.startswith("tool-") and "toolCallId" in part:  # the AI SDK's UI messages: the type names the tool
        return parse_tool_call({**part, "name": part.get("toolName") or kind[5:]})
    return None


def parse_tool_result(part: JsonObject) -> ChatMessage | None:
    """Parse a tool result among the parts of a message; None if the part is not one."""
    kind = part.get("type")
    if isinstance(kind, str):
        if kind in RESULT_TYPES:
            return make_tool_result(part, _find_result(part))
        if kind == _SERVER_RESULT or kind.endswith("_tool_result"):
            return make_tool_result(part, part.get(_SERVER_RESULT, part.get("content")))
    elif "content" in part and "call_id" in part:  # AutoGen
        return make_tool_result(part, part["content"])
    elif "result" in part and "name" in part and "arguments" not in part:  # Semantic Kernel
        return make_tool_result(part, part["result"])
    if "result" in part and isinstance(part.get("origin"), dict):  # Haystack's reprs
        return make_tool_result(as_dict(part["origin"]), part["result"])
    for key in _RESULT_KEYS:
        if isinstance(part.get(key), dict):
            response = as_dict(part[key])
            return make_tool_result({**response, **as_dict(response.get("origin"))}, _find_result(response))
    return None


def _find_result(item: JsonObject) -> Json:
    return next((item[key] for key in ("response", "result", "output", "content") if item.get(key) is not None), None)


def make_tool_result(call: JsonObject, value: Json) -> ChatMessage:
    """Make the message of a tool result; `call` has the ids and names of call and tool, `value` is the result."""
    typed_value = as_dict(value)
    failed = any(call.get(key) is True for key in _ERROR_FLAGS) or call.get("status") == "error"
    if typed_value.keys() == {"type", "value"}:  # the AI SDK's typed output
        value = typed_value["value"]
        failed = failed or typed_value["type"] in ("error-text", "error-json")
    text = _join_blocks(decode(value) if isinstance(value, str) and value.startswith(_DUMPED_BLOCKS) else value)
    if text is not None:
        value = text
    call_id = find_text(call, "tool_use_id", "toolCallId", "call_id", "tool_call_id", "toolUseId", "id", "ref")
    name = find_text(call, "name", "toolName", "tool_name")
    return ChatMessage("tool", as_text(value), (), call_id, name, value, None, _find_attachments(value), failed)


_ERROR_FLAGS = ("is_error", "isError")
"""Marks of a failed tool beside its result: Anthropic's, MCP's. LangChain and Bedrock write a status."""


def _find_attachments(value: Json) -> tuple[Attachment, ...]:
    """The pictures and files among the content blocks of a tool result."""
    attachments: list[Attachment] = []
    for block in map(as_dict, as_list(value)):
        kind = block.get("type")
        attachment = find_attachment(block, kind if isinstance(kind, str) else "") if block else None
        if attachment is not None:
            attachments.append(attachment)
    return tuple(attachments)


_DUMPED_BLOCKS = ('[{"type": "text"', '[{"type":"text"', '[{"text": ', "[{'type': 'text'", "[{'text': ")
"""Beginnings of a tool result whose blocks were dumped into one text."""


def _join_blocks(value: Json) -> str | None:
    """Join the content blocks of a tool result into the text that the model read; None if they are something else."""
    texts: list[str] = []
    for block in as_list(value):
        fields = as_dict(block)
        text = encode_compact(fields["json"]) if fields.keys() == {"json"} else find_part_text(fields)
        if text is None or not fields.keys() <= {"text", "type", "block_type", "content", "json", "annotations"}:
            return None
        texts.append(text)
    return "\n".join(texts) if texts else None
