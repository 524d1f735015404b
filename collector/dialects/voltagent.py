"""VoltAgent's spans: an agent's span has the user's question and the answer; the spans below it are model calls and
tools.
"""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, find_usage
from collector.dialects.call import Call, Kind, as_messages
from collector.dialects.decode import decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, parse_answer, parse_query, parse_question
from collector.dialects.messages import parse_messages, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import ToolCall

_STATE, _ENTITY, _TYPE = "agent.state", "entity.type", "span.type"
_KINDS: dict[str, Kind] = {
    "agent": "agent",
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("memory", "embedding", "vector"), "other"),
    **dict.fromkeys(("guardrail", "scorer", "summary"), "auxiliary"),
    **dict.fromkeys(("workflow", "workflow-step", "middleware"), "chain"),
}
_TITLE = "generateTitle"
"""An operation that names a conversation."""


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its `span.type`; an agent's span may lack it and has `agent.state` instead."""
    attributes = span.attributes
    if _ENTITY not in attributes or not (_TYPE in attributes or _STATE in attributes):
        return None
    kind = _KINDS.get(find_text(attributes, _TYPE) or "agent", "chain")
    if kind == "tool":
        return _read_tool(span, attributes)
    if kind == "retrieval":
        output = attributes.get("output")
        passages = parse_passages(output) or parse_passages([output])
        return Call(kind=kind, passages=passages, query=parse_query(attributes.get("input")))
    if kind == "model":
        return _read_model(span, attributes)
    question, answer = parse_question(attributes.get("input")), parse_answer(attributes.get("output"))
    call = _make_call(span, kind, question, answer)
    return call if kind == "agent" else call._replace(input=None, output=None, error=None)


def _read_model(span: Span, attributes: Attributes) -> Call:
    sides = (
        parse_messages(attributes.get("llm.messages"), "user"),
        parse_messages(attributes.get("output"), "assistant"),
    )
    question, answer = (Content(as_messages(side.messages), side.incomplete) for side in sides)
    kind: Kind = "auxiliary" if attributes.get("llm.operation") == _TITLE else "model"
    return _make_call(span, kind, question, answer)


def _make_call(span: Span, kind: Kind, question: Content, answer: Content) -> Call:
    attributes = span.attributes
    system, rest = split_system_prompt(question.messages or ())
    source = "input" if kind == "agent" else "llm.messages"
    return Call(
        kind=kind,
        system=find_text(attributes, "agent.instructions") or system,
        input=as_messages(rest),
        output=answer.messages,
        input_incomplete=question.incomplete or find_redaction(attributes.get(source)),
        output_incomplete=answer.incomplete or find_redaction(attributes.get("output")),
        error=find_error(span, answered=answer.messages is not None),
        model=find_text(attributes, "llm.model", "ai.model.name"),
        provider=find_text(attributes, "llm.provider", "ai.model.provider"),
        usage=find_usage(attributes, ("llm.usage.prompt_tokens",), ("llm.usage.completion_tokens",)),
        agent=find_text(attributes, "entity.name") if kind == "agent" else None,
        sources=find_sources(attributes, input=source, output="output"),
    )


def _read_tool(span: Span, attributes: Attributes) -> Call:
    call = ToolCall(
        id=find_text(attributes, "tool.call.id"),
        name=find_text(attributes, "tool.name") or span.name,
        arguments=parse_arguments(attributes.get("input")),
        result=decode(attributes.get("output")),
    )
    return Call(kind="tool", tool=call, sources=find_sources(attributes, arguments="input", result="output"))


DIALECT = Dialect(
    name="voltagent",
    rank=330,
    read=read,
    evidence=(_ENTITY,),
    coverage=Coverage(
        libraries="VoltAgent 1 and 2",
        messages="input and output of agents, llm.messages of model calls",
        tools="tool spans",
        retrieval="retriever spans",
        conversation="conversation.id",
        user="user.id",
    ),
)
