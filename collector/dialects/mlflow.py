"""MLflow Tracing's spans: inputs and outputs, with every attribute a JSON document, texts too."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, parse_usage
from collector.dialects.call import Call, Kind, read_by_kind
from collector.dialects.decode import decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_content, parse_query
from collector.dialects.passages import parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import ToolCall

_TYPE = "mlflow.spanType"
_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("CHAT_MODEL", "LLM"), "model"),
    "AGENT": "agent",
    "WORKFLOW": "workflow",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    **dict.fromkeys(("RERANKER", "EVALUATOR", "GUARDRAIL"), "auxiliary"),
    **dict.fromkeys(("EMBEDDING", "PARSER", "MEMORY"), "other"),
}
_STEPS = frozenset({"CHAIN", "TASK", "UNKNOWN"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its MLflow type."""
    name = decode_json(span.attributes.get(_TYPE))
    if not isinstance(name, str) or not name:
        return None
    return read_by_kind(name.upper(), _KINDS, _STEPS, span, lambda kind: _read_as(kind, span))


def _read_as(kind: Kind, span: Span) -> Call:
    attributes = span.attributes
    input_value, output_value = decode_json(attributes.get(_INPUTS)), decode_json(attributes.get(_OUTPUTS))
    question, answer = parse_content(input_value, kind, "user"), parse_content(output_value, kind, "assistant")
    return Call(
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind in {"model", "agent"} else None,
        model=_find_json_text(attributes, "mlflow.llm.model") or _find_json_text(attributes, "model"),
        usage=parse_usage(attributes.get("mlflow.chat.tokenUsage")) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        tool=ToolCall(name=span.name.removeprefix("Tool."), arguments=input_value, result=decode(output_value))
        if kind == "tool"
        else None,
        passages=parse_passages(output_value) if kind == "retrieval" else (),
        query=parse_query(input_value) if kind == "retrieval" else None,
        sources=find_sources(attributes, input=_INPUTS, output=_OUTPUTS),
    )


def _find_json_text(attributes: Attributes, key: str) -> str | None:
    value = decode_json(attributes.get(key))
    return value if isinstance(value, str) and value else None


DIALECT = Dialect(
    name="mlflow",
    rank=220,
    read=read,
    evidence=(_TYPE, _INPUTS, _OUTPUTS),
    coverage=Coverage(
        libraries="MLflow Tracing and its autologging",
        messages="raw request and response",
        tools="messages, tool spans",
        retrieval="retriever spans",
        conversation="none over OTLP",
        user="none over OTLP",
    ),
)
