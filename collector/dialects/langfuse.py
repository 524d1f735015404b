"""Langfuse's own observations, as its SDKs export them over OTLP."""

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

_TYPE = "langfuse.observation.type"
_KINDS: dict[str, Kind] = {
    "generation": "model",
    "agent": "agent",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("evaluator", "guardrail"), "aside"),
    **dict.fromkeys(("embedding", "event"), "other"),
}  # span, chain: a step around others


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an observation. Texts are raw in the SDK's generation 5 and JSON in generation 3."""
    attributes = span.attributes
    given, given_at = found_at(attributes, "langfuse.observation.input", "langfuse.trace.input")
    came, came_at = found_at(attributes, "langfuse.observation.output", "langfuse.trace.output")
    name = text_at(attributes, _TYPE)
    if name is None and given is None and came is None:
        return None
    kind = _KINDS.get(name or "", "chain")
    if kind == "chain" and (attributes.get("langfuse.internal.is_app_root") is True or not span.parent_span_id):
        kind = "workflow"
    given, came = _unquoted(given), _unquoted(came)
    asked = _side(given, kind, "user")
    answered = _side(came, kind, "assistant")
    return Call(
        dialect="langfuse",
        kind=kind,
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=_error(span, answered) if kind not in {"chain", "workflow"} else None,
        model=text_at(attributes, "langfuse.observation.model.name"),
        usage=usage_of(attributes.get("langfuse.observation.usage_details")) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        tool=_tool(span, given, came) if kind == "tool" else None,
        passages=passages_in(came) if kind == "retrieval" else (),
        query=_query(given) if kind == "retrieval" else None,
        found={field: place for field, place in (("input", given_at), ("output", came_at)) if place},
    )


def _unquoted(value: Json) -> Json:
    if isinstance(value, str) and value[:1] == value[-1:] == '"':
        return json_value(value)
    return value


def _side(value: Json, kind: Kind, role: str) -> Side:
    if kind in {"tool", "retrieval"} or value is None:
        return Side(None)
    if kind == "model":
        heard = messages(value, role)
        return Side(None if masked_hole(value) else listed(heard.said), heard.hole or masked_hole(value))
    return question_in(value) if role == "user" else answer_in(value)


def _tool(span: Span, given: Json, came: Json) -> ToolCall:
    result = decoded(came)
    said = messages(result, "tool").said if "lc" in as_dict(result) else ()  # LangChain's own message
    return ToolCall(
        id=said[-1].call_id if said else None,
        name=span.name,
        arguments=arguments(given),
        result=decoded(said[-1].text) if said else result,
    )


def _query(given: Json) -> str | None:
    asked = question_in(given).said
    return asked[-1].text if asked else None


def _error(span: Span, answered: Side) -> str | None:
    error = failure(span, answered=answered.said is not None)
    if error is None and span.attributes.get("langfuse.observation.level") == "ERROR":
        return text_at(span.attributes, "langfuse.observation.status_message") or "error"
    return error


DIALECT = Dialect(
    name="langfuse",
    rank=200,
    read=read,
    evidence=("langfuse.*",),
    carries=Carries(
        libraries="Langfuse SDK 3 to 5",
        messages="JSON of the request and response messages",
        tools="messages, tool observations",
        retrieval="retriever observations",
        conversation="session.id",
        user="user.id",
    ),
)
