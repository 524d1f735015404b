"""Braintrust: input, output and metadata of every span as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import as_dict, decoded, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, found_at, masked_hole, passages_in, text_at, usage_of
from collector.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KINDS: dict[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("score", "eval", "scorer"), "aside"),
}  # task, function: a step around others


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its Braintrust type; where it has none, what it measured tells a model call."""
    attributes = span.attributes
    given, given_at = found_at(attributes, "braintrust.input_json", "braintrust.input")
    came, came_at = found_at(attributes, "braintrust.output_json", "braintrust.output")
    about = as_dict(json_value(attributes.get("braintrust.span_attributes")))
    metadata = as_dict(json_value(attributes.get("braintrust.metadata")))
    usage = usage_of(attributes.get("braintrust.metrics"))
    if not (given_at or came_at or about):
        return None
    kind = _kind(span, text_at(about, "type"), is_model=usage is not None)
    asked, answered = _side(given, kind, "user"), _side(came, kind, "assistant")
    result = json_value(came)
    return Call(
        dialect="braintrust",
        kind=kind,
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=failure(span, answered=answered.said is not None) if kind == "model" else None,
        model=text_at(metadata, "model"),
        usage=usage if kind == "model" else None,
        tool=ToolCall(name=span.name, arguments=arguments(json_value(given)), result=decoded(result))
        if kind == "tool"
        else None,
        passages=passages_in(result) if kind == "retrieval" else (),
        found={field: key for field, key in (("input", given_at), ("output", came_at)) if key},
    )


def _kind(span: Span, name: str | None, *, is_model: bool) -> Kind:
    if name is not None and name in _KINDS:
        return _KINDS[name]
    if name is None and is_model:
        return "model"
    return "chain" if span.parent_span_id else "workflow"


def _side(value: Json, kind: Kind, role: str) -> Side:
    if value is None or kind in {"tool", "retrieval"}:
        return Side(None)
    inner = json_value(value)
    hole = masked_hole(inner)
    if hole:
        return Side(None, hole)
    if kind == "model":
        heard = messages(inner if not isinstance(inner, str) else value, role)
        if heard.shaped:
            return Side(listed(heard.said), heard.hole)
    return question_in(inner) if role == "user" else answer_in(inner)


DIALECT = Dialect(
    name="braintrust",
    rank=310,
    read=read,
    evidence=("braintrust.*",),
    carries=Carries(
        libraries="Braintrust SDK",
        messages="raw messages as JSON",
        tools="messages, tool spans",
        conversation="braintrust.metadata",
        user="braintrust.metadata",
    ),
)
