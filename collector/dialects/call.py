"""The neutral form of one span: what a dialect reader returns, with the attributes that each field came from.

A reader reports one span and nothing else. `collector/assemble` decides what belongs together and becomes a turn.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from collector.dialects.decode import as_list
from collector.otlp.span import Span
from evaluators.cases import Attachment, Feedback, Incomplete, Json, Message, TokenCount, ToolCall

Kind = Literal["model", "agent", "workflow", "chain", "tool", "retrieval", "auxiliary", "other"]
"""The kind of step that a span records.

model: one call of a model that answers with text or tool calls.
agent: something a user talks to, with or without visible model calls.
workflow: an application's own function or root around model calls; without any it is just a function.
chain: any other step around model calls.
tool: the execution of a tool. retrieval: documents fetched for a question.
auxiliary: a guardrail, an evaluator or a reranker: model calls inside are not the application's answer.
other: written by the dialect, but without question or answer (embeddings, feedback, preparation).
"""


class ChatMessage(NamedTuple):
    """One message of a trace.

    `role` is system, user, assistant, tool, or the dialect's own word. A tool's result is a message of its own, of role
    tool: `tool_call_id` is the call it answers, `name` the tool, and `result` the value before it became text.
    `finish_reason` is `stop`, `tool`, `length`, `filter`, or None if unknown. `attachments` are its pictures and files.
    `failed` is set of a tool's result that is marked as an error.
    """

    role: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    result: Json = None
    finish_reason: str | None = None
    attachments: tuple[Attachment, ...] = ()
    failed: bool = False

    @property
    def in_history(self) -> Message:
        """The message as a turn's history has it."""
        return Message(role=self.role, content=self.text, tool_calls=self.tool_calls, tool_call_id=self.tool_call_id)


class Passage(NamedTuple):
    """A retrieved document. `text` is "" if the trace has only its id or score."""

    text: str
    id: str | None = None
    score: float | None = None


_EMPTY: Mapping[str, str] = MappingProxyType({})


class Call(NamedTuple):
    """The neutral form of one span. None means that the span does not say.

    `dialect` is the name of the reader's dialect, unless the reader gives another.
    `output` has one message per choice for a model, and whatever it reports of its run for an agent. `system` is a
    system prompt outside the messages. `input_incomplete` and `output_incomplete` say why one of them is missing or
    cannot be trusted. `usage` counts this call alone. `variables` are the values that filled a prompt template.
    `uncertain` means that the borders between messages are guessed, `input_begins_elsewhere` that the input has only
    the messages since a call that has not arrived. `feedback_for` is the response id that `feedback` is about.
    `sources` maps names of these fields to the attributes that they came from.
    """

    dialect: str = ""
    kind: Kind = "other"
    system: str | None = None
    input: tuple[ChatMessage, ...] | None = None
    output: tuple[ChatMessage, ...] | None = None
    input_incomplete: Incomplete | None = None
    output_incomplete: Incomplete | None = None
    finish_reason: str | None = None
    error: str | None = None
    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    usage: TokenCount | None = None
    agent: str | None = None
    tool: ToolCall | None = None
    passages: tuple[Passage, ...] = ()
    query: str | None = None
    variables: Mapping[str, str] = _EMPTY
    feedback: tuple[Feedback, ...] = ()
    feedback_for: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    uncertain: bool = False
    input_begins_elsewhere: bool = False
    sources: Mapping[str, str] = _EMPTY


def read_by_kind(
    name: str, kinds: Mapping[str, Kind], steps: Container[str], span: Span, read_as: Callable[[Kind], Call]
) -> Call:
    """Read a span by the name of its kind, "" without one; `steps` are names of steps around others.

    A kind that a dialect does not know may be a model's call: with a model and an answer, its content is read as one's,
    and where it encloses no other call it is one.
    """
    kind = kinds.get(name)
    if kind is not None:
        return read_as(kind)
    if name not in steps:
        call = read_as("model")
        if call.model and call.input and call.output:
            return call._replace(kind="chain")
    return read_as("chain" if span.parent_span_id else "workflow")


