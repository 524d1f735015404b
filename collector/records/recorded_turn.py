"""A turn as its record has it: the fields that sampling and conversations need are read at once, the others on demand.

Most turns that a conversation is made of are read, packed and nothing else: to make a value of each of their fields
and to write them again took half of a restart. `turn_from_json` still decides which records are turns: it
gets each record that is not surely one at a glance.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any, Protocol, cast, get_args

import orjson

from collector.records.json import turn_content_to_json, turn_from_json
from evaluators.cases import Incomplete, Json, ToolCall, Turn


class TurnFields(Protocol):
    """The fields that a turn and its record share, in the same form: enough to know whether a monitor wants it."""

    @property
    def turn_id(self) -> str: ...  # noqa: D102 - these are fields of `Turn`
    @property
    def conversation_id(self) -> str | None: ...  # noqa: D102
    @property
    def trace_id(self) -> str | None: ...  # noqa: D102
    @property
    def trace_state(self) -> str | None: ...  # noqa: D102
    @property
    def agent_run_of(self) -> str | None: ...  # noqa: D102
    @property
    def input(self) -> str | None: ...  # noqa: D102
    @property
    def events(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def tools_called(self) -> tuple[ToolCall, ...]: ...  # noqa: D102
    @property
    def attributes(self) -> Mapping[str, Json]: ...  # noqa: D102


class RecordedTurn:
    """A turn and its record. `started` and `ended` are its times in seconds since the epoch, None where unknown.

    Raises:
        BadInput: the record is not a turn.
    """

    __slots__ = (
        "_fields", "_turn", "_value", "agent_run_of", "attributes", "conversation_id", "ended", "input",
        "started", "trace_id", "trace_state", "turn_id",
    )  # fmt: skip

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._turn: Turn | None = None
        fields = self._fields = _fields_at_a_glance(value)
        if fields is None:
            self._take(turn_from_json(value))
            return
        overloaded = fields.get
        self.turn_id: str = fields["turn_id"]
        self.conversation_id: str | None = overloaded("conversation_id")
        self.trace_id: str | None = overloaded("trace_id")
        self.trace_state: str | None = overloaded("trace_state")
        self.agent_run_of: str | None = overloaded("agent_run_of")
        self.input: str | None = overloaded("input")
        self.attributes: Mapping[str, Json] = overloaded("attributes", _NOTHING)
        self.started = _seconds(overloaded("started_at"))
        self.ended = _seconds(overloaded("ended_at"))

    def _take(self, turn: Turn) -> None:
        self._turn, self._fields = turn, None
        self.turn_id, self.conversation_id, self.trace_id = turn.turn_id, turn.conversation_id, turn.trace_id
        self.trace_state, self.agent_run_of = turn.trace_state, turn.agent_run_of
        self.input, self.attributes = turn.input, turn.attributes
        self.started = turn.started_at.timestamp() if turn.started_at else None
        self.ended = turn.ended_at.timestamp() if turn.ended_at else None

    @property
    def turn(self) -> Turn:
        """All of it."""
        if self._turn is None:
            self._turn = turn_from_json(self._value)
        return self._turn

    @property
    def events(self) -> tuple[str, ...]:
        """As in `Turn`."""
        return tuple(self._fields.get("events", ())) if self._fields is not None else self.turn.events

    @property
    def tools_called(self) -> tuple[ToolCall, ...]:
        """As in `Turn`."""
        return () if self._fields is not None and "tools_called" not in self._fields else self.turn.tools_called

    def __getattr__(self, name: str) -> Any:
        """Any other field, as in `Turn`."""
        return self._fields.get(name) if self._fields is not None and name in _TEXTS else getattr(self.turn, name)

    def add_attributes(self, attributes: Mapping[str, Json]) -> None:
        """Attributes that it has under other names."""
        if not attributes:
            return
        merged = {**self.attributes, **attributes}
        if self._fields is None:
            self._take(replace(self.turn, attributes=merged))
        else:
            self._fields["attributes"] = self.attributes = merged
            self._value, self._turn = orjson.dumps(self._fields), None

    @property
    def has_history(self) -> bool:
        """Whether anything was said before it."""
        return "history" in self._fields if self._fields is not None else bool(self.turn.history)

    def earlier_inputs(self) -> Iterator[str]:
        """The words of users in its history."""
        if self._fields is None:
            yield from (message.content for message in self.turn.history if message.role == "user" and message.content)
            return
        for field in self._fields.get("history", ()):
            if field["role"] == "user" and (content := field.get("content")):
                yield content

    def content_to_json(self) -> bytes:
        """It without its history, its id and its conversation's: what is stored of it beside those.

        Raises:
            BadInput: it holds what JSON has no room for.
        """
        fields = self._fields
        if fields is None:
            return turn_content_to_json(self.turn)
        if "history" not in fields:
            ids = b'{"turn_id":%b,"conversation_id":%b,' % (
                orjson.dumps(self.turn_id),
                orjson.dumps(self.conversation_id),
            )
            if self._value.startswith(ids):
                return _NO_IDS + self._value[len(ids) :]
        content = fields | {"turn_id": "", "conversation_id": None}
        content.pop("history", None)
        return orjson.dumps(content)


_NOTHING: Mapping[str, Json] = {}
_NO_IDS = b'{"turn_id":"","conversation_id":null,'
_LARGEST = 1 << 63
_DEPTH = 16
"""How deep values may lie for a glance; readers and writers have limits of their own, far beyond."""


def _seconds(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _fields_at_a_glance(value: bytes) -> dict[str, Any] | None:
    """The fields of a record that is surely a turn, as we write them; None where that takes more than a glance."""
    try:
        plain = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if type(plain) is not dict:
        return None
    fields = cast("dict[str, Any]", plain)
    if type(fields.get("turn_id")) is not str:
        return None
    for name, field in fields.items():
        if (kinds := _KINDS.get(name)) is not None:
            if type(field) not in kinds:
                return None
        elif name not in _CHECKS or not _CHECKS[name](field):
            return None
    return fields


def _is_time(value: Any) -> bool:
    """Whether it is a time as records have it: in UTC, to the second or microsecond."""
    if type(value) is not str or len(value) not in {20, 27} or value[-1] != "Z":
        return False
    if value[4] + value[7] + value[10] + value[13] + value[16] != "--T::" or (len(value) == 27 and value[19] != "."):
        return False
    try:
        return datetime.fromisoformat(value).year > 0
    except ValueError:
        return False


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_plain(value: Any, depth: int = _DEPTH) -> bool:
    """Whether it is JSON that every reader reads alike: not nested deeply, no numbers beyond 64 bits."""
    if type(value) is dict:
        members: Iterable[Any] = cast("dict[str, Any]", value).values()
    elif type(value) is list:
        members = cast("list[Any]", value)
    else:
        return type(value) is not float or abs(value) < _LARGEST
    for member in members:
        if type(member) in _TO_LOOK_AT and not _is_plain(member, depth - 1):
            return False
    return depth > 0


_TO_LOOK_AT = frozenset((dict, list, float))


def _is_object(value: Any) -> bool:
    return type(value) is dict and _is_plain(value)


def _are(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(kind, cast("list[Any]", value)))


def _is_tool_call(value: Any) -> bool:
    if type(value) is not dict or "name" not in value:
        return False
    return all(
        _is_plain(each) if name in {"arguments", "result"} else type(each) is str and name in {"name", "id", "error"}
        for name, each in cast("dict[str, Any]", value).items()
    )


_are_tool_calls = _are(_is_tool_call)


def _is_message(value: Any) -> bool:
    if type(value) is not dict or "role" not in value:
        return False
    return all(
        _are_tool_calls(each) if name == "tool_calls" else type(each) is str
        for name, each in cast("dict[str, Any]", value).items()
    )


def _is_usage(value: Any) -> bool:
    if type(value) is not dict:
        return False
    usage = cast("dict[str, Any]", value)
    return usage.keys() <= {"input_tokens", "output_tokens"} and all(type(each) is int for each in usage.values())


_TEXTS = frozenset(
    ("trace_id", "conversation_id", "span_id", "parent_span_id", "response_id", "service", "dialect", "model",
     "user_id", "system_prompt", "input", "actual_output", "expected_output", "error", "trace_state", "agent_run_of")
)  # fmt: skip
_KINDS: Mapping[str, frozenset[type]] = {"turn_id": frozenset({str})} | dict.fromkeys(
    _TEXTS, frozenset({str, NoneType})
)
"""Fields with nothing in them to look at, and the types of their values."""
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("started_at", "ended_at"), _is_time),
    "history": _are(_is_message),
    "tools_called": _are_tool_calls,
    **dict.fromkeys(("retrieval_context", "context", "events"), _are(_is_text)),
    "usage": _is_usage,
    "incomplete": get_args(Incomplete).__contains__,
    "model_calls": lambda value: type(value) is int,
    **dict.fromkeys(("program_fields", "attributes"), _is_object),
}
"""The other fields, and the bytes by which each field's value is recognized; one that is not here takes more than a
glance."""
