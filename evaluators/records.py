"""Records as JSON: turns, conversations and evaluations, one object a line.

A record has the fields of its dataclass. None and empty fields are not written, except the fields that identify the
record, and a tool's arguments and result: "nothing found" is a result. Reading ignores fields it does not know: while a
new version is rolled out, old processes meet its records.
"""

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import TypeAdapter

from evaluators.cases import Conversation, Message, ToolCall, Turn

T = TypeVar("T")

_ALWAYS: dict[type, frozenset[str]] = {
    Turn: frozenset({"turn_id", "trace_id", "conversation_id", "input", "actual_output"}),
    Message: frozenset({"role", "content"}),
    Conversation: frozenset({"conversation_id", "turns", "revision"}),
}
"""Fields that are written even when there is nothing in them."""

_FORM = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_SCALARS = frozenset({str, int, float, bool, datetime})


def to_json(record: object) -> bytes:
    """Write a record as one line of JSON, without the line's end.

    Raises:
        TypeError: it holds a value that JSON cannot: a number beyond 64 bits, a lone surrogate, a nesting of hundreds.
        The message names the kind of value, and nothing of the content.
    """
    return orjson.dumps(record, _to_plain, _FORM)


def from_json(data: bytes | str, kind: type[T]) -> T:
    """Read a record.

    Raises:
        pydantic.ValidationError: it is not one.
    """
    return adapter_of(kind).validate_json(data)  # type: ignore[arg-type] # to mypy a class is not hashable


@cache
def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """The validator and schema of records of a kind. Made once, because that takes milliseconds."""
    return TypeAdapter(kind)


class _Shape(NamedTuple):
    """The names of a record's fields, a function that gets all their values, and the fields that are always written."""

    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    always: frozenset[str]


@cache
def _shape(kind: type) -> _Shape:
    names = tuple(field.name for field in fields(kind))
    return _Shape(names, attrgetter(*names), _ALWAYS.get(kind, frozenset()))


def _to_plain(record: Any) -> dict[str, Any]:
    """A record as a dict for orjson, which calls this for every dataclass in a record. A history has many messages:
    without these calls, they are written in a third of the time.
    """
    plain = to_dict(record)
    if type(record) is Turn and record.history:
        plain["history"] = [
            to_dict(message)
            if message.tool_calls or message.tool_call_id is not None
            else {"role": message.role, "content": message.content}
            for message in record.history
        ]
    return plain


def to_dict(record: Any) -> dict[str, Any]:
    """A record as a dict, without None and empty fields."""
    kind: Any = record.__class__
    if kind is Message and not record.tool_calls and record.tool_call_id is None:
        return {"role": record.role, "content": record.content}  # histories have many of them
    names, values, always = _shape(kind)
    pairs = zip(names, values(record), strict=True)
    if kind is ToolCall:
        return {name: item for name, item in pairs if item is not None}
    return {name: item for name, item in pairs if item or name in always or type(item) in _SCALARS}
