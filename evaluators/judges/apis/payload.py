"""Values in JSON that a foreign server wrote: of the right type, or an empty value.

An unreadable answer in an unusual frame is put right: events of an unasked stream, marks around JSON, `NaN` and
infinities. That takes time linear in the answer's length.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from evaluators.errors import NoCompletion
from evaluators.judges.answer_places import mapping
from evaluators.judges.error_mapping import error_inside
from evaluators.wire.outside_json import UnboundedJson, read_outside

_NUMBERS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|-Infinity\b|\bInfinity\b|-?\bNaN\b', re.DOTALL)
_MOST_EVENTS = 200_000
_MARK = b"\xef\xbb\xbf"
_IMPOSSIBLE = b"-9999.0"


def read_framed(body: bytes) -> Any:
    """The value of an answer in an unusual frame.

    Raises:
        ValueError: the answer has no value.
    """
    body = body.removeprefix(_MARK).strip()
    if body.split(b"\n", 1)[0].startswith((b"data:", b"event:", b"id:", b":")):
        return _merged([_read(event) for event in _events(body)])
    head, ends_stream, rest = body.rpartition(b"data:")
    return _read(head if ends_stream and rest.strip() == b"[DONE]" else body)


def _read(body: bytes) -> Any:
    """The value of JSON that may hold `NaN` and infinities."""
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
    """The completion that a stream's events make: each choice with its pieces joined."""
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
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
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


def object_in(body: bytes, answers: str) -> dict[str, Any]:
    """The object of a response with status 200 that has something under `answers`.

    Raises:
        NoCompletion: it has nothing there, or is no JSON, for instance a page of a proxy. HttpStatusError: it is an
        error with a code or a status of its own, which says what it means.
    """
    payload = mapping(parsed(body))
    if not payload.get(answers):
        if payload.get("error") or payload.get("type") == "error":
            raise error_inside(body)
        raise NoCompletion(f"the endpoint answered with no {answers}")
    return payload


def parsed(body: bytes) -> Any:
    """The value of an answer's JSON.

    Raises:
        NoCompletion: it is no JSON, or larger than any answer.
    """
    try:
        return read_outside(body)
    except UnboundedJson as error:
        raise NoCompletion(str(error)) from None
    except ValueError:
        pass
    try:
        return read_framed(body)
    except ValueError:
        raise NoCompletion("the endpoint answered with something that is not JSON") from None


def objects(value: Any) -> list[dict[str, Any]]:
    """The items of a list, each as an object ({} if it is none); an empty list for any other value."""
    return [mapping(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def count(value: Any) -> int:
    """The value if it is a positive whole number, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def probability(value: Any) -> float | None:
    """The value as a probability from 0 to 1, with rounding errors forgiven, else None."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return min(1.0, max(0.0, float(value))) if -_ROUNDING <= value <= 1 + _ROUNDING else None


_ROUNDING = 1e-6
