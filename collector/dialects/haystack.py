"""Haystack's spans: inputs and outputs of components, whose type gives the kind."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, parse_texts, parse_usage
from collector.dialects.call import Call, Kind, as_messages
from collector.dialects.decode import as_dict, as_list, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_answer, parse_question
from collector.dialects.messages import parse_messages, split_input
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span

_INPUT = "haystack.component.input"
_OUTPUT = "haystack.component.output"
_AGENT_INPUT = "haystack.agent.input"
_AGENT_OUTPUT = "haystack.agent.output"
_KIND_BY_SUFFIX: tuple[tuple[str, Kind], ...] = (
    ("Generator", "model"),
    ("Retriever", "retrieval"),
    ("Ranker", "auxiliary"),
    ("Evaluator", "auxiliary"),
    ("Embedder", "other"),
    ("Builder", "other"),
)


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the run of a component, an agent or a pipeline."""
    attributes = span.attributes
    if _AGENT_INPUT in attributes or _AGENT_OUTPUT in attributes or span.name == "haystack.agent.run":
        return _read_enclosing(span, "agent", _AGENT_INPUT, _AGENT_OUTPUT)
    name = find_text(attributes, "haystack.component.type")
    if name is None:
        if "haystack.pipeline.input_data" not in attributes:
            return None
        return _read_enclosing(span, "workflow", "haystack.pipeline.input_data", "haystack.pipeline.output_data")
    known: Kind | None = next((kind for end, kind in _KIND_BY_SUFFIX if name.endswith(end)), None)
    kind = known or "chain"
    if kind == "model":
        return _read_model(span)
    input_fields, output_value = as_dict(decode(attributes.get(_INPUT))), decode(attributes.get(_OUTPUT))
    return Call(
        kind=kind,
        passages=parse_passages(output_value) if kind in {"retrieval", "auxiliary"} else (),
        query=find_text(input_fields, "query") if kind == "retrieval" else None,
        variables=parse_texts(input_fields) if kind == "other" else {},
        sources={"passages": _OUTPUT} if kind == "retrieval" else {},
    )


def _read_model(span: Span) -> Call:
    attributes = span.attributes
    prompt = parse_messages(attributes.get(_INPUT), "user")
    answer = parse_messages(attributes.get(_OUTPUT), "assistant")
    output_messages = as_messages(answer.messages) if answer.is_structured else None
    output_fields = as_dict(decode(attributes.get(_OUTPUT)))
    reply = as_dict(next(iter(as_list(output_fields.get("replies"))), None))
    separate_meta = next(iter(as_list(output_fields.get("meta"))), None)  # where it is if replies are texts
    meta = as_dict(reply.get("meta") or reply.get("_meta") or separate_meta)
    return Call(
        kind="model",
        **split_input(prompt.messages if prompt.is_structured else ()),
        output=output_messages,
        input_incomplete=prompt.incomplete,
        output_incomplete=answer.incomplete,
        error=find_error(span, answered=output_messages is not None),
        model=find_text(meta, "model"),
        usage=parse_usage(meta.get("usage")),
        sources=find_sources(attributes, input=_INPUT, output=_OUTPUT),
    )


def _read_enclosing(span: Span, kind: Kind, input_key: str, output_key: str) -> Call:
    question, answer = parse_question(span.attributes.get(input_key)), parse_answer(span.attributes.get(output_key))
    return Call(
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "agent" else None,
        sources=find_sources(span.attributes, input=input_key, output=output_key),
    )


DIALECT = Dialect(
    name="haystack",
    rank=260,
    read=read,
    evidence=("haystack.*",),
    coverage=Coverage(
        libraries="Haystack 2",
        messages="inputs and outputs of generators",
        tools="messages",
        retrieval="retriever components",
        conversation="none (the application's root span)",
    ),
)
