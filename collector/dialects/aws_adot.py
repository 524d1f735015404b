"""AWS's distribution of OpenTelemetry, which moves the content of other instrumentations' spans into log records.

There is one record per span, named like the instrumentation's scope, with `input.messages` and `output.messages` in its
body. The content of a message is its text, or JSON of the instrumentation's event under `content` or `message`.
"""

from collections.abc import Sequence

from collector.dialects.call import Call, ChatMessage, as_messages
from collector.dialects.decode import as_dict, as_list, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages, split_input
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json

_LIBRARIES = ("langchain", "crewai", "openai_agents", "llama_index", "openai", "bedrock", "anthropic", "litellm")
_SCOPES = frozenset(
    {
        "strands.telemetry.tracer",
        "openlit.otel.tracing",
        "opentelemetry.instrumentation.openai.v1",
        "opentelemetry.instrumentation.llamaindex",
        *(f"openinference.instrumentation.{library}" for library in _LIBRARIES),
        *(f"opentelemetry.instrumentation.{library}" for library in _LIBRARIES),
    }
)


def read(_span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read the log record of a span; other readers find the kind of the span in its attributes."""
    body = next(
        (as_dict(record.body) for record in records if record.event_name in _SCOPES and as_dict(record.body)), None
    )
    if body is None:
        return None
    return Call(
        **split_input(_parse_list(as_dict(body.get("input")).get("messages"), "user")),
        output=as_messages(_parse_list(as_dict(body.get("output")).get("messages"), "assistant")),
        sources={"input": "body.input.messages", "output": "body.output.messages"},
    )


def _parse_list(value: Json, role: str) -> list[ChatMessage]:
    return [message for each in as_list(value) for message in _parse_item(as_dict(each), role)]


def _parse_item(item: dict[str, Json], role: str) -> tuple[ChatMessage, ...]:
    content = item.get("content")
    event = as_dict(content) or (
        as_dict(decode_json(content)) if isinstance(content, str) and content[:1] == "{" else {}
    )
    inner = event.get("message", event.get("content"))
    if inner is None:
        return parse_messages({"role": role, **item}).messages
    finish = event.get("finish_reason")
    transcript = parse_messages(decode(inner), role)
    is_plain = isinstance(inner, str) and not transcript.is_structured
    if not is_plain and any("role" in as_dict(each) for each in (decode(inner), *as_list(decode(inner)))):
        return transcript.messages
    content = inner if is_plain else decode(inner)
    return parse_messages({"role": item.get("role") or role, "content": content, "finish_reason": finish}).messages


DIALECT = Dialect(
    name="aws_adot",
    rank=330,
    read=read,
    records=_SCOPES,
    coverage=Coverage(
        libraries="AWS Distro for OpenTelemetry (AgentCore) around Strands, LangChain, CrewAI, Agents",
        messages="log records",
        tools="messages",
        conversation="session.id",
        user="user.id",
    ),
)
