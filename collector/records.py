"""The records of the logs as JSON: turns, conversations and evaluations, one object a line.

A record's fields are those of its dataclass. Written out, None and empty ones are left out, but for those that say
what the record is, and for what a tool was given and gave back: nothing found is a result. Reading ignores fields it
does not know: while a new version is rolled out, old processes meet its records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

import orjson
from pydantic import TypeAdapter, ValidationError

from collector.errors import BadInput
from evaluators.cases import Conversation, Message, ToolCall, Turn
from evaluators.outcome import Evaluation, Label

T = TypeVar("T")

_ALWAYS: dict[type, frozenset[str]] = {
    Turn: frozenset({"turn_id", "trace_id", "conversation_id", "input", "actual_output"}),
    Message: frozenset({"role", "content"}),
    Conversation: frozenset({"conversation_id", "turns", "revision"}),
}
"""Fields that are written even when there is nothing in them."""


def turn_to_json(turn: Turn) -> bytes:
    """Write a turn as one line of JSON, without the line's end.

    Raises:
        BadInput: it holds what JSON has no room for: a number beyond 64 bits, half a character, a nesting of hundreds.
    """
    return _to_json(turn)


def nameless_turn_to_json(turn: Turn) -> bytes:
    """Write a turn without its history, its id and its conversation's: what is kept of it beside those."""
    plain = _plain(turn)
    plain.pop("history", None)
    return _to_json(plain | {"turn_id": "", "conversation_id": None})


def turn_from_json(data: bytes | str) -> Turn:
    """Read a turn.

    Raises:
        BadInput: it is not one; names the path of what is wrong, not its content.
    """
    return _from_json(data, Turn)


def conversation_to_json(conversation: Conversation) -> bytes:
    """Write a conversation as one line of JSON, without the line's end."""
    return _to_json(conversation)


def conversation_from_json(data: bytes | str) -> Conversation:
    """Read a conversation. Raises BadInput."""
    return _from_json(data, Conversation)


def evaluation_to_json(evaluation: Evaluation) -> bytes:
    """Write an evaluation as one line of JSON, without the line's end."""
    return _to_json(evaluation)


def evaluation_from_json(data: bytes | str) -> Evaluation:
    """Read an evaluation. Raises BadInput."""
    return _from_json(data, Evaluation)


def label_to_json(label: Label) -> bytes:
    """Write a label as one line of JSON, without the line's end."""
    return _to_json(label)


def label_from_json(data: bytes | str) -> Label:
    """Read a label. Raises BadInput."""
    return _from_json(data, Label)


def record_of(value: object, kind: type[T]) -> T:
    """Read a record from an already decoded JSON value. Raises BadInput."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise BadInput(complaint(error, kind)) from None
    except RecursionError:
        raise BadInput(f"not a {kind.__name__.lower()}: it is nested too deeply") from None


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every record, by its name."""
    return {kind.__name__.lower(): _adapter(kind).json_schema() for kind in (Turn, Conversation, Evaluation, Label)}


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _from_json(data: bytes | str, kind: type[T]) -> T:
    try:
        return _adapter(kind).validate_json(data)
    except ValidationError as error:
        raise BadInput(complaint(error, kind)) from None


def complaint(error: ValidationError, kind: type) -> str:
    """One sentence: the first thing that is wrong and where, without the value itself."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    path = ".".join(str(each) for each in first["loc"])
    reason = "it is not JSON" if first["type"] == "json_invalid" else first["msg"]
    name = kind.__name__.lower()
    return f"not {'an' if name[0] in 'aeiou' else 'a'} {name}: {path + ': ' if path else ''}{reason}"


def _to_json(record: object) -> bytes:
    try:
        return orjson.dumps(record, _plain, _FORM)
    except TypeError as error:  # its message says what kind of thing it is, and nothing of the content
        raise BadInput(f"cannot be written as JSON: {error}") from None


_FORM = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_SCALARS = frozenset({str, int, float, bool, datetime})


class _Shape(NamedTuple):
    """The names of a record's fields, what gets the values of all of them, and the fields that are always written."""

    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    always: frozenset[str]


@cache
def _shape(kind: type) -> _Shape:
    names = tuple(each.name for each in fields(kind))
    return _Shape(names, attrgetter(*names), _ALWAYS.get(kind, frozenset()))


def _plain(value: Any) -> dict[str, Any]:
    """A record as a dict, without what is None or empty; orjson asks for it at every dataclass that it meets."""
    kind = cast("type[object]", type(value))
    if kind is Message and not value.tool_calls and value.tool_call_id is None:
        return {"role": value.role, "content": value.content}  # histories are full of them
    names, values, always = _shape(kind)
    pairs = zip(names, values(value), strict=True)
    if kind is ToolCall:
        return {name: item for name, item in pairs if item is not None}
    return {name: item for name, item in pairs if item or name in always or type(item) in _SCALARS}
