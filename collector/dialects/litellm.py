"""LiteLLM: what it writes beside the conventions.

Its request span leaves a tool call out of the messages of its answer: that is in indexed attributes beside them, and in
the span of the raw request below it, which has the provider's own words as Python reprs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collector.dialects.call import Call, Kind, Said, listed
from collector.dialects.decode import decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.indexed_messages import COMPLETION, PROMPT, indexed_messages
from collector.dialects.messages import messages
from collector.dialects.reading import failure, text_at, usage_of
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Json

_NAME = "raw_gen_ai_request"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the answer of a raw request, or the answer beside the messages of a request."""
    if span.name != _NAME:
        return _request(span) if span.scope == "litellm" and "llm.request.type" in span.attributes else None
    fields = {key.rpartition(".")[2]: value for key, value in span.attributes.items() if key.count(".") == 2}
    output = _answer(fields)
    return Call(
        dialect="litellm",
        kind="model",
        input=_given(fields),
        output=output,
        error=failure(span, answered=output is not None),
        model=text_at(fields, "model"),
        response_id=text_at(fields, "id"),
        usage=usage_of(decoded(fields.get("usage"))),
        found={"output": f"llm.*.{next(key for key in _ANSWERS if key in fields)}"} if output else {},
    )


_ANSWERS = ("choices", "content", "candidates", "output")
"""Where OpenAI, Anthropic, Gemini and Bedrock or the Responses API answer."""


def _answer(fields: Mapping[str, Json]) -> tuple[Said, ...] | None:
    for key in _ANSWERS:
        value = decoded(fields.get(key))
        if isinstance(value, (list, dict)):
            return listed(
                messages({key: value, "role": "assistant"} if key == "content" else {key: value}, "assistant").said
            )
    return None


def _given(fields: Mapping[str, Json]) -> tuple[Said, ...] | None:
    """The request's messages, where they have tool calls in them: only those does the span above leave out."""
    raw = fields.get("messages") or fields.get("contents")
    if not isinstance(raw, str) or not any(mark in raw for mark in _TOOL_MARKS):
        return None
    return listed(messages(raw).said)


_TOOL_MARKS = ("tool_calls", "tool_use", "functionCall", "function_call", "toolUse")


_MISNAMED_PROMPT = "SpanAttributes.LLM_PROMPTS."
_MISNAMED_COMPLETION = "SpanAttributes.LLM_COMPLETIONS."
"""What releases up to 1.6x write from Python 3.11 on, where an enumeration's name took the place of its value."""


def _indexed(attributes: Attributes, beginnings: Iterable[str], role: str) -> tuple[Said, ...] | None:
    return next((said for each in beginnings if (said := indexed_messages(attributes, each, role))), None)


def _request(span: Span) -> Call:
    attributes = span.attributes
    output = _indexed(attributes, (COMPLETION, _MISNAMED_COMPLETION), "assistant")
    kind: Kind = "other" if attributes["llm.request.type"] == "embedding" else "model"
    answered = output is not None or "gen_ai.output.messages" in attributes
    return Call(
        dialect="litellm",
        kind=kind,
        input=_indexed(attributes, (PROMPT, _MISNAMED_PROMPT), "user"),
        output=output,
        error=failure(span, answered=answered) if kind == "model" else None,
        found={"output": f"{COMPLETION}*"} if output else {},
    )


DIALECT = Dialect(
    name="litellm",
    rank=235,
    read=read,
    evidence=("llm.request.type",),
    scopes=("litellm",),
    carries=Carries(
        libraries="LiteLLM SDK and proxy",
        messages="by the conventions, in several shapes",
        tools="messages, the raw request's span",
        conversation="gen_ai.conversation.id (proxy, from a header), requester_metadata",
        user="llm.user",
    ),
)
