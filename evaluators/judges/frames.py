"""Whole answers in an unusual frame: events of an unasked stream, marks around JSON, numbers that are none.

Such bytes are put right here when they cannot be read as they are. The way is linear in their length.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from evaluators.judges.answer_places import mapping
from evaluators.wire.outside_json import read_outside

_NUMBERS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|-Infinity\b|\bInfinity\b|-?\bNaN\b', re.DOTALL)
_MOST_EVENTS = 200_000
_MARK = b"\xef\xbb\xbf"
_IMPOSSIBLE = b"-9999.0"
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def read_framed(body: bytes) -> Any:
    """The value of an answer in an unusual frame.

    Raises:
        ValueError: it has none.
    """
    body = body.removeprefix(_MARK).strip()
    lines = body.split(b"\n", 1)[0]
    if lines.startswith((b"data:", b"event:", b"id:", b":")):
        return _merged([_read(event) for event in _events(body)])
    head, ends_stream, rest = body.rpartition(b"data:")
    return _read(head if ends_stream and rest.strip() == b"[DONE]" else body)


def _read(body: bytes) -> Any:
    """The value of JSON in which `NaN` and the infinities stand for what cannot be."""
    try:
        return read_outside(body)
    except ValueError:
        return read_outside(_NUMBERS.sub(_as_json, body))


def _as_json(match: re.Match[bytes]) -> bytes:
    word = match[0]
    if word.startswith(b'"'):
        return word
    return _IMPOSSIBLE if word == b"-Infinity" else b"null"


def _events(body: bytes) -> Iterator[bytes]:
    if body.count(b"\n") > 4 * _MOST_EVENTS:
        raise ValueError(f"the stream has more than {_MOST_EVENTS:,} events")
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data and data != b"[DONE]":
            yield data


def _merged(events: list[Any]) -> Any:
    """One completion of a stream's events: each choice with its pieces put together."""
    payload: dict[str, Any] = {}
    choices: dict[Any, dict[str, Any]] = {}
    for event in map(mapping, events):
        if isinstance(event.get("response"), dict) and event.get("type") in {
            "response.completed",
            "response.incomplete",
        }:
            return event["response"]
        payload |= {name: value for name, value in event.items() if name != "choices" and value is not None}
        for piece in event.get("choices") or ():
            fields = mapping(piece)
            _add(choices.setdefault(fields.get("index"), {"message": {}}), fields)
    for choice in choices.values():
        choice["message"] = {name: "".join(pieces) for name, pieces in choice["message"].items()}
    return payload | ({"choices": [*choices.values()]} if choices else {})


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    message: dict[str, Any] = choice["message"]
    delta = mapping(piece.get("delta")) or mapping(piece.get("message"))
    for name in _TEXTS:
        if isinstance(delta.get(name), str):
            message.setdefault(name, []).append(delta[name])
    for call in delta.get("tool_calls") or ():
        arguments = mapping(mapping(call).get("function")).get("arguments")
        if isinstance(arguments, str):
            message.setdefault("tool_calls", []).append(arguments)
    tokens = mapping(piece.get("logprobs")).get("content")
    if isinstance(tokens, list):
        choice.setdefault("logprobs", {"content": []})["content"] += cast("list[Any]", tokens)
    choice |= {name: piece[name] for name in ("finish_reason", "error") if piece.get(name)}
