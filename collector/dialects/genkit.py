"""Genkit's spans (JavaScript, Go, Python): input and output of every action as JSON under `genkit:`."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, parse_usage
from collector.dialects.call import Call, Kind, as_messages, parse_finish_reason, read_by_kind
from collector.dialects.decode import as_dict, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_content, parse_query
from collector.dialects.messages import split_system_prompt
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import ToolCall

_TYPE = "genkit:type"
_SUBTYPE = "genkit:metadata:subtype"
_INPUT = "genkit:input"
_OUTPUT = "genkit:output"
_KINDS: dict[str, Kind] = {
    "model": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("reranker", "evaluator"), "auxiliary"),
    **dict.fromkeys(("embedder", "indexer", "prompt", "executable-prompt"), "other"),
}
_STEPS = frozenset({"", "flow", "flowStep", "util", "action", "custom"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an action by its subtype."""
    attributes = span.attributes
    if _TYPE not in attributes:
        return None
    return read_by_kind(find_text(attributes, _SUBTYPE) or "", _KINDS, _STEPS, span, lambda kind: _read_as(kind, span))


def _read_as(kind: Kind, span: Span) -> Call:
    attributes = span.attributes
    input_value, output_value = decode_json(attributes.get(_INPUT)), decode_json(attributes.get(_OUTPUT))
    question = parse_content(input_value, kind, "user", plain=True)
    answer = parse_content(output_value, kind, "assistant", plain=True)
    system, rest = split_system_prompt(question.messages or ())
    response = as_dict(output_value)
    name = find_text(attributes, "genkit:name") or span.name
    return Call(
        kind=kind,
        system=system,
        **exchanged(question._replace(messages=as_messages(rest)), answer),
        finish_reason=parse_finish_reason(response.get("finishReason")) if kind == "model" else None,
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        model=name if kind == "model" and "message" in response else None,
        usage=parse_usage(response.get("usage")) if kind == "model" else None,
        agent=find_text(attributes, "genkit:metadata:agentName"),
        tool=ToolCall(name=name, arguments=input_value, result=output_value) if kind == "tool" else None,
        passages=parse_passages(output_value) if kind == "retrieval" else (),
        query=parse_query(as_dict(input_value).get("query", input_value)) if kind == "retrieval" else None,
        sources=find_sources(attributes, input=_INPUT, output=_OUTPUT),
    )


DIALECT = Dialect(
    name="genkit",
    rank=280,
    read=read,
    evidence=(_TYPE,),
    coverage=Coverage(
        libraries="Genkit (JavaScript, Go, Python)",
        messages="genkit:input, genkit:output",
        tools="messages, tool actions",
        retrieval="retriever actions",
        conversation="none (the application's own)",
    ),
)
