"""The places of a message where endpoints leave an answer, and the meanings of finish reasons."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import orjson

from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.judges.endpoint_meanings import CUT_OFF, FAILED, FILTERED, REASONING, THOUGHTS

Ending = Literal["length", "filtered", "failed"]


def answer_text(message: Mapping[str, Any]) -> str:
    """The answer in a message: its text, an object, the arguments of a tool, or reasoning that has the answer's key.

    The first place with an object counts, else the first with a text.
    """
    if isinstance(content := message.get("content"), str) and "{" in content:  # nearly always
        return content
    texts = [text for text in _texts(message) if text.strip()]
    return next((text for text in texts if "{" in text), texts[0] if texts else "")


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    yield text_in(message.get("content"))
    yield text_in(message.get("parsed"))
    calls = message.get("tool_calls")
    if isinstance(calls, str):
        yield calls
    for call in [
        *(cast("list[Any]", calls) if isinstance(calls, list) else []),
        {"function": message.get("function_call")},
    ]:
        fields = mapping(call)
        yield text_in(mapping(fields.get("function")).get("arguments") or fields.get("arguments"))
    yield from (text for place in REASONING if ANSWER_KEY in (text := text_in(message.get(place))))


def text_in(content: Any) -> str:
    """The text of a content: the content itself, its parts without thoughts, or the JSON of an object."""
    match content:
        case str():
            return content
        case list():
            return "".join(text_in(part) for part in cast("list[Any]", content) if not _is_thought(part))
        case {"text": str(text)} | {"text": {"value": str(text)}}:
            return text
        case {"type": str()} if ANSWER_KEY not in content:
            return ""
        case dict() if content:
            return orjson.dumps(content).decode()
        case _:
            return ""


def _is_thought(part: Any) -> bool:
    fields = mapping(part)
    return fields.get("type") in THOUGHTS or fields.get("thought") is True


_REASON_END = re.compile(r"[:;,(\s]")


def ending(reason: Any) -> Ending | None:
    """The meaning of a finish reason, however it is spelt: `MAX_TOKENS`, `content_filter: …`, `FinishReason.SAFETY`."""
    if not isinstance(reason, str) or reason == "stop":
        return None
    name = _REASON_END.split(reason.strip(), maxsplit=1)[0].rpartition(".")[2]
    name = name.replace("_", "").replace("-", "").lower()
    if name in CUT_OFF:
        return "length"
    if name in FILTERED:
        return "filtered"
    return "failed" if name in FAILED else None


def mapping(value: Any) -> dict[str, Any]:
    """An object; {} for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
