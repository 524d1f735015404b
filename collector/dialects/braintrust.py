"""Braintrust's spans: input, output and metadata as JSON."""

import re
from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, find_value, parse_usage
from collector.dialects.call import Call, ChatMessage, Kind, read_by_kind
from collector.dialects.decode import as_dict, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_content
from collector.dialects.parts import JsonObject, make_tool_result, parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KINDS: dict[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("score", "eval", "scorer"), "auxiliary"),
}
_STEPS = frozenset({"", "task", "function"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its Braintrust type; without one, its counts tell: tokens a model call, documents a retrieval."""
    attributes = span.attributes
    input_value, input_key = find_value(attributes, "braintrust.input_json", "braintrust.input")
    output_value, output_key = find_value(attributes, "braintrust.output_json", "braintrust.output")
    span_attributes = _fields(span, "span_attributes")
    if not (input_key or output_key or span_attributes):
        return None
    metrics = _fields(span, "metrics")
    usage = parse_usage(metrics)
    sources = find_sources(attributes, input=input_key, output=output_key)

    def read_as(kind: Kind) -> Call:
        call = _read_as(kind, span, input_value, output_value)
        return call._replace(sources=sources, usage=usage if kind == "model" else None)

    untyped = "llm" if usage is not None else "retriever" if "documents_retrieved" in metrics else ""
    return read_by_kind(find_text(span_attributes, "type") or untyped, _KINDS, _STEPS, span, read_as)


def _fields(span: Span, name: str) -> JsonObject:
    return as_dict(decode(decode_json(span.attributes.get(f"braintrust.{name}"))))


def _read_as(kind: Kind, span: Span, input_value: Json, output_value: Json) -> Call:
    raw, result, is_tool = decode_json(input_value), decode_json(output_value), kind == "tool"
    question, answer = parse_content(raw, kind, "user"), parse_content(result, kind, "assistant")
    if kind == "model" and question.messages:
        question = question._replace(messages=tuple(map(_read_printed, question.messages)))
    return Call(
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        finish_reason=answer.messages[-1].finish_reason if kind == "model" and answer.messages else None,
        model=find_text(_fields(span, "metadata"), "model"),
        tool=ToolCall(name=span.name, arguments=parse_arguments(raw), result=decode(result)) if is_tool else None,
        passages=parse_passages(result) if kind == "retrieval" else (),
    )


_PRINTED = re.compile(r"\{([\w-]+) ([\w-]+) (.*)\}", re.DOTALL)


def _read_printed(message: ChatMessage) -> ChatMessage:
    """Read a message of langchaingo that has a part as Go prints it: a call, or the result of one."""
    printed = _PRINTED.fullmatch(message.text)
    if printed is None or message.tool_calls or message.tool_call_id:
        return message
    if message.role == "tool":
        return make_tool_result({"id": printed[1], "name": printed[2]}, printed[3])
    return message._replace(text="") if printed[3].startswith("0x") else message


DIALECT = Dialect(
    name="braintrust",
    rank=310,
    read=read,
    evidence=("braintrust.*",),
    coverage=Coverage(
        libraries="Braintrust SDKs (LangChain4j, langchaingo)",
        messages="raw messages as JSON",
        tools="messages, tool spans",
        conversation="braintrust.metadata",
        user="braintrust.metadata",
    ),
)
