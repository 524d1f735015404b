"""MLflow Tracing: inputs and outputs of every span, and every attribute a JSON document, texts too."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import decoded, document, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages
from collector.dialects.reading import failure, masked_hole, passages_in, usage_of
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_TYPE = "mlflow.spanType"
_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("CHAT_MODEL", "LLM"), "model"),
    "AGENT": "agent",
    "WORKFLOW": "workflow",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    **dict.fromkeys(("RERANKER", "EVALUATOR", "GUARDRAIL"), "aside"),
    **dict.fromkeys(("EMBEDDING", "PARSER", "MEMORY"), "other"),
}  # CHAIN, TASK, UNKNOWN: a step around others


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its MLflow type."""
    attributes = span.attributes
    name = json_value(attributes.get(_TYPE))
    if not isinstance(name, str) or not name:
        return None
    kind = _KINDS.get(name.upper(), "chain")
    if kind == "chain" and not span.parent_span_id:
        kind = "workflow"
    asked, answered = _side(attributes.get(_INPUTS), kind, "user"), _side(attributes.get(_OUTPUTS), kind, "assistant")
    given, came = json_value(attributes.get(_INPUTS)), json_value(attributes.get(_OUTPUTS))
    return Call(
        dialect="mlflow",
        kind=kind,
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=failure(span, answered=answered.said is not None) if kind in {"model", "agent"} else None,
        model=_text(attributes, "mlflow.llm.model") or _text(attributes, "model"),
        usage=usage_of(attributes.get("mlflow.chat.tokenUsage")) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        tool=ToolCall(name=span.name, arguments=given, result=decoded(came)) if kind == "tool" else None,
        passages=passages_in(came) if kind == "retrieval" else (),
        query=_query(given) if kind == "retrieval" else None,
        found={field: key for field, key in (("input", _INPUTS), ("output", _OUTPUTS)) if key in attributes},
    )


def _text(attributes: Attributes, key: str) -> str | None:
    value = json_value(attributes.get(key))
    return value if isinstance(value, str) and value else None


def _side(value: Json, kind: Kind, role: str) -> Side:
    if value is None or kind in {"tool", "retrieval", "other"}:
        return Side(None)
    inner = json_value(value)
    hole = masked_hole(inner)
    if hole:
        return Side(None, hole)
    found = document(value) if isinstance(value, str) else None
    if found is not None and not found.whole:
        return Side(listed(messages(found.value, role).said), "truncated")
    heard = messages(inner, role) if kind == "model" else None
    if heard is not None and heard.shaped:
        return Side(listed(heard.said), heard.hole)
    return question_in(inner) if role == "user" else answer_in(inner)


def _query(given: Json) -> str | None:
    asked = question_in(given).said
    return asked[-1].text if asked else None


DIALECT = Dialect(
    name="mlflow",
    rank=220,
    read=read,
    evidence=(_TYPE, _INPUTS, _OUTPUTS),
    carries=Carries(
        libraries="MLflow Tracing and its autologging",
        messages="raw request and response",
        tools="messages, tool spans",
        retrieval="retriever spans",
        conversation="none over OTLP",
        user="none over OTLP",
    ),
)
