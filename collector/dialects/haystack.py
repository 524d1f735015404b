"""Haystack: the inputs and outputs of components; what a component is, its type tells."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import as_dict, as_list, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import answer_in, question_in
from collector.dialects.messages import messages, system_and_rest
from collector.dialects.reading import failure, passages_in, text_at, texts_in, usage_of
from collector.span import LogRecord, Span
from evaluators.cases import Json

_TYPE = "haystack.component.type"
_INPUT = "haystack.component.input"
_OUTPUT = "haystack.component.output"
_AGENT_INPUT = "haystack.agent.input"
_AGENT_OUTPUT = "haystack.agent.output"
_ENDS: tuple[tuple[str, Kind], ...] = (
    ("Generator", "model"),
    ("Retriever", "retrieval"),
    ("Ranker", "aside"),
    ("Evaluator", "aside"),
    ("Embedder", "other"),
    ("Builder", "other"),
)


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the run of a component, an agent or a pipeline."""
    attributes = span.attributes
    if _AGENT_INPUT in attributes or _AGENT_OUTPUT in attributes or span.name == "haystack.agent.run":
        return _wrapper(span, "agent", _AGENT_INPUT, _AGENT_OUTPUT)
    name = text_at(attributes, _TYPE)
    if name is None:
        pipeline = "haystack.pipeline.input_data"
        return _wrapper(span, "workflow", pipeline, "haystack.pipeline.output_data") if pipeline in attributes else None
    kind = _kind(name)
    if kind == "model":
        return _model(span)
    given, came = as_dict(decoded(attributes.get(_INPUT))), decoded(attributes.get(_OUTPUT))
    return Call(
        dialect="haystack",
        kind=kind,
        passages=passages_in(came) if kind in {"retrieval", "aside"} else (),
        query=_text(given.get("query")) if kind == "retrieval" else None,
        variables=texts_in(given) if kind == "other" else {},
        found={"passages": _OUTPUT} if kind == "retrieval" else {},
    )


def _kind(name: str) -> Kind:
    for end, kind in _ENDS:
        if name.endswith(end):
            return kind
    return "chain"


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _model(span: Span) -> Call:
    attributes = span.attributes
    heard, answered = messages(attributes.get(_INPUT), "user"), messages(attributes.get(_OUTPUT), "assistant")
    system, given = system_and_rest(heard.said if heard.shaped else ())
    output = listed(answered.said) if answered.shaped else None
    came = as_dict(decoded(attributes.get(_OUTPUT)))
    reply = as_dict(next(iter(as_list(came.get("replies"))), None))
    beside = next(iter(as_list(came.get("meta"))), None)  # replies that are texts have it there
    meta = as_dict(reply.get("meta") or reply.get("_meta") or beside)
    return Call(
        dialect="haystack",
        kind="model",
        system=system,
        input=listed(given),
        output=output,
        input_hole=heard.hole,
        output_hole=answered.hole,
        error=failure(span, answered=output is not None),
        model=_text(meta.get("model")),
        usage=usage_of(meta.get("usage")),
        found={field: key for field, key in (("input", _INPUT), ("output", _OUTPUT)) if key in attributes},
    )


def _wrapper(span: Span, kind: Kind, given_at: str, came_at: str) -> Call:
    given, came = question_in(span.attributes.get(given_at)), answer_in(span.attributes.get(came_at))
    return Call(
        dialect="haystack",
        kind=kind,
        input=given.said,
        output=came.said,
        input_hole=given.hole,
        output_hole=came.hole,
        error=failure(span, answered=came.said is not None) if kind == "agent" else None,
        found={field: key for field, key in (("input", given_at), ("output", came_at)) if key in span.attributes},
    )


DIALECT = Dialect(
    name="haystack",
    rank=260,
    read=read,
    evidence=("haystack.*",),
    carries=Carries(
        libraries="Haystack 2",
        messages="inputs and outputs of generators",
        tools="messages",
        retrieval="retriever components",
        conversation="none (the application's root span)",
    ),
)
