"""OpenTelemetry's semantic conventions for generative AI, all generations: the readers' common ground.

Messages are attributes (JSON, structured values, or plain text), or attributes of the event
`gen_ai.client.inference.operation.details` (a log record; in some libraries a span event), or one event per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from collector.dialects import message_events
from collector.dialects.call import Call, Kind, Said, finish_of, listed
from collector.dialects.decode import as_dict, decoded, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import NONE, Heard, messages, parts_text
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, found_at, masked_hole, passages_in, text_at, usage_at
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Incomplete, Json, ToolCall

DETAILS = "gen_ai.client.inference.operation.details"
EVALUATION = "gen_ai.evaluation.result"
_VARIABLE = "gen_ai.prompt.variable."
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_SYSTEM = "gen_ai.system_instructions"
_PLAIN = {_INPUT: "gen_ai.content.prompt", _OUTPUT: "gen_ai.content.completion"}
"""What Quarkus calls them: the texts of all messages, one after the other, without their roles."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "completion", "generate", "responses"), "model"),
    **dict.fromkeys(("acompletion", "atext_completion", "aresponses", "anthropic_messages"), "model"),  # LiteLLM
    **dict.fromkeys(("chat.completions", "text.completions"), "model"),  # Semantic Kernel
    "invoke_agent": "agent",
    "invoke_workflow": "workflow",
    **dict.fromkeys(("embeddings", "embedding", "create_agent"), "other"),
    "execute_tool": "tool",
    "retrieval": "retrieval",
    **dict.fromkeys(("rerank", "evaluate", "evaluation", "guardrail", "moderation"), "aside"),
}  # any other operation is a wrapper


_NO_EXCHANGE = ("embedding", "aembedding", "rerank", "arerank")
"""What OpenLLMetry and LiteLLM call requests that nobody answers in words."""


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a span by the conventions."""
    attributes, told, feedback = span.attributes, _NOTHING_TOLD, ()
    if records or span.events:
        attributes, told = _with_details(span, records), _told(span, records)
        feedback = tuple(_feedback(each.attributes) for each in records if each.event_name == EVALUATION)
    kind = _kind(attributes, failed=span.failed)
    if kind is None:
        if not (told.input or told.output):
            return _only_feedback(feedback, records)
        kind = "model"
    if kind == "tool":
        return _tool(span, attributes, told)
    if kind == "retrieval":
        return _retrieval(attributes)
    return _exchange(span, attributes, kind, told, feedback)


_NOTHING_TOLD = message_events.Told((), ())


def _only_feedback(feedback: tuple[Feedback, ...], records: Sequence[LogRecord]) -> Call | None:
    if not feedback:
        return None
    about = next(text_at(each.attributes, "gen_ai.response.id") for each in records if each.event_name == EVALUATION)
    return Call(dialect="otel_genai", feedback=feedback, feedback_for=about)


def _kind(attributes: Attributes, *, failed: bool) -> Kind | None:
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation:
        return _KINDS.get(operation, "chain")
    if "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes and _OUTPUT not in attributes:
        return "tool"
    messages_there = _INPUT in attributes or _OUTPUT in attributes
    if attributes.get("llm.request.type") in _NO_EXCHANGE:
        return None
    if text_at(attributes, "gen_ai.request.model", "gen_ai.response.model"):
        ended = ("gen_ai.response.id", "gen_ai.response.finish_reasons", *_USAGE_IN, *_USAGE_OUT, "error.type")
        if messages_there or failed or not attributes.keys().isdisjoint(ended):
            return "model"
    return "chain" if messages_there else None


def _with_details(span: Span, records: Sequence[LogRecord]) -> Attributes:
    """The span's attributes and, where it has none of a name, those of its details events."""
    details: list[Attributes] = [event.attributes for event in span.events if event.name == DETAILS]
    for record in records:
        if record.event_name == DETAILS:
            details += [record.attributes, as_dict(record.body)]
    if not details:
        return span.attributes
    merged: dict[str, Json] = {}
    for each in (*reversed(details), span.attributes):  # of several, the first word holds
        merged.update(each)
    return merged


def _told(span: Span, records: Sequence[LogRecord]) -> message_events.Told:
    from_records = message_events.told(
        (each.event_name, each.body if each.body is not None else dict(each.attributes)) for each in records
    )
    if from_records.input or from_records.output or not span.events:
        return from_records
    return message_events.told(
        ((each.name, dict(each.attributes)) for each in span.events if each.name in message_events.NAMES), encoded=True
    )


_FINISH = ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason")
_USAGE_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "gen_ai.response.prompt_tokens")
_USAGE_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "gen_ai.response.completion_tokens")


