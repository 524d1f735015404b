"""AWS's distribution of OpenTelemetry: it moves what other instrumentations put on spans into one log record per span.

The record is called like the instrumentation's scope; its body holds `input.messages` and `output.messages`. The
content of a message is the text, or what the instrumentation said in an event: JSON under `content` or `message`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Said, listed
from collector.dialects.decode import as_dict, as_list, decoded, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages, system_and_rest
from collector.span import LogRecord, Span
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
    """Read the record of a span; what kind of span it is, its attributes tell other readers."""
    body = next((as_dict(each.body) for each in records if each.event_name in _SCOPES and as_dict(each.body)), None)
    if body is None:
        return None
    system, given = system_and_rest(_said(as_dict(body.get("input")).get("messages"), "user"))
    came = _said(as_dict(body.get("output")).get("messages"), "assistant")
    return Call(
        dialect="aws_adot",
        system=system,
        input=listed(given),
        output=listed(came),
        found={"input": "body.input.messages", "output": "body.output.messages"},
    )


def _said(value: Json, role: str) -> list[Said]:
    return [said for each in as_list(value) for said in _message(as_dict(each), role)]


def _message(message: dict[str, Json], role: str) -> tuple[Said, ...]:
    content = message.get("content")
    held = as_dict(content) or (as_dict(json_value(content)) if isinstance(content, str) and content[:1] == "{" else {})
    inner = held.get("message", held.get("content"))
    if inner is None:
        return messages({"role": role, **message}).said
    finish = held.get("finish_reason")
    shaped = messages(decoded(inner), role)
    if isinstance(inner, str) and not shaped.shaped:
        return messages({"role": message.get("role") or role, "content": inner, "finish_reason": finish}).said
    if any("role" in as_dict(each) for each in (decoded(inner), *as_list(decoded(inner)))):
        return shaped.said
    return messages({"role": message.get("role") or role, "content": decoded(inner), "finish_reason": finish}).said


DIALECT = Dialect(
    name="aws_adot",
    rank=330,
    read=read,
    evidence=(),
    records=_SCOPES,
    carries=Carries(
        libraries="AWS Distro for OpenTelemetry (AgentCore) around Strands, LangChain, CrewAI, Agents",
        messages="log records",
        tools="messages",
        conversation="session.id",
        user="user.id",
    ),
)
