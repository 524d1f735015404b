"""Messages as indexed attributes: `gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`, …"""

import re
from typing import Any

from collector.dialects.attributes import find_text, group_indexed
from collector.dialects.call import ChatMessage
from collector.dialects.decode import as_dict, as_list, decode, decode_json, parse_printed_fields
from collector.dialects.messages import parse_messages
from collector.dialects.parts import PART_TYPES
from collector.dialects.plain_messages import convert_plain_messages
from collector.otlp.span import Attributes
from evaluators.cases import Json

PROMPT = "gen_ai.prompt."
COMPLETION = "gen_ai.completion."


def parse_indexed_messages(
    attributes: Attributes, beginning: str, role: str, *, encoded: bool = False
) -> tuple[ChatMessage, ...]:
    """Parse the messages of indexed attributes; a message without a role gets `role`.

    `encoded` means that contents are JSON of texts or blocks, whatever they look like. Thoughts are left out.
    """
    groups = [
        _parse_group(group, role, encoded=encoded)
        for group in group_indexed(attributes, beginning)
        if group.get("role") != "thinking"
    ]
    plain = convert_plain_messages(groups)
    if plain is not None:
        return plain
    return tuple([message for group in groups for message in parse_messages([group]).messages])


def _parse_group(group: dict[str, Json], role: str, *, encoded: bool) -> dict[str, Any]:
    content = group.get("content", group.get("user"))  # a prompt without messages has its role as key
    message: dict[str, Any] = {
        "role": group.get("role") or role,
        "content": decode_json(content) if encoded else _parse_content(content),
    }
    for key in ("tool_call_id", "finish_reason"):
        if group.get(key):
            message[key] = group[key]
    calls = group_indexed(group, "tool_calls.")
    if calls:
        message["tool_calls"] = calls
    elif group.get("function_call.name"):
        message["tool_calls"] = [
            {"name": group["function_call.name"], "arguments": group.get("function_call.arguments")}
        ]
    return message


_PRINTED_PART = re.compile(r"[a-z_]+=(?:None |FunctionCall\(|FunctionResponse\()")


def _parse_printed_part(part: Any) -> Any:
    """Parse a part of Gemini's contents that was written as its printed form."""
    text = part.get("text")
    if not isinstance(text, str) or not _PRINTED_PART.match(text):
        return part
    fields = parse_printed_fields(text)
    return {key: field for key, field in fields.items() if field is not None} if "function_response" in fields else part


def _parse_content(value: Json) -> Json:
    """Decode the content if it is JSON of parts; other JSON is an author's words and stays a text."""
    if value == "[]":  # early versions leave Anthropic's tool results out of the list of blocks
        return []
    parts = as_list(decode(value))
    if parts and all(find_text(as_dict(part), "type") in PART_TYPES for part in parts):
        return [_parse_printed_part(part) for part in parts]
    return value