def _exchange(
    span: Span, attributes: Attributes, kind: Kind, told: message_events.Told, feedback: tuple[Feedback, ...]
) -> Call:
    given, given_hole = _side(attributes, _INPUT, "user", told.input)
    came, came_hole = _side(attributes, _OUTPUT, "assistant", told.output)
    if kind == "model" and given and came is None and came_hole is None and "gen_ai.operation.name" in attributes:
        came_hole = "no_content"  # a call it was, whether or not its answer was recorded
    if came is not None and len(came) > 1 and attributes.get("gen_ai.operation.name") == "generate_content":
        came = _whole_stream(came)
    return Call(
        dialect="otel_genai",
        kind=kind,
        system=parts_text(attributes.get(_SYSTEM) or attributes.get("system_prompt")),
        input=given,
        output=came,
        input_hole=given_hole,
        output_hole=came_hole,
        finish=finish_of(json_value(found_at(attributes, *_FINISH)[0])),
        error=failure(span, answered=came is not None) if kind != "chain" else None,
        model=text_at(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        provider=text_at(attributes, "gen_ai.provider.name", "gen_ai.system"),
        response_id=text_at(attributes, "gen_ai.response.id"),
        usage=usage_at(attributes, _USAGE_IN, _USAGE_OUT) if kind == "model" else None,
        agent=text_at(attributes, "gen_ai.agent.name", "gen_ai.workflow.name"),
        variables=_variables(attributes),
        feedback=feedback,
        uncertain=_PLAIN[_INPUT] in attributes and _INPUT not in attributes,
        found=_places(attributes, told),
    )


def _variables(attributes: Attributes) -> dict[str, str]:
    size = len(_VARIABLE)
    return {
        key[size:]: value for key, value in attributes.items() if key[:size] == _VARIABLE and isinstance(value, str)
    }


def _side(
    attributes: Attributes, key: str, role: str, told: tuple[Said, ...]
) -> tuple[tuple[Said, ...] | None, Incomplete | None]:
    value = attributes.get(key)
    heard: Heard = NONE if value is None else messages(value, role)
    if heard.said or heard.hole:
        return listed(heard.said), heard.hole or masked_hole(value)
    if told:
        return told, None
    plain = text_at(attributes, _PLAIN[key])
    if plain is not None:
        return (Said(role, plain),), masked_hole(plain)
    if value in ("", "[]", []) and role == "assistant":  # the model said nothing
        return (Said("assistant"),), None
    reference = text_at(attributes, f"{key}_ref", f"{key}.ref")
    return None, "external_reference" if reference else None


def _whole_stream(came: tuple[Said, ...]) -> tuple[Said, ...]:
    """One answer, where google-genai writes every chunk of a stream as a message; only the last one has ended."""
    *chunks, last = came
    if last.finish is None or any(each.finish or each.role != "assistant" for each in chunks):
        return came
    return (reduce(message_events.joined, came),)


_FIELDS = {_INPUT: "input", _OUTPUT: "output", _SYSTEM: "system"}


def _places(attributes: Attributes, told: message_events.Told) -> dict[str, str]:
    places = {field: key for key, field in _FIELDS.items() if key in attributes}
    if told.input:
        places.setdefault("input", "gen_ai.*.message")
    if told.output:
        places.setdefault("output", message_events.CHOICE)
    for key, plain in _PLAIN.items():
        if plain in attributes:
            places.setdefault(_FIELDS[key], plain)
    return places


def _tool(span: Span, attributes: Attributes, told: message_events.Told) -> Call:
    name = text_at(attributes, "gen_ai.tool.name") or ""
    given, given_at = found_at(attributes, "gen_ai.tool.call.arguments", "gen_ai.tool.arguments")
    came, came_at = found_at(attributes, "gen_ai.tool.call.result", "gen_ai.tool.result")
    if given is None and told.input:  # Strands tells its tools' arguments and results as messages
        given = told.input[-1].text
    if came is None and told.output:
        came = told.output[-1].text
    result = json_value(came) if span.scope == "gen_ai" else decoded(came)  # the AI SDK's results are JSON throughout
    call = ToolCall(id=text_at(attributes, "gen_ai.tool.call.id"), name=name, arguments=arguments(given), result=result)
    merged = name.startswith("(merged")  # a summary of parallel calls that stand beside it
    return Call(
        dialect="otel_genai",
        kind="other" if merged or not name else "tool",
        tool=None if merged or not name else call,
        agent=text_at(attributes, "gen_ai.agent.name"),
        found={field: key for field, key in (("arguments", given_at), ("result", came_at)) if key},
    )


def _retrieval(attributes: Attributes) -> Call:
    passages = passages_in(attributes.get("gen_ai.retrieval.documents"))
    return Call(
        dialect="otel_genai",
        kind="retrieval",
        passages=passages,
        query=text_at(attributes, "gen_ai.retrieval.query.text"),
        found={"passages": "gen_ai.retrieval.documents"} if passages else {},
    )


def _feedback(attributes: Attributes) -> Feedback:
    value = attributes.get("gen_ai.evaluation.score.value")
    return Feedback(
        name=text_at(attributes, "gen_ai.evaluation.name") or "evaluation",
        value=value if isinstance(value, (int, float, str)) else None,
        label=text_at(attributes, "gen_ai.evaluation.score.label"),
        comment=text_at(attributes, "gen_ai.evaluation.explanation"),
        source="application",
    )


DIALECT = Dialect(
    name="otel_genai",
    rank=900,
    read=read,
    evidence=("gen_ai.*",),
    events=frozenset({DETAILS, *message_events.NAMES}),
    records=frozenset({DETAILS, EVALUATION, *message_events.RECORDS}),
    carries=Carries(
        libraries="OpenTelemetry GenAI instrumentations, AI SDK 7, Google ADK 2, Microsoft Agent Framework, Strands, "
        "OpenLLMetry ≥ 0.60, OpenLIT ≥ 1.40, Logfire, Pydantic AI, Mastra, Quarkus LangChain4j, .NET's AI extensions",
        messages="attributes or log records, when content capture is on",
        tools="messages, tool spans",
        retrieval="retrieval spans, prompt variables",
        conversation="gen_ai.conversation.id",
        user="user.id",
        feedback="gen_ai.evaluation.result",
    ),
)
