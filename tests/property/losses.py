"""What senders lose on the way: texts cut by a limit on their length, attributes and events beyond a limit on their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.collect_trace import TracePiece
from evaluators.cases import Turn

PARTS = ("system_prompt", "history", "retrieval_context", "tools_called")
"""The parts of a turn beside question and answer; one that was cut is named in `truncated_fields`."""

Loss = Callable[[Any], None]
"""Takes something away from a span or log record."""


def after(loss: Loss, pieces: Iterable[TracePiece]) -> list[TracePiece]:
    """The pieces of a trace as they come where each item lost something."""
    result: list[TracePiece] = []
    for piece in pieces:
        request = (ExportTraceServiceRequest if piece.signal == "traces" else ExportLogsServiceRequest).FromString(
            piece.value
        )
        for item in _items(request):
            loss(item)
        result.append(piece._replace(value=request.SerializeToString()))
    return result


def _items(request: Any) -> Iterator[Any]:
    for resource in getattr(request, "resource_spans", None) or getattr(request, "resource_logs", ()):
        for scope in getattr(resource, "scope_spans", None) or getattr(resource, "scope_logs", ()):
            yield from getattr(scope, "spans", None) or getattr(scope, "log_records", ())


def cut_to(limit: int) -> Loss:
    """Every text of every attribute, as SDKs cut it: at a number of characters, without a mark."""

    def cut(value: Any) -> None:
        if value.HasField("string_value"):
            value.string_value = value.string_value[:limit]
        for member in value.array_value.values if value.HasField("array_value") else ():
            cut(member)
        for member in value.kvlist_value.values if value.HasField("kvlist_value") else ():
            cut(member.value)

    def loss(item: Any) -> None:
        for owner in (item, *getattr(item, "events", ())):
            for attribute in owner.attributes:
                cut(attribute.value)

    return loss


def keep_first(number: int) -> Loss:
    """The attributes that were set first, as most SDKs keep them."""

    def loss(item: Any) -> None:
        if len(item.attributes) > number:
            item.dropped_attributes_count += len(item.attributes) - number
            del item.attributes[number:]

    return loss


def keep_last(number: int) -> Loss:
    """The attributes that were set last, as Python's SDK keeps them."""

    def loss(item: Any) -> None:
        if len(item.attributes) > number:
            item.dropped_attributes_count += len(item.attributes) - number
            del item.attributes[: len(item.attributes) - number]

    return loss


def without_each(beginning: int, step: int) -> Loss:
    """Without some attributes anywhere between the others."""

    def loss(item: Any) -> None:
        for index in reversed(range(beginning, len(item.attributes), step)):
            del item.attributes[index]
            item.dropped_attributes_count += 1

    return loss


def keep_events(first: int | None, last: int | None) -> Loss:
    """Some of a span's events: the first of them or the last."""

    def loss(item: Any) -> None:
        events = list(getattr(item, "events", ()))
        kept = events[:first] if first is not None else events[len(events) - (last or 0) :]
        if len(kept) < len(events):
            item.dropped_events_count += len(events) - len(kept)
            del item.events[:]
            item.events.extend(kept)

    return loss


def even(text: str | None) -> str:
    return " ".join((text or "").split())


def _said(turn: Turn) -> tuple[str | None, str, str]:
    return turn.trace_id, even(turn.input), even(turn.actual_output)


def _is_judged(turn: Turn) -> bool:
    return turn.incomplete is None and turn.error is None


def wrong_texts(whole: Sequence[Turn], lossy: Sequence[Turn], limit: int = 0) -> list[str]:
    """Every text of the turns after a loss that is neither the one before nor marked as incomplete.

    With a `limit` that nobody would choose, a text that was cut to it by itself cannot be told from a whole one.
    """
    before = {_said(turn): turn for turn in whole if turn.actual_output is not None}
    found: list[str] = []
    for turn in lossy:
        if not _is_judged(turn):
            continue
        same = before.get(_said(turn))
        if same is None:
            if limit and (len(turn.input or "") == limit or any(_is_beginning(turn, other) for other in whole)):
                continue
            found.append(f"judged {turn.input!r} -> {turn.actual_output!r} of {turn.dialect}")
            continue
        marked = str(turn.attributes.get("truncated_fields", "")).split(",")
        for name in PARTS if same.turn_id else ():
            value, before_it = _value(turn, name), _value(same, name)
            if name not in marked and value not in (before_it, None, ()) and not (limit and _has(value, limit)):
                found.append(f"{name} of {turn.input!r} ({turn.dialect}): {value!r} for {before_it!r}")
    return found


def _value(turn: Turn, name: str) -> object:
    value = getattr(turn, name)
    if name == "tools_called":
        return tuple((call.name, call.arguments, call.result) for call in value)
    if name == "history":
        return tuple((message.role, message.content, message.tool_calls) for message in value)
    return value


def _is_beginning(turn: Turn, other: Turn) -> bool:
    sides = ((turn.input, other.input), (turn.actual_output, other.actual_output))
    return turn.trace_id == other.trace_id and all(even(long).startswith(even(short)) for short, long in sides)


def _has(value: object, length: int) -> bool:
    """Whether a text in it has this length."""
    if isinstance(value, str):
        return len(value) == length
    return isinstance(value, tuple) and any(_has(member, length) for member in value)
