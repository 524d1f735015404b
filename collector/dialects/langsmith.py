"""LangSmith's OTel export: the raw request and response of every run."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import as_dict, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, masked_hole, passages_in, text_at, texts_in, usage_of
from collector.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KIND = "langsmith.span.kind"
_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"
_KINDS: dict[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("embedding", "prompt", "parser"), "other"),
}  # chain, and whatever else: a step around others


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a run. A failed one may have status OK: then only its exception event and the missing output tell."""
    attributes = span.attributes
    name = text_at(attributes, _KIND)
    if name is None:
        return None
    kind = _KINDS.get(name, "chain")
    if kind == "chain" and not span.parent_span_id:
        kind = "workflow"
    given, came = attributes.get(_PROMPT), attributes.get(_COMPLETION)
    asked, answered = _side(given, kind, "user"), _side(came, kind, "assistant")
    return Call(
        dialect="langsmith",
        kind=kind,
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=failure(span, answered=answered.said is not None) if kind == "model" else None,
        model=text_at(attributes, "gen_ai.response.model", "gen_ai.request.model", "langsmith.metadata.ls_model_name"),
        usage=usage_of(attributes.get("langsmith.metadata.usage_metadata")) if kind == "model" else None,
        tool=_tool(span, given, came) if kind == "tool" else None,
        passages=passages_in(came) if kind == "retrieval" else (),
        query=_query(given) if kind == "retrieval" else None,
        variables=texts_in(given) if name == "prompt" else {},
        found={field: key for field, key in (("input", _PROMPT), ("output", _COMPLETION)) if key in attributes},
    )


def _side(value: Json, kind: Kind, role: str) -> Side:
    if value is None or kind in {"tool", "retrieval", "other"}:
        return Side(None)
    if kind != "model":
        return question_in(value) if role == "user" else answer_in(value)
    hole = masked_hole(value)
    if hole:
        return Side(None, hole)
    heard = messages(value, role)
    if heard.shaped:
        return Side(listed(heard.said), heard.hole)
    return question_in(value) if role == "user" else answer_in(value)


def _tool(span: Span, given: Json, came: Json) -> ToolCall:
    asked = decoded(given)
    if as_dict(asked).keys() == {"input"}:  # LangChain: the arguments' repr
        asked = as_dict(asked)["input"]
    result = as_dict(decoded(came)).get("output", decoded(came))
    said = messages(result, "tool").said if "lc" in as_dict(result) else ()
    return ToolCall(
        id=said[-1].call_id if said else None,
        name=text_at(span.attributes, "gen_ai.tool.name", "langsmith.trace.name") or span.name,
        arguments=arguments(asked),
        result=decoded(said[-1].text if said else result),
    )


def _query(given: Json) -> str | None:
    asked = question_in(given).said
    return asked[-1].text if asked else None


DIALECT = Dialect(
    name="langsmith",
    rank=210,
    read=read,
    evidence=(_KIND,),
    carries=Carries(
        libraries="LangSmith SDK's OTel export (LangChain, wrapped OpenAI, traceable functions)",
        messages="raw request and response",
        tools="messages, tool runs",
        retrieval="retriever runs, templates' variables",
        conversation="langsmith.metadata.session_id, .thread_id, .conversation_id",
        user="langsmith.metadata.user_id",
    ),
)
