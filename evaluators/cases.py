"""Cases: the turns and conversations that are evaluated.

Plain immutable values, one vocabulary for every trace dialect and every evaluator. Fields have the names of the JSON
records' fields (one turn per line), so that a value and its record correspond.

A value of the wrong shape is refused where it is made: a TypeError or ValueError names the field and the remedy. Lists
are accepted for tuples. The checks are written out in `__post_init__`, because every turn of the traffic passes through
them: together they take 0.3 µs a turn, where a loop over the fields would take ten times as long. Values that they do
not accept at a glance go to `evaluators.shapes`. A shape takes a value and returns the value to keep, or raises
`WrongShape` with the needed type. Messages name the field and the given type, never the content: judged text belongs in
no log.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from types import NoneType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

from evaluators.foreign_names import CASE, suggestion

Shape: TypeAlias = Callable[[Any], Any]
Case = TypeVar("Case", bound="_InRecords")


class WrongShape(Exception):
    """A value has the wrong type or, with `bad_value`, the right type and a value that makes no sense."""

    def __init__(self, need: str, *, bad_value: bool = False) -> None:
        super().__init__(need)
        self.bad_value = bad_value


def repair(record: object, **shapes: Shape) -> None:
    """Bring the fields of a frozen record into their shapes.

    Raises:
        TypeError: a field has another type. The message names field and remedy.
        ValueError: a field has the right type and makes no sense, like a time without a time zone.
    """
    for name, shape in shapes.items():
        value = getattr(record, name)
        try:
            shaped = shape(value)
        except WrongShape as error:
            raise (ValueError if error.bad_value else TypeError)(f"{type(record).__name__}.{name}: {error}") from None
        if shaped is not value:
            object.__setattr__(record, name, shaped)


def optional(shape: Shape) -> Shape:
    """The shape, or None."""
    return lambda value: None if value is None else shape(value)


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise WrongShape(f"a text (str) is needed, not {_kind(value)}")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Several texts. A single text is refused, as it would be taken letter by letter."""
    if isinstance(value, str):
        raise WrongShape('a list of texts is needed, not one text; write ["…"]')
    return cast("tuple[str, ...]", values(str)(value))


def values(kind: type) -> Shape:
    """A tuple of values of a kind; a list becomes a tuple."""

    def shape(items: Any) -> tuple[Any, ...]:
        plural = "texts" if kind is str else f"{kind.__name__} values"
        if not isinstance(items, list | tuple):
            remedy = "; leave it out where there are none" if items is None else ""
            raise WrongShape(f"a list of {plural} is needed, not {_kind(items)}{remedy}")
        several = cast("list[Any] | tuple[Any, ...]", items)
        for number, item in enumerate(several):
            if not isinstance(item, kind):
                remedy = f"; write {kind.__name__}(…)" if isinstance(item, Mapping) else ""
                raise WrongShape(f"a list of {plural} is needed, but item {number} is {_kind(item)}{remedy}")
        return tuple(several)

    return shape


def zoned_time(value: Any) -> datetime:
    """A time that knows its time zone."""
    if not isinstance(value, datetime):
        raise WrongShape(f"a datetime is needed, not {_kind(value)}")
    if value.tzinfo is None:
        raise WrongShape("a time needs its time zone, like datetime.now(UTC)", bad_value=True)
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Values by name."""
    if not isinstance(value, Mapping):
        raise WrongShape(f"a dict is needed, not {_kind(value)}")
    return cast("Mapping[str, Any]", value)


class _InRecords:
    """A dataclass whose pydantic schema, for records, is stricter or laxer than its constructor, for code.

    The field that `required` names has no default in records: code may leave a name out, but a record without it is
    something else, or broken; `{}` in a log must not be evaluated as a turn. In a record, a time without time zone is
    UTC, as records have no local time; in code it may be local (`datetime.now()`), and is refused. `__post_init__` is
    not called, as pydantic has made its checks: calling Python for each message of a history took a fifth of the time
    to read a turn.
    """

    __slots__ = ()
    required: ClassVar[str] = ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        schema["post_init"] = False
        for field_schema in schema["schema"]["fields"]:
            inner = field_schema["schema"]
            if field_schema["name"] == cls.required and inner["type"] == "default":
                field_schema["schema"] = inner["schema"]
            elif field_schema["name"] in {"started_at", "ended_at"}:
                inner["schema"] = core_schema.no_info_after_validator_function(_in_utc, inner["schema"])
        return schema


def _naming_fields(cls: type[Case]) -> type[Case]:
    """The class with a constructor that names the field that was meant where an argument is none."""
    make: Callable[..., None] = cls.__init__
    known: Mapping[str, object] = vars(cls)["__dataclass_fields__"]

    @wraps(make)
    def init(*arguments: Any, **fields: Any) -> None:
        try:
            make(*arguments, **fields)
        except TypeError:
            for name in fields.keys() - known.keys():
                advice = f"write {CASE[name]}=…" if CASE.get(name) in known else suggestion(name, known)
                raise TypeError(f"{cls.__name__} has no field {name!r}; {advice}") from None
            raise

    cls.__init__ = init  # type: ignore[method-assign]
    return cls


def _in_utc(value: datetime | None) -> datetime | None:
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


Json = Any
"""A JSON value: None, bool, int, float, str, list of Json, or dict of str to Json."""

Scope = Literal["turn", "conversation"]

Incomplete = Literal[
    "no_content", "redacted", "truncated", "external_reference", "evicted_attributes", "scaffolding", "waiting",
    "unwanted",
]  # fmt: skip
"""Why a turn cannot be judged although it happened.

