"""Langfuse's own observations, as its SDKs export them over OTLP."""

from collections.abc import Mapping, Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, find_value, parse_usage
from collector.dialects.call import Call, Kind, read_by_kind
from collector.dialects.decode import as_dict, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, exchanged, parse_content, parse_query
from collector.dialects.messages import parse_messages
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KINDS: dict[str, Kind] = {
    "generation": "model",
    "agent": "agent",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("evaluator", "guardrail"), "auxiliary"),
    **dict.fromkeys(("embedding", "event"), "other"),
}
_STEPS = frozenset({"", "span", "chain"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an observation. Texts are raw in the SDK's generation 5 and JSON in generation 3."""
    attributes = span.attributes
    input_value, input_key = find_value(attributes, "langfuse.observation.input", "langfuse.trace.input")
    output_value, output_key = find_value(attributes, "langfuse.observation.output", "langfuse.trace.output")
    name = find_text(attributes, "langfuse.observation.type")
    if name is None and input_value is None and output_value is None:
        return None
    sources = find_sources(attributes, input=input_key, output=output_key)
    values = _unquote(input_value), _unquote(output_value)
    call = read_by_kind((name or "").lower(), _KINDS, _STEPS, span, lambda kind: _read_as(kind, span, *values, sources))
    is_root = call.kind == "chain" and attributes.get("langfuse.internal.is_app_root") is True
    return call._replace(kind="workflow") if is_root else call


def _read_as(kind: Kind, span: Span, input_value: Json, output_value: Json, sources: Mapping[str, str]) -> Call:
    attributes = span.attributes
    answer = parse_content(output_value, kind, "assistant", plain=True)
    return Call(
        kind=kind,
        **exchanged(parse_content(input_value, kind, "user", plain=True), answer),
        error=_find_error(span, answer) if kind not in {"chain", "workflow"} else None,
        model=find_text(attributes, "langfuse.observation.model.name"),
        usage=parse_usage(attributes.get("langfuse.observation.usage_details")) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        tool=_parse_tool(span, input_value, output_value) if kind == "tool" else None,
        passages=parse_passages(output_value) if kind == "retrieval" else (),
        query=parse_query(input_value) if kind == "retrieval" else None,
        sources=sources,
    )


def _unquote(value: Json) -> Json:
    return decode_json(value) if isinstance(value, str) and value[:1] == value[-1:] == '"' else value


def _parse_tool(span: Span, input_value: Json, output_value: Json) -> ToolCall:
    result = decode(output_value)
    messages = parse_messages(result, "tool").messages if "lc" in as_dict(result) else ()  # LangChain's own message
    return ToolCall(
        id=messages[-1].tool_call_id if messages else None,
        name=span.name,
        arguments=parse_arguments(input_value),
        result=decode(messages[-1].text) if messages else result,
    )


def _find_error(span: Span, answer: Content) -> str | None:
    error = find_error(span, answered=answer.messages is not None)
    if error is None and span.attributes.get("langfuse.observation.level") == "ERROR":
        return find_text(span.attributes, "langfuse.observation.status_message") or "error"
    return error


DIALECT = Dialect(
    name="langfuse",
    rank=200,
    read=read,
    evidence=("langfuse.*",),
    coverage=Coverage(
        libraries="Langfuse SDK 3 to 5",
        messages="JSON of the request and response messages",
        tools="messages, tool observations",
        retrieval="retriever observations",
        conversation="session.id",
        user="user.id",
    ),
)
