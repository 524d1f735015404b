"""Genkit (JavaScript, Go, Python): what every action was given and gave back, as JSON under `genkit:`."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, finish_of, listed
from collector.dialects.decode import as_dict, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages, system_and_rest
from collector.dialects.reading import failure, masked_hole, passages_in, text_at, usage_of
from collector.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_TYPE = "genkit:type"
_SUBTYPE = "genkit:metadata:subtype"
_INPUT = "genkit:input"
_OUTPUT = "genkit:output"
_KINDS: dict[str, Kind] = {
    "model": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("reranker", "evaluator"), "aside"),
    **dict.fromkeys(("embedder", "indexer", "prompt", "executable-prompt"), "other"),
}  # flow, util, and whatever else: a step around others


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an action by its subtype."""
    attributes = span.attributes
    if _TYPE not in attributes:
        return None
    kind = _KINDS.get(text_at(attributes, _SUBTYPE) or "", "chain")
    if kind == "chain" and not span.parent_span_id:
        kind = "workflow"
    given, came = json_value(attributes.get(_INPUT)), json_value(attributes.get(_OUTPUT))
    asked, answered = _side(given, kind, "user"), _side(came, kind, "assistant")
    system, rest = system_and_rest(asked.said or ())
    held = as_dict(came)
    name = text_at(attributes, "genkit:name") or span.name
    return Call(
        dialect="genkit",
        kind=kind,
        system=system,
        input=listed(rest),
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        finish=finish_of(held.get("finishReason")) if kind == "model" else None,
        error=failure(span, answered=answered.said is not None) if kind == "model" else None,
        model=name if kind == "model" else None,
        usage=usage_of(held.get("usage")) if kind == "model" else None,
        agent=text_at(attributes, "genkit:metadata:agentName"),
        tool=ToolCall(name=name, arguments=given, result=came) if kind == "tool" else None,
        passages=passages_in(came) if kind == "retrieval" else (),
        query=_query(given) if kind == "retrieval" else None,
        found={field: key for field, key in (("input", _INPUT), ("output", _OUTPUT)) if key in attributes},
    )


def _side(value: Json, kind: Kind, role: str) -> Side:
    if value is None or kind in {"tool", "retrieval", "other"}:
        return Side(None)
    hole = masked_hole(value)
    if hole:
        return Side(None, hole)
    if kind == "model":
        heard = messages(value, role)
        return Side(listed(heard.said), heard.hole)
    return question_in(value) if role == "user" else answer_in(value)


def _query(given: Json) -> str | None:
    asked = question_in(as_dict(given).get("query", given)).said
    return asked[-1].text if asked else None


DIALECT = Dialect(
    name="genkit",
    rank=280,
    read=read,
    evidence=(_TYPE,),
    carries=Carries(
        libraries="Genkit (JavaScript, Go, Python)",
        messages="genkit:input, genkit:output",
        tools="messages, tool actions",
        retrieval="retriever actions",
        conversation="none (the application's own)",
    ),
)
