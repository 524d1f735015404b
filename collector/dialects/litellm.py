"""LiteLLM: what it writes beside the conventions.

Its request span leaves a tool call out of the messages of its answer: that is in indexed attributes beside them, and in
the span of the raw request below it, which has the provider's own words as Python reprs.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.indexed_messages import COMPLETION, PROMPT, indexed_messages
from collector.dialects.messages import messages
from collector.dialects.reading import failure, text_at, usage_of
from collector.span import LogRecord, Span

_NAME = "raw_gen_ai_request"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the answer of a raw request, or the answer beside the messages of a request."""
    if span.name != _NAME:
        return _request(span) if span.scope == "litellm" and "llm.request.type" in span.attributes else None
    fields = {key.rpartition(".")[2]: value for key, value in span.attributes.items() if key.count(".") == 2}
    heard = messages({"choices": decoded(fields.get("choices"))}, "assistant")
    output = listed(heard.said)
    return Call(
        dialect="litellm",
        kind="model",
        output=output,
        error=failure(span, answered=output is not None),
        model=text_at(fields, "model"),
        response_id=text_at(fields, "id"),
        usage=usage_of(decoded(fields.get("usage"))),
        found={"output": "llm.*.choices"} if output else {},
    )


def _request(span: Span) -> Call:
    attributes = span.attributes
    output = listed(indexed_messages(attributes, COMPLETION, "assistant"))
    kind: Kind = "other" if attributes["llm.request.type"] == "embedding" else "model"
    answered = output is not None or "gen_ai.output.messages" in attributes
    return Call(
        dialect="litellm",
        kind=kind,
        input=listed(indexed_messages(attributes, PROMPT, "user")),
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
        conversation="gen_ai.conversation.id (proxy, from a header)",
        user="llm.user",
    ),
)
