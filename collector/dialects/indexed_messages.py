"""Messages as indexed attributes: `gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`, …"""

from __future__ import annotations

import re
from typing import Any

from collector.dialects.call import Said
from collector.dialects.decode import as_dict, as_list, decoded, json_value, shown_fields
from collector.dialects.messages import messages
from collector.dialects.parts import PART_TYPES, name_in
from collector.dialects.reading import indexed
from collector.span import Attributes
from evaluators.cases import Json

PROMPT = "gen_ai.prompt."
COMPLETION = "gen_ai.completion."


def indexed_messages(attributes: Attributes, beginning: str, role: str, *, encoded: bool = False) -> tuple[Said, ...]:
    """Read the messages of indexed attributes; one without a role is one of `role`.

    `encoded` says that contents are JSON of texts or blocks, whatever they look like. Thoughts are left out.
    """
    said: list[Said] = []
    for group in indexed(attributes, beginning):
        if group.get("role") != "thinking":
            said += messages([_message(group, role, encoded=encoded)]).said
    return tuple(said)


def _message(group: dict[str, Json], role: str, *, encoded: bool) -> dict[str, Any]:
    content = group.get("content", group.get("user"))  # a prompt without messages stands under its role
    message: dict[str, Any] = {
        "role": group.get("role") or role,
        "content": json_value(content) if encoded else _content(content),
    }
    for key in ("tool_call_id", "finish_reason"):
        if group.get(key):
            message[key] = group[key]
    calls = indexed(group, "tool_calls.")
    if calls:
        message["tool_calls"] = calls
    elif group.get("function_call.name"):
        message["tool_calls"] = [
            {"name": group["function_call.name"], "arguments": group.get("function_call.arguments")}
        ]
    return message


_PRINTED_PART = re.compile(r"[a-z_]+=(?:None |FunctionCall\(|FunctionResponse\()")


def _printed_part(part: Any) -> Any:
    """A part of Gemini's contents that became the text of its printed form."""
    text = part.get("text")
    if not isinstance(text, str) or not _PRINTED_PART.match(text):
        return part
    fields = shown_fields(text)
    return {key: each for key, each in fields.items() if each is not None} if "function_response" in fields else part


def _content(value: Json) -> Json:
    """The content, decoded if it is JSON of parts; other JSON is what somebody said."""
    if value == "[]":  # early versions leave Anthropic's tool results out of the list of blocks
        return []
    parts = as_list(decoded(value))
    if parts and all(name_in(as_dict(part), "type") in PART_TYPES for part in parts):
        return [_printed_part(part) for part in parts]
    return value
