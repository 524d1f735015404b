"""Braintrust's spans: input, output and metadata as JSON."""

from collections.abc import Sequence

from collector.dialects.attributes import (
    find_error,
    find_redaction,
    find_sources,
    find_text,
    find_value,
    parse_passages,
    parse_usage,
)
from collector.dialects.call import Call, Kind, as_messages, read_by_kind
from collector.dialects.decode import as_dict, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, parse_answer, parse_question
from collector.dialects.messages import parse_messages
from collector.dialects.parts import parse_arguments
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KINDS: dict[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("score", "eval", "scorer"), "auxiliary"),
}
_STEPS = frozenset({None, "task", "function"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its Braintrust type; without one, token counts identify a model call."""
    attributes = span.attributes
    input_value, input_key = find_value(attributes, "braintrust.input_json", "braintrust.input")
    output_value, output_key = find_value(attributes, "braintrust.output_json", "braintrust.output")
    span_attributes = as_dict(decode_json(attributes.get("braintrust.span_attributes")))
    if not (input_key or output_key or span_attributes):
        return None
    usage = parse_usage(attributes.get("braintrust.metrics"))
    sources = find_sources(attributes, input=input_key, output=output_key)

    def read_as(kind: Kind) -> Call:
        call = _read_as(kind, span, input_value, output_value)
        return call._replace(sources=sources, usage=usage if kind == "model" else None)

    name = find_text(span_attributes, "type") or ("llm" if usage is not None else None)
    return read_by_kind(name, _KINDS, _STEPS, span, read_as)


def _read_as(kind: Kind, span: Span, input_value: Json, output_value: Json) -> Call:
    question, answer = _parse_content(input_value, kind, "user"), _parse_content(output_value, kind, "assistant")
    metadata = as_dict(decode_json(span.attributes.get("braintrust.metadata")))
    result = decode_json(output_value)
    return Call(
        dialect="braintrust",
        kind=kind,
        input=question.messages,
        output=answer.messages,
        input_incomplete=question.incomplete,
        output_incomplete=answer.incomplete,
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        model=find_text(metadata, "model"),
        tool=ToolCall(name=span.name, arguments=parse_arguments(decode_json(input_value)), result=decode(result))
        if kind == "tool"
        else None,
        passages=parse_passages(result) if kind == "retrieval" else (),
    )


def _parse_content(value: Json, kind: Kind, role: str) -> Content:
    if value is None or kind in {"tool", "retrieval"}:
        return Content(None)
    inner = decode_json(value)
    redaction = find_redaction(inner)
    if redaction:
        return Content(None, redaction)
    if kind == "model":
        transcript = parse_messages(inner if not isinstance(inner, str) else value, role)
        if transcript.is_structured:
            return Content(as_messages(transcript.messages), transcript.incomplete)
    return parse_question(inner) if role == "user" else parse_answer(inner)


DIALECT = Dialect(
    name="braintrust",
    rank=310,
    read=read,
    evidence=("braintrust.*",),
    coverage=Coverage(
        libraries="Braintrust SDK",
        messages="raw messages as JSON",
        tools="messages, tool spans",
        conversation="braintrust.metadata",
        user="braintrust.metadata",
    ),
)