`scaffolding`: the trace has only what a library wrote around the words, such as the markers of a prompt's fields.
`waiting`: the run stopped to ask a person, and continues in another trace.
`unwanted`: no monitor could want it when it was assembled, so its content was not stored (`assemble.keep: wanted`).
"""

AttachmentKind = Literal["image", "audio", "video", "file"]
AttachmentPlace = Literal["input", "history", "actual_output", "tools_called"]


def _all(kind: frozenset[type], items: Iterable[object]) -> bool:
    """Whether the items are a tuple of values of exactly this kind; `repair` handles subclasses and lists."""
    return type(items) is tuple and kind.issuperset(map(type, items))  # pyright: ignore[reportUnknownArgumentType]


@_naming_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(_InRecords):
    """One call of a tool: the model's request and the tool's result.

    `arguments` and `result` are JSON values where the trace had JSON, else text; `result` is None if the trace has no
    result. `error` is why the call failed, None if the trace reports no failure.
    """

    id: str | None = None
    name: str
    arguments: Json = None
    result: Json = None
    error: str | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str:
            repair(self, name=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(_InRecords):
    """A tool that a model was offered: its name, purpose and arguments.

    `parameters` is a JSON Schema of the arguments without its texts, None if the trace does not tell.
    """

    name: str
    description: str | None = None
    parameters: Json = None

    def __post_init__(self) -> None:
        if type(self.name) is not str:
            repair(self, name=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment(_InRecords):
    """A picture, recording or file of a turn: its kind, and as much of its content as was permitted.

    `place` is the field of the turn that it belongs to. `size` is in bytes and `sha256` in hex digits, both where the
    trace had the content; `data` is that content as base64, where it is small enough to be stored. `url` is the place
    that the trace names: an address, or the id of a file. `transcript` is the text of a recording.
    """

    kind: AttachmentKind
    place: AttachmentPlace = "input"
    media_type: str | None = None
    size: int | None = None
    sha256: str | None = None
    url: str | None = None
    transcript: str | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        if type(self.kind) is not str:
            repair(self, kind=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(_InRecords):
    """One message of a chat. `content` is its text, "" where it has none."""

    role: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        if (
            type(self.role) is not str
            or type(self.content) is not str
            or (self.tool_calls != () and not _all(_TOOL_CALL, self.tool_calls))
        ):
            repair(self, role=text, content=text, tool_calls=values(ToolCall))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Feedback about a turn from a person, or from a program of the application.

    `value` is a number, a bool or a text; `source` says who (`user`, `application`, …) where the trace tells.
    """

    name: str
    value: float | bool | str | None = None
    label: str | None = None
    comment: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Tokens that the application's own model used; input includes cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0


