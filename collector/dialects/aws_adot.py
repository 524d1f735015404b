"""AWS's distribution of OpenTelemetry: it moves what other instrumentations put on spans into one log record per span.

The record is called like the instrumentation's scope; its body holds `input.messages` and `output.messages`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, listed
from collector.dialects.decode import as_dict, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages, system_and_rest
from collector.span import LogRecord, Span

_SCOPES = frozenset(
    {
        "strands.telemetry.tracer",
        "openinference.instrumentation.langchain",
        "openinference.instrumentation.crewai",
        "openinference.instrumentation.openai_agents",
        "opentelemetry.instrumentation.langchain",
        "opentelemetry.instrumentation.crewai",
        "opentelemetry.instrumentation.openai_agents",
    }
)


def read(_span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read the record of a span; what kind of span it is, its attributes tell other readers."""
    body = next((as_dict(each.body) for each in records if each.event_name in _SCOPES and as_dict(each.body)), None)
    if body is None:
        return None
    given = messages(as_dict(body.get("input")).get("messages")).said
    came = messages(as_dict(body.get("output")).get("messages"), "assistant").said
    system, given = system_and_rest(given)
    return Call(
        dialect="aws_adot",
        system=system,
        input=listed(given),
        output=listed(json_came) if (json_came := [each._replace(text=_text(each.text)) for each in came]) else None,
        found={"input": "body.input.messages", "output": "body.output.messages"},
    )


def _text(text: str) -> str:
    """A message's content is the text itself, or JSON of it under `message` or `content`."""
    held = as_dict(json_value(text)) if text.startswith("{") else {}
    inner = held.get("message", held.get("content"))
    if inner is None:
        return text
    said = messages(inner, "assistant").said
    return said[-1].text if said else text


DIALECT = Dialect(
    name="aws_adot",
    rank=330,
    read=read,
    evidence=(),
    records=_SCOPES,
    carries=Carries(
        libraries="AWS Distro for OpenTelemetry (AgentCore) around Strands, LangChain, CrewAI, Agents",
        messages="log records",
        conversation="session.id",
    ),
)
