"""Strands Agents before 0.2: whole conversations under `gen_ai.prompt` and `gen_ai.completion`, the kind in the name.

Later versions follow the conventions and are read by `otel_genai`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages
from collector.dialects.parts import answer, arguments
from collector.dialects.reading import failure, masked_hole, text_at, usage_at
from collector.span import LogRecord, Span
from evaluators.cases import ToolCall

_STARTED = "gen_ai.event.start_time"
"""What every span of this generation has, and no other library's."""

_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an agent, a cycle of its loop, a model call or a tool."""
    attributes = span.attributes
    if _STARTED not in attributes or not (_PROMPT in attributes or _COMPLETION in attributes):
        return None
    if "tool.name" in attributes:
        return _tool(span)
    kind = _kind(span)
    given, came = attributes.get(_PROMPT), attributes.get(_COMPLETION)
    heard, answered = messages(given, "user"), messages(came, "assistant")
    return Call(
        dialect="strands",
        kind=kind,
        system=text_at(attributes, "system_prompt"),
        input=listed(heard.said),
        output=listed(answered.said),
        input_hole=heard.hole or masked_hole(given),
        output_hole=answered.hole or masked_hole(came),
        error=failure(span, answered=bool(answered.said)) if kind != "chain" else None,
        model=text_at(attributes, "gen_ai.request.model"),
        usage=usage_at(attributes, ("gen_ai.usage.prompt_tokens",), ("gen_ai.usage.completion_tokens",))
        if kind == "model"
        else None,
        agent=text_at(attributes, "gen_ai.agent.name"),
        found={field: key for field, key in (("input", _PROMPT), ("output", _COMPLETION)) if key in attributes},
    )


def _kind(span: Span) -> Kind:
    if "event_loop.cycle_id" in span.attributes:
        return "chain"
    return "model" if span.name == "Model invoke" else "agent"


def _tool(span: Span) -> Call:
    attributes = span.attributes
    call = ToolCall(
        id=text_at(attributes, "tool.id"),
        name=text_at(attributes, "tool.name") or span.name,
        arguments=arguments(attributes.get("tool.parameters")),
        result=answer({}, decoded(attributes.get("tool.result"))).result,
    )
    return Call(
        dialect="strands", kind="tool", tool=call, found={"arguments": "tool.parameters", "result": "tool.result"}
    )


DIALECT = Dialect(
    name="strands",
    rank=290,
    read=read,
    evidence=(_STARTED,),
    carries=Carries(
        libraries="Strands Agents 0.1",
        messages="gen_ai.prompt, gen_ai.completion",
        tools="messages, tool spans",
        conversation="session.id",
        user="user.id",
    ),
)
