"""Mastra's own exporter: agents, model steps and workflows with input and output under `mastra.<type>.`.

Its `model_inference` spans follow the conventions, but have no prompt: the step around them has it.
"""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text
from collector.dialects.call import Call, ChatMessage, Kind, as_messages
from collector.dialects.decode import as_dict, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, exchanged, parse_question
from collector.dialects.messages import parse_messages, parse_tool_calls, split_system_prompt
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json
from evaluators.texts.exact_json import as_text

_TYPE = "mastra.span.type"
_KINDS: dict[str, Kind] = {
    "agent_run": "agent",
    "workflow_run": "workflow",
    "model_step": "model",
    "model_generation": "chain",
}  # the rest (chunks, memory, processors) repeats them, or follows the conventions (inference, tools)
_PLACEHOLDERS = ("[tool: ", "[tool-result: ")
"""Steps write these in place of tool calls and their results."""


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read an agent's or a workflow's run, or a step of a model; other types are left to the conventions."""
    attributes = span.attributes
    name = find_text(attributes, _TYPE)
    if name is None or name == "model_inference":
        return None
    kind = _KINDS.get(name)
    if kind is None:
        return None if name.endswith("tool_call") else Call()
    input_key, output_key = f"mastra.{name}.input", f"mastra.{name}.output"
    question, answer = _parse_input(attributes.get(input_key)), _parse_output(attributes.get(output_key))
    system, messages = split_system_prompt(question.messages or ())
    return Call(
        kind=kind,
        system=system or find_text(attributes, "gen_ai.system_instructions"),
        **exchanged(question._replace(messages=as_messages(messages)), answer),
        error=find_error(span, answered=answer.messages is not None) if kind in {"agent", "model"} else None,
        agent=find_text(attributes, "gen_ai.agent.name") if kind == "agent" else None,
        conversation_id=find_text(attributes, "gen_ai.conversation.id", "mastra.metadata.threadId"),
        user_id=find_text(attributes, "mastra.metadata.userId", "mastra.metadata.resourceId"),
        sources=find_sources(attributes, input=input_key, output=output_key),
    )


def _parse_input(value: Json) -> Content:
    """Parse messages, alone or under `messages`, or the text of an agent's input."""
    redaction = find_redaction(value)
    if value is None or redaction:
        return Content(None, redaction)
    transcript = parse_messages(value, "user")
    if not transcript.is_structured:
        return parse_question(value)
    messages = [message for message in transcript.messages if not message.text.startswith(_PLACEHOLDERS)]
    return Content(as_messages(messages), transcript.incomplete)


def _parse_output(value: Json) -> Content:
    """Parse an answer's text or object, and the tool calls that it requests."""
    redaction = find_redaction(value)
    if value is None or redaction:
        return Content(None, redaction)
    fields = as_dict(decode(value))
    if not fields.keys() & {"text", "object", "toolCalls"}:
        return Content(None)
    text = fields.get("text") or fields.get("object") or ""
    return Content((ChatMessage("assistant", as_text(text), parse_tool_calls(fields.get("toolCalls"))),))


DIALECT = Dialect(
    name="mastra",
    rank=235,
    read=read,
    evidence=(_TYPE,),
    coverage=Coverage(
        libraries="Mastra 1 (its OpenTelemetry exporter)",
        messages="mastra.model_step.*, mastra.agent_run.*",
        tools="messages, tool spans",
        conversation="thread id",
        user="resource id",
    ),
)
