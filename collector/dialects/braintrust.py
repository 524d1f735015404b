"""Braintrust's spans: input, output and metadata as JSON."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, find_value, parse_passages, parse_usage
from collector.dialects.call import Call, Kind, read_by_kind
from collector.dialects.decode import as_dict, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_content
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
    arguments, result = decode_json(input_value), decode_json(output_value)
    question, answer = parse_content(arguments, kind, "user"), parse_content(result, kind, "assistant")
    metadata = as_dict(decode_json(span.attributes.get("braintrust.metadata")))
    return Call(
        dialect="braintrust",
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        model=find_text(metadata, "model"),
        tool=ToolCall(name=span.name, arguments=parse_arguments(arguments), result=decode(result))
        if kind == "tool"
        else None,
        passages=parse_passages(result) if kind == "retrieval" else (),
    )


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
