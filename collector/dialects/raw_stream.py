"""The body of a streamed answer as it was on the wire: one JSON document a line, or server-sent events.

Clients that do not know a model's API (SageMaker's, an application's own) record the body and nothing else.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from collector.dialects.attributes import find_text
from collector.dialects.call import ChatMessage
from collector.dialects.decode import as_dict, as_list, decode
from collector.dialects.messages import parse_tool_calls
from collector.dialects.parts import JsonObject
from evaluators.cases import Json

_MAX_LINES = 20_000
_DATA = "data:"
_IGNORED = ("event:", "id:", "retry:", ":", "[DONE]")
_TEXTS = ("content", "text", "generated_text", "outputs", "completion")


def parse_raw_stream(value: Json) -> tuple[ChatMessage, ...] | None:
    """Join the pieces of an answer; None if the value is no stream's body, or has a line that cannot be read."""
    if not isinstance(value, str) or "\n" not in value.strip():
        return None
    chunks: list[JsonObject] = []
    for line in value.split("\n")[:_MAX_LINES]:
        event = line.strip().removeprefix(_DATA).strip()
        if not event or event.startswith(_IGNORED):
            continue
        chunk = as_dict(decode(event)) if event.startswith("{") else {}
        if not chunk:
            return None
        chunks.append(chunk)
    deltas = [find_delta for chunk in chunks for find_delta in _find_deltas(chunk)]
    texts = [text for delta in deltas if (text := find_text(delta, *_TEXTS)) is not None]
    tools = _join_tool_calls(deltas)
    return (ChatMessage("assistant", "".join(texts), parse_tool_calls(tools)),) if texts or tools else None


def _find_deltas(chunk: JsonObject) -> Iterable[JsonObject]:
    """Find what a chunk adds: to the first choice, to a block (Anthropic), a token (TGI), or a text of its own."""
    choices = as_list(chunk.get("choices"))
    if choices:
        choice = as_dict(choices[0])
        yield as_dict(choice.get("delta")) or choice
    elif chunk.get("delta") is not None:
        yield as_dict(chunk["delta"]) or {"text": chunk["delta"]}
    elif chunk.get("token") is not None:
        token = as_dict(chunk["token"])
        yield {} if token.get("special") else token
    else:
        yield chunk


def _join_tool_calls(deltas: Sequence[JsonObject]) -> list[Any]:
    """Join the pieces of tool calls by their index: the first has the name, the others more of the arguments."""
    calls: dict[Json, dict[str, Any]] = {}
    for each in (as_dict(call) for delta in deltas for call in as_list(delta.get("tool_calls"))):
        function = as_dict(each.get("function"))
        call = calls.setdefault(repr(each.get("index")), {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or each.get("id")
        for key in ("name", "arguments"):
            call["function"][key] += find_text(function, key) or ""
    return list(calls.values())
