"""The Vercel AI SDK up to generation 6, and the legacy integration of 7: attributes under `ai.`."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Said, finish_of, listed
from collector.dialects.decode import as_text, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages, system_and_rest, tool_calls
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, found_at, masked_hole, text_at, usage_at
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Incomplete, ToolCall

_OPERATION = "ai.operationId"
_LEAVES = (".doGenerate", ".doStream")
_ROOTS = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its operation: the root tells the user's exchange, the leaves are the model calls."""
    operation = text_at(span.attributes, _OPERATION)
    if operation is None:
        return None
    if operation == "ai.toolCall":
        return _tool(span)
    if operation in _ROOTS or operation.endswith(_LEAVES):
        is_model = operation.endswith(_LEAVES) and not operation.startswith("ai.embed")
        return _exchange(span, is_model=is_model)
    return Call(dialect="vercel_ai")


def _exchange(span: Span, *, is_model: bool) -> Call:
    attributes = span.attributes
    prompt, prompt_at = found_at(attributes, "ai.prompt.messages", "ai.prompt")
    heard = messages(prompt, "user")
    system, given = system_and_rest(heard.said)
    came, came_at = _answer(attributes)
    return Call(
        dialect="vercel_ai",
        kind="model" if is_model else "agent",
        system=system,
        input=listed(given),
        output=came,
        input_hole=heard.hole,
        output_hole=_hole(came),
        finish=finish_of(attributes.get("ai.response.finishReason") or attributes.get("ai.finishReason")),
        error=failure(span, answered=came is not None),
        model=text_at(attributes, "ai.response.model", "ai.model.id"),
        provider=text_at(attributes, "ai.model.provider"),
        response_id=text_at(attributes, "ai.response.id") if is_model else None,
        usage=usage_at(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS) if is_model else None,
        agent=text_at(attributes, "ai.telemetry.functionId"),
        found={field: key for field, key in (("input", prompt_at), ("output", came_at)) if key},
    )


_INPUT_TOKENS = ("ai.usage.inputTokens", "ai.usage.promptTokens")
_OUTPUT_TOKENS = ("ai.usage.outputTokens", "ai.usage.completionTokens")


def _answer(attributes: Attributes) -> tuple[tuple[Said, ...] | None, str]:
    """Text, object or tool calls; an empty text is left out altogether."""
    text, text_key = found_at(
        attributes, "ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"
    )
    raw, calls_key = found_at(attributes, "ai.response.toolCalls", "ai.result.toolCalls")
    calls = tool_calls(raw)
    if text is None and not calls:
        return None, ""
    return (Said("assistant", as_text(text), calls),), text_key or calls_key


def _hole(came: tuple[Said, ...] | None) -> Incomplete | None:
    return masked_hole(came[0].text) if came else None


def _tool(span: Span) -> Call:
    attributes = span.attributes
    given, given_at = found_at(attributes, "ai.toolCall.args", "ai.toolCall.input")
    came, came_at = found_at(attributes, "ai.toolCall.result", "ai.toolCall.output")
    call = ToolCall(
        id=text_at(attributes, "ai.toolCall.id"),
        name=text_at(attributes, "ai.toolCall.name") or span.name,
        arguments=arguments(given),
        result=json_value(came),
    )
    places = {field: key for field, key in (("arguments", given_at), ("result", came_at)) if key}
    return Call(dialect="vercel_ai", kind="tool", tool=call, found=places)


DIALECT = Dialect(
    name="vercel_ai",
    rank=230,
    read=read,
    evidence=(_OPERATION,),
    carries=Carries(
        libraries="Vercel AI SDK 3 to 6, and 7's legacy integration",
        messages="ai.prompt.messages, ai.response.text",
        tools="messages, tool spans",
        conversation="ai.telemetry.metadata.* (any name of a session, thread, conversation or chat id)",
        user="ai.telemetry.metadata.userId",
    ),
)
