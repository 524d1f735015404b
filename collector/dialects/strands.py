"""Strands Agents before 0.2: whole conversations under `gen_ai.prompt` and `gen_ai.completion`, kinds in span names.

Later versions follow the conventions and are read by `otel_genai`.
"""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, find_usage
from collector.dialects.call import Call, Kind, as_messages
from collector.dialects.decode import decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages
from collector.dialects.parts import make_tool_result, parse_arguments
from collector.otlp.span import LogRecord, Span
from evaluators.cases import ToolCall

_STARTED = "gen_ai.event.start_time"
"""An attribute of every span of this generation, and of no other library's."""

_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an agent, a cycle of its loop, a model call or a tool."""
    attributes = span.attributes
    if _STARTED not in attributes or not (_PROMPT in attributes or _COMPLETION in attributes):
        return None
    if "tool.name" in attributes:
        return _read_tool(span)
    kind = _find_kind(span)
    input_value, output_value = attributes.get(_PROMPT), attributes.get(_COMPLETION)
    prompt, answer = parse_messages(input_value, "user"), parse_messages(output_value, "assistant")
    return Call(
        kind=kind,
        system=find_text(attributes, "system_prompt"),
        input=as_messages(prompt.messages),
        output=as_messages(answer.messages),
        input_incomplete=prompt.incomplete or find_redaction(input_value),
        output_incomplete=answer.incomplete or find_redaction(output_value),
        error=find_error(span, answered=bool(answer.messages)) if kind != "chain" else None,
        model=find_text(attributes, "gen_ai.request.model"),
        usage=find_usage(attributes, ("gen_ai.usage.prompt_tokens",), ("gen_ai.usage.completion_tokens",))
        if kind == "model"
        else None,
        agent=find_text(attributes, "gen_ai.agent.name"),
        sources=find_sources(attributes, input=_PROMPT, output=_COMPLETION),
    )


def _find_kind(span: Span) -> Kind:
    if "event_loop.cycle_id" in span.attributes:
        return "chain"
    return "model" if span.name == "Model invoke" else "agent"


def _read_tool(span: Span) -> Call:
    attributes = span.attributes
    call = ToolCall(
        id=find_text(attributes, "tool.id"),
        name=find_text(attributes, "tool.name") or span.name,
        arguments=parse_arguments(attributes.get("tool.parameters")),
        result=make_tool_result({}, decode(attributes.get("tool.result"))).result,
    )
    return Call(kind="tool", tool=call, sources={"arguments": "tool.parameters", "result": "tool.result"})


DIALECT = Dialect(
    name="strands",
    rank=290,
    read=read,
    evidence=(_STARTED,),
    coverage=Coverage(
        libraries="Strands Agents 0.1",
        messages="gen_ai.prompt, gen_ai.completion",
        tools="messages, tool spans",
        conversation="session.id",
        user="user.id",
    ),
)