_MERGED = tuple((index, name) for index, name in enumerate(Call._fields) if name not in {"dialect", "kind", "sources"})


def merge(calls: Sequence[Call]) -> Call:
    """Merge what several readers or spans report of one call: the first wins, and the others fill what it lacks.

    An output that is present beats a missing one, so a missing reason goes if another call has the content.
    """
    first = calls[0]
    if len(calls) == 1:
        return first
    changes: dict[str, Any] = {}
    sources = dict(first.sources)
    others = calls[1:]
    for index, name in _MERGED:
        if first[index] not in _NOTHING:
            continue
        for call in others:
            if call[index] not in _NOTHING:
                changes[name] = call[index]
                if name in call.sources:
                    sources[name] = call.sources[name]
                break
    for side in ("input", "output"):
        complete = [call for call in calls if getattr(call, side) and not getattr(call, f"{side}_incomplete")]
        if complete:
            filled = [call for call in complete if any(part.text or part.tool_calls for part in getattr(call, side))]
            best = (filled or complete)[0]
            best = _with_most_tool_calls(best, complete) if side == "input" else best
            changes[side] = _with_attachments(getattr(best, side), [getattr(call, side) for call in complete])
            changes[f"{side}_incomplete"] = None
            sources[side] = best.sources.get(side, "")
    kind = next((call.kind for call in calls if call.kind != "other"), first.kind)
    return first._replace(kind=kind, sources=sources, **changes)


def _with_most_tool_calls(best: Call, calls: Sequence[Call]) -> Call:
    """Prefer the same messages with their tool calls, which some libraries leave out of the input."""
    length, tool_count = len(best.input or ()), _count_tool_calls(best)
    richer = (other for other in calls if len(other.input or ()) == length and _count_tool_calls(other) > tool_count)
    return next(richer, best)


def _with_attachments(
    messages: tuple[ChatMessage, ...], others: Sequence[tuple[ChatMessage, ...]]
) -> tuple[ChatMessage, ...]:
    """The messages with the attachments that another reader has of the same ones, where these have none."""
    if any(message.attachments for message in messages):
        return messages
    for other in others:
        if len(other) == len(messages) and any(message.attachments for message in other):
            return tuple(one._replace(attachments=two.attachments) for one, two in zip(messages, other, strict=True))
    return messages


def _count_tool_calls(call: Call) -> int:
    return sum(len(message.tool_calls) for message in call.input or ())


_NOTHING: tuple[object, ...] = (None, (), {})
"""The value of a field on which a reader says nothing."""


def find_conflicts(calls: Sequence[Call]) -> Iterable[str]:
    """Yield the fields in which readers of one span contradict each other."""
    for name in ("kind", "model", "response_id", "usage", "output"):
        values = {
            repr(value) for call in calls if call.kind != "other" and (value := getattr(call, name)) not in _NOTHING
        }
        if len(values) > 1:
            yield name


_FINISH: dict[str, str] = {
    **dict.fromkeys(
        ("stop", "end_turn", "completed", "complete", "stop_sequence", "eos", "end", "length_stop"), "stop"
    ),
    **dict.fromkeys(
        ("tool_calls", "tool_call", "tool_use", "function_call", "tool-calls", "tool_execution", "tool"), "tool"
    ),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "incomplete", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "safety", "guardrail_intervened", "refusal", "content-filter"), "filter"),
    **dict.fromkeys(("error", "failed", "cancelled"), "error"),
}


def parse_finish_reason(value: Json) -> str | None:
    """Normalize a finish reason, alone or in a list; None for an unknown one."""
    if not isinstance(value, str):
        several = as_list(value)
        value = several[-1] if several else None
        if not isinstance(value, str):
            return None
    return _FINISH[value] if value in _FINISH else _FINISH.get(value.rpartition(".")[2].strip("\"'[] ").lower())


def as_messages(value: Sequence[ChatMessage] | None) -> tuple[ChatMessage, ...] | None:
    """The messages as a field of a call: None if there are none."""
    return tuple(value) if value else None
