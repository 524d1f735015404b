"""LiteLLM's attributes beside the conventions.

Its request span omits tool calls from the messages of the answer. They are in indexed attributes beside them, and in
the span of the raw request below, which has the provider's own request and response as Python reprs.
"""

from collections.abc import Iterable, Mapping, Sequence

from collector.dialects.attributes import find_error, find_text, parse_usage
from collector.dialects.call import Call, ChatMessage, Kind, as_messages
from collector.dialects.decode import decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.indexed_messages import COMPLETION, PROMPT, parse_indexed_messages
from collector.dialects.messages import parse_messages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Json


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the answer of a raw request, or the answer beside the messages of a request."""
    if span.name != "raw_gen_ai_request":
        return _read_request(span) if span.scope == "litellm" and "llm.request.type" in span.attributes else None
    fields = {key.rpartition(".")[2]: value for key, value in span.attributes.items() if key.count(".") == 2}
    output = _parse_output(fields)
    return Call(
        kind="model",
        input=_parse_input(fields),
        output=output,
        error=find_error(span, answered=output is not None),
        model=find_text(fields, "model"),
        response_id=find_text(fields, "id"),
        usage=parse_usage(decode(fields.get("usage"))),
        sources={"output": f"llm.*.{next(key for key in _ANSWERS if key in fields)}"} if output else {},
    )


_ANSWERS = ("choices", "content", "candidates", "output")
"""The answer's key in responses of OpenAI, Anthropic, Gemini, and Bedrock or the Responses API."""


def _parse_output(fields: Mapping[str, Json]) -> tuple[ChatMessage, ...] | None:
    for key in _ANSWERS:
        value = decode(fields.get(key))
        if isinstance(value, (list, dict)):
            return as_messages(
                parse_messages(
                    {key: value, "role": "assistant"} if key == "content" else {key: value}, "assistant"
                ).messages
            )
    return None


def _parse_input(fields: Mapping[str, Json]) -> tuple[ChatMessage, ...] | None:
    """Parse the request's messages if they have tool calls: the span above omits nothing else."""
    raw = fields.get("messages") or fields.get("contents")
    if not isinstance(raw, str) or not any(mark in raw for mark in _TOOL_MARKS):
        return None
    return as_messages(parse_messages(raw).messages)


_TOOL_MARKS = ("tool_calls", "tool_use", "functionCall", "function_call", "toolUse")


_MISNAMED_PROMPT = "SpanAttributes.LLM_PROMPTS."
_MISNAMED_COMPLETION = "SpanAttributes.LLM_COMPLETIONS."
"""Prefixes of releases up to 1.6x on Python 3.11 and newer, where an enumeration's name replaced its value."""


def _parse_indexed(attributes: Attributes, beginnings: Iterable[str], role: str) -> tuple[ChatMessage, ...] | None:
    return next(
        (messages for beginning in beginnings if (messages := parse_indexed_messages(attributes, beginning, role))),
        None,
    )


def _read_request(span: Span) -> Call:
    attributes = span.attributes
    output = _parse_indexed(attributes, (COMPLETION, _MISNAMED_COMPLETION), "assistant")
    kind: Kind = "other" if attributes["llm.request.type"] == "embedding" else "model"
    has_answer = output is not None or "gen_ai.output.messages" in attributes
    return Call(
        kind=kind,
        input=_parse_indexed(attributes, (PROMPT, _MISNAMED_PROMPT), "user"),
        output=output,
        error=find_error(span, answered=has_answer) if kind == "model" else None,
        sources={"output": f"{COMPLETION}*"} if output else {},
    )


DIALECT = Dialect(
    name="litellm",
    rank=235,
    read=read,
    evidence=("llm.request.type",),
    scopes=("litellm",),
    coverage=Coverage(
        libraries="LiteLLM SDK and proxy",
        messages="by the conventions, in several shapes",
        tools="messages, the raw request's span",
        conversation="gen_ai.conversation.id (proxy, from a header), requester_metadata",
        user="llm.user",
    ),
)
