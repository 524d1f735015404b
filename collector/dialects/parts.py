"""The parts of one chat message: its texts, tool calls and tools' answers, in every spelling in use."""

from __future__ import annotations

from typing import Any, NamedTuple

from collector.dialects.call import Said
from collector.dialects.decode import as_dict, as_list, as_text, compact, decoded
from evaluators.cases import Json, ToolCall

Dict = dict[str, Any]

SILENT = frozenset(
    {
        "reasoning", "thinking", "redacted_thinking", "reasoning_text", "step-start", "compaction", "mcp_list_tools",
        "item_reference",
    }
)  # fmt: skip
"""Parts that are not said to anybody: never shown to a judge as an answer."""

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
_SERVED = frozenset(
    {"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}
)
"""Items of the Responses API that are a tool's call and its answer in one: the provider runs it."""

_SERVER_RESULT = "server_tool_call_response"
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
_MEDIA_TYPES = frozenset({"image", "image_url", "input_image", "blob", "file", "uri"})
PART_TYPES = SILENT | CALL_TYPES | RESULT_TYPES | _SERVED | _TEXT_TYPES | _MEDIA_TYPES | {_SERVER_RESULT}

_CALL_KEYS = ("toolUse", "functionCall", "function_call", "tool_call", "toolRequest")
_ANSWER_KEYS = ("toolResult", "functionResponse", "function_response", "tool_call_result", "toolResponse")
_MEDIA_KEYS = frozenset(
    {"inline_data", "inlineData", "file_data", "fileData", "image", "document", "video", "audio", "media"}
)
PART_KEYS = (
    frozenset({"text", "reasoningContent", "tool_kwargs", "tool_name", *_CALL_KEYS, *_ANSWER_KEYS}) | _MEDIA_KEYS
)
"""Keys that make an object without a `type` a part."""


class Parts(NamedTuple):
    """What the parts of a message come to. `media` are placeholders for what is not text."""

    texts: list[str]
    calls: list[ToolCall]
    answers: list[Said]
    media: list[str]


def parts_of(content: Json) -> Parts:
    """Sort the content of a message: a text, one part, or a list of parts and texts."""
    parts = Parts([], [], [], [])
    if isinstance(content, str):
        parts.texts.append(content)
    elif isinstance(content, dict):
        _add(parts, as_dict(content))
    else:
        for part in as_list(content):
            if isinstance(part, str):
                parts.texts.append(part)
            else:
                _add(parts, as_dict(part))
    return parts


def _add(parts: Parts, part: Dict) -> None:
    kind = part.get("type")
    if kind == "text":  # by far the most frequent
        text = part.get("content", part.get("text"))
        if isinstance(text, str):
            if not text.startswith(_DUMPED_THOUGHT):
                parts.texts.append(text)
        elif isinstance(text, list):  # OpenLIT puts Anthropic's blocks of a system prompt into one text
            parts.texts.extend(parts_of(text).texts)
    elif not _silent(part, kind):
        _add_other(parts, part, kind if isinstance(kind, str) else "")


_DUMPED_THOUGHT = '{"reasoningContent": '
"""OpenLLMetry writes Bedrock's thoughts as texts that hold their JSON."""


def _silent(part: Dict, kind: Json) -> bool:
    if isinstance(kind, str) and kind in SILENT:
        return True
    return part.get("thought") is True or "reasoningContent" in part


def _add_other(parts: Parts, part: Dict, kind: str) -> None:
    if kind in _SERVED:
        _add_served(parts, part, kind)
        return
    came = answer_part(part)
    if came is not None:
        parts.answers.append(came)
        return
    call = _call_part(part, kind)
    if call is not None:
        parts.calls.append(call)
        if kind.startswith("server_"):  # the provider runs it itself: nobody waits for its answer
            parts.answers.append(Said("tool", "", (), call.id, call.name))
        elif part.get("state") == "output-available":  # the AI SDK's UI messages hold both
            parts.answers.append(answer({"id": call.id, "name": call.name}, part.get("output")))
        return
    text = text_of(part) if kind not in _MEDIA_TYPES else None
    if text is not None:
        parts.texts.append(text)
    elif kind or _MEDIA_KEYS & part.keys():
        parts.media.append(_placeholder(part, kind))
    elif "data" in part:  # Genkit's structured answers
        parts.texts.append(as_text(part["data"]))


def _add_served(parts: Parts, part: Dict, kind: str) -> None:
    name = name_in(part, "name") or kind.removesuffix("_call")
    given = next((part[key] for key in ("arguments", "action", "queries", "code") if part.get(key) is not None), None)
    came = next((part[key] for key in ("output", "results", "outputs") if part.get(key) is not None), None)
    call = ToolCall(id=name_in(part, "id"), name=name, arguments=arguments(given))
    parts.calls.append(call)
    parts.answers.append(answer({"id": call.id, "name": name}, came))


def _placeholder(part: Dict, kind: str) -> str:
    name = name_in(part, "modality") or kind or min(_MEDIA_KEYS & part.keys())
    return f"[{name.removeprefix('input_').removesuffix('_url')[:40]}]"


def text_of(part: Dict) -> str | None:
    """The text of a part, None if it has none."""
    for key in ("text", "content", "refusal"):
        text = part.get(key)
        if isinstance(text, str):
            return text
        inner = as_dict(text).get("value")
        if isinstance(inner, str):
            return inner
    return None


def name_in(item: Dict, *keys: str) -> str | None:
    """The first of the keys that holds a text that is not empty."""
    for key in keys:
        value = item.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def tool_call(item: Dict) -> ToolCall | None:
    """Read a tool call, flat or with its function inside; None if it names no tool."""
    inner: Dict = item
    for key in ("function", "server_tool_call", *_CALL_KEYS):
        if isinstance(item.get(key), dict):
            inner = {**item, **as_dict(item[key])}
            break
    name = name_in(inner, "name", "tool_name", "toolName") or (name_in(inner, "type") if inner is not item else None)
    if name is None:
        return None
    given = next((inner[key] for key in _ARGUMENT_KEYS if inner.get(key) is not None), None)
    call_id = name_in(inner, "id", "toolCallId", "call_id", "tool_call_id", "toolUseId", "ref")
    return ToolCall(id=call_id, name=name, arguments=arguments(given))


_ARGUMENT_KEYS = ("arguments", "args", "input", "tool_kwargs", "parameters")


def arguments(value: Json) -> Json:
    """A tool call's arguments, decoded exactly once if they are JSON in a text."""
    return {} if value == "" else decoded(value)


def calls_beside(body: Dict) -> tuple[ToolCall, ...]:
    """Tool calls that stand beside a message's content, in any of the places where they do."""
    for holder in (body, as_dict(body.get("additional_kwargs"))):
        found = [tool_call(as_dict(each)) for each in as_list(decoded(holder.get("tool_calls")))]
        calls = tuple(each for each in found if each is not None)
        if calls:
            return calls
        single = tool_call(as_dict(holder.get("function_call")))
        if single is not None:
            return (single,)
    return ()


def _call_part(part: Dict, kind: str) -> ToolCall | None:
    if kind.endswith("_call") and name_in(part, "call_id"):  # in the Responses API `id` is the item's own
        name = name_in(part, "name") or kind.removesuffix("_call")
        return tool_call({"input": part.get("action"), **part, "id": part["call_id"], "name": name})
    if kind in CALL_TYPES or "tool_kwargs" in part or any(isinstance(part.get(key), dict) for key in _CALL_KEYS):
        return tool_call(part)
    if ("tool_name" in part or (not kind and "name" in part)) and "arguments" in part:  # Haystack's reprs, AutoGen
        return tool_call(part)
    if kind.startswith("tool-") and "toolCallId" in part:  # the AI SDK's UI messages: the type names the tool
        return tool_call({**part, "name": part.get("toolName") or kind[5:]})
    return None


def answer_part(part: Dict) -> Said | None:
    """A tool's answer among the parts of a message, None if the part is none."""
    kind = part.get("type")
    if isinstance(kind, str):
        if kind in RESULT_TYPES:
            return answer(part, _first(part))
        if kind == _SERVER_RESULT or kind.endswith("_tool_result"):
            return answer(part, part.get(_SERVER_RESULT, part.get("content")))
    elif "content" in part and "call_id" in part:  # AutoGen
        return answer(part, part["content"])
    elif "result" in part and "name" in part and "arguments" not in part:  # Semantic Kernel
        return answer(part, part["result"])
    if "result" in part and isinstance(part.get("origin"), dict):  # Haystack's reprs
        return answer(as_dict(part["origin"]), part["result"])
    for key in _ANSWER_KEYS:
        if isinstance(part.get(key), dict):
            held = as_dict(part[key])
            return answer({**held, **as_dict(held.get("origin"))}, _first(held))
    return None


def _first(item: Dict) -> Json:
    return next((item[key] for key in ("response", "result", "output", "content") if item.get(key) is not None), None)


def answer(about: Dict, value: Json) -> Said:
    """A tool's answer as a message; `about` names the call and the tool, `value` is what came back."""
    typed = as_dict(value)
    if typed.keys() == {"type", "value"}:  # the AI SDK's typed output
        value = typed["value"]
    dumped = isinstance(value, str) and value.startswith(_DUMPED_BLOCKS)
    text = _blocks_text(decoded(value) if dumped else value)
    if text is not None:
        value = text
    call_id = name_in(about, "tool_use_id", "toolCallId", "call_id", "tool_call_id", "toolUseId", "id", "ref")
    return Said("tool", as_text(value), (), call_id, name_in(about, "name", "toolName", "tool_name"), value)


_DUMPED_BLOCKS = ('[{"type": "text"', '[{"type":"text"', '[{"text": ', "[{'type': 'text'", "[{'text': ")
"""How a tool's answer begins where its blocks became one text."""


def _blocks_text(value: Json) -> str | None:
    """What the model read, where a tool's answer is a list of content blocks."""
    texts: list[str] = []
    for block in as_list(value):
        held = as_dict(block)
        text = compact(held["json"]) if held.keys() == {"json"} else text_of(held)
        if text is None or not held.keys() <= {"text", "type", "block_type", "content", "json", "annotations"}:
            return None
        texts.append(text)
    return "\n".join(texts) if texts else None