@_naming_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(_InRecords):
    """One user request and the application's answer to it, with what happened in between.

    `turn_id` "" stands for a turn without a name: evaluations name it by a hash of its content (see `identity`).
    `input` is the user's text, `actual_output` the answer the user got, `history` what preceded `input`. A failed call
    is a turn with `error` and no `actual_output`. `incomplete` says why a turn cannot be judged, None if it can.
    `conversation_id` is None where the trace names none: such a turn is a conversation of its own. Times are UTC.
    `trace_state` is the W3C tracestate, if the trace had one: samplers write their probability into it. `events` are
    the names of the application's own events in this part of the trace, each once, the latest last; at most 16.
    `tools_offered` are the tools that its models could have called, and `model_calls` counts the calls of models; both
    if the trace tells. If this is an agent's run inside another turn, `agent_run_of` is the id of that turn.
    `attachments` are the pictures, recordings and files of the turn and of the messages before it.
    """

    required = "turn_id"
    turn_id: str = ""
    conversation_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    response_id: str | None = None
    service: str | None = None
    dialect: str | None = None
    model: str | None = None
    user_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    system_prompt: str | None = None
    history: tuple[Message, ...] = ()
    input: str | None = None
    actual_output: str | None = None
    tools_called: tuple[ToolCall, ...] = ()
    retrieval_context: tuple[str, ...] = ()
    expected_output: str | None = None
    context: tuple[str, ...] | None = None
    expected_tools: tuple[ToolCall, ...] | None = None
    usage: TokenCount | None = None
    error: str | None = None
    incomplete: Incomplete | None = None
    feedback: tuple[Feedback, ...] = ()
    trace_state: str | None = None
    events: tuple[str, ...] = ()
    tools_offered: tuple[ToolDefinition, ...] = ()
    model_calls: int | None = None
    attachments: tuple[Attachment, ...] = ()
    agent_run_of: str | None = None
    program_fields: Mapping[str, Json] = field(default_factory=dict[str, Json])
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def __post_init__(self) -> None:
        if (
            type(self.input) not in _TEXT
            or type(self.actual_output) not in _TEXT
            or type(self.expected_output) not in _TEXT
            or type(self.system_prompt) not in _TEXT
            or type(self.conversation_id) not in _TEXT
            or type(self.turn_id) is not str
            or type(self.attributes) is not dict
            or type(self.program_fields) is not dict
            or (self.history != () and not _all(_MESSAGE, self.history))
            or (self.tools_called != () and not _all(_TOOL_CALL, self.tools_called))
            or (self.retrieval_context != () and not _all(_STR, self.retrieval_context))
            or (self.context is not None and not _all(_STR, self.context))
            or (self.expected_tools is not None and not _all(_TOOL_CALL, self.expected_tools))
            or (self.feedback != () and not _all(_FEEDBACK, self.feedback))
            or (self.tools_offered != () and not _all(_TOOL_DEFINITION, self.tools_offered))
            or (self.attachments != () and not _all(_ATTACHMENT, self.attachments))
            or (self.started_at is not None and getattr(self.started_at, "tzinfo", None) is None)
            or (self.ended_at is not None and getattr(self.ended_at, "tzinfo", None) is None)
        ):
            repair(self, **_TURN_SHAPES)


_TURN_SHAPES = {
    "turn_id": text,
    **dict.fromkeys(("conversation_id", "input", "actual_output", "expected_output", "system_prompt"), optional(text)),
    "history": values(Message), "feedback": values(Feedback), "attachments": values(Attachment),
    "tools_called": values(ToolCall), "expected_tools": optional(values(ToolCall)),
    "tools_offered": values(ToolDefinition),
    "retrieval_context": texts, "context": optional(texts),
    "started_at": optional(zoned_time), "ended_at": optional(zoned_time),
    "attributes": mapping, "program_fields": mapping,
}  # fmt: skip


@_naming_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation(_InRecords):
    """Turns that share a conversation id, in order.

    `conversation_id` "" stands for a conversation without a name, like `turn_id` of a turn.
    `closed_by` says what ended it (`idle`, …); `revision` counts from 1 and grows when late turns reopen it.
    """

    required = "conversation_id"
    conversation_id: str = ""
    turns: tuple[Turn, ...]
    chatbot_role: str | None = None
    scenario: str | None = None
    expected_outcome: str | None = None
    closed_by: str | None = None
    revision: int = 1
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def __post_init__(self) -> None:
        if not _all(_TURN, self.turns) or type(self.conversation_id) is not str or type(self.attributes) is not dict:
            repair(self, turns=values(Turn), conversation_id=text, attributes=mapping)


def scope_of(case: Turn | Conversation) -> Scope:
    """The evaluators that a case is for."""
    return "turn" if isinstance(case, Turn) else "conversation"


_STR = frozenset({str})
_TEXT = frozenset({str, NoneType})
_TOOL_CALL: frozenset[type] = frozenset({ToolCall})
_TOOL_DEFINITION: frozenset[type] = frozenset({ToolDefinition})
_MESSAGE: frozenset[type] = frozenset({Message})
_ATTACHMENT: frozenset[type] = frozenset({Attachment})
_FEEDBACK: frozenset[type] = frozenset({Feedback})
_TURN: frozenset[type] = frozenset({Turn})
