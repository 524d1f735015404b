"""The Vercel AI SDK up to generation 6, and 7's legacy integration: attributes under `ai.`."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, find_usage, find_value
from collector.dialects.call import Call, ChatMessage, parse_finish_reason
from collector.dialects.decode import decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages, parse_tool_calls, split_input
from collector.dialects.parts import parse_arguments
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import ToolCall
from evaluators.texts.exact_json import as_text

_OPERATION = "ai.operationId"
_LEAVES = (".doGenerate", ".doStream")
_ROOTS = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its operation: the root has the user's question and the answer, the leaves are model calls."""
    operation = find_text(span.attributes, _OPERATION)
    if operation is None:
        return None
    if operation == "ai.toolCall":
        return _read_tool(span)
    if operation in _ROOTS or operation.endswith(_LEAVES):
        return _read_call(span, is_model=operation.endswith(_LEAVES) and not operation.startswith("ai.embed"))
    call = _read_call(span, is_model=True)
    return call._replace(kind="chain") if call.input and call.output else Call()


def _read_call(span: Span, *, is_model: bool) -> Call:
    attributes = span.attributes
    prompt_value, prompt_key = find_value(attributes, "ai.prompt.messages", "ai.prompt")
    prompt = parse_messages(prompt_value, "user")
    output_messages, output_key = _parse_answer(attributes)
    return Call(
        kind="model" if is_model else "agent",
        **split_input(prompt.messages),
        output=output_messages,
        input_incomplete=prompt.incomplete,
        output_incomplete=find_redaction(output_messages[0].text) if output_messages else None,
        finish_reason=parse_finish_reason(
            attributes.get("ai.response.finishReason") or attributes.get("ai.finishReason")
        ),
        error=find_error(span, answered=output_messages is not None),
        model=find_text(attributes, "ai.response.model", "ai.model.id"),
        provider=find_text(attributes, "ai.model.provider"),
        response_id=find_text(attributes, "ai.response.id") if is_model else None,
        usage=find_usage(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS) if is_model else None,
        agent=find_text(attributes, "ai.telemetry.functionId"),
        sources=find_sources(attributes, input=prompt_key, output=output_key),
    )


_INPUT_TOKENS = ("ai.usage.inputTokens", "ai.usage.promptTokens")
_OUTPUT_TOKENS = ("ai.usage.outputTokens", "ai.usage.completionTokens")


def _parse_answer(attributes: Attributes) -> tuple[tuple[ChatMessage, ...] | None, str]:
    """Parse text, object or tool calls; the SDK omits an empty text."""
    text, key = find_value(attributes, "ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object")
    raw, calls_key = find_value(attributes, "ai.response.toolCalls", "ai.result.toolCalls")
    calls = parse_tool_calls(raw)
    if text is None and not calls:
        return None, ""
    return (ChatMessage("assistant", as_text(text), calls),), key or calls_key


def _read_tool(span: Span) -> Call:
    attributes = span.attributes
    input_value, input_key = find_value(attributes, "ai.toolCall.args", "ai.toolCall.input")
    output_value, output_key = find_value(attributes, "ai.toolCall.result", "ai.toolCall.output")
    call = ToolCall(
        id=find_text(attributes, "ai.toolCall.id"),
        name=find_text(attributes, "ai.toolCall.name") or span.name,
        arguments=parse_arguments(input_value),
        result=decode_json(output_value),
    )
    sources = find_sources(attributes, arguments=input_key, result=output_key)
    return Call(kind="tool", tool=call, sources=sources)


DIALECT = Dialect(
    name="vercel_ai",
    rank=230,
    read=read,
    evidence=(_OPERATION,),
    coverage=Coverage(
        libraries="Vercel AI SDK 3 to 6, and 7's legacy integration",
        messages="ai.prompt.messages, ai.response.text",
        tools="messages, tool spans",
        conversation="ai.telemetry.metadata.* (any name of a session, thread, conversation or chat id)",
        user="ai.telemetry.metadata.userId",
    ),
)
