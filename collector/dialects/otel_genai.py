"""OpenTelemetry's semantic conventions for generative AI, in all generations; most libraries follow them in part.

Messages are attributes (JSON, structured values, or plain text), or attributes of the event
`gen_ai.client.inference.operation.details` (a log record; in some libraries a span event), or one event per message.
"""

import re
from collections.abc import Sequence
from functools import reduce

from collector.dialects import message_events
from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, find_usage, find_value
from collector.dialects.call import Call, ChatMessage, Kind, parse_finish_reason
from collector.dialects.decode import as_dict, as_list, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import NO_MESSAGES, ChatTranscript, parse_messages, parse_system_text
from collector.dialects.parts import is_free_of_tools, parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Incomplete, Json, ToolCall

DETAILS = "gen_ai.client.inference.operation.details"
EVALUATION = "gen_ai.evaluation.result"
DISCARDED = "preemptive_generation_discarded"
"""LiveKit's event of an agent's turn: calls before it answered a beginning of the user's words, and were not heard."""
_VARIABLE = "gen_ai.prompt.variable."
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_SYSTEM = "gen_ai.system_instructions"
_PROMPT, _COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"
"""Quarkus' names for both: the texts of all messages in a row, without roles."""
_TEXTS = {
    _INPUT: (_PROMPT, "lk.pii.user_input", "lk.user_input", "lk.pii.user_transcript", "lk.user_transcript"),
    _OUTPUT: (_COMPLETION, "lk.pii.response.text", "lk.response.text"),
}
"""Names of plain texts: Quarkus', then LiveKit's on the turn of an agent that speaks."""
_REFERENCES = {key: (f"{key}_ref", f"{key}.ref") for key in _TEXTS}
_ELSEWHERE = frozenset(name for each in (_TEXTS, _REFERENCES) for names in each.values() for name in names)
"""Names of what may stand for messages; few spans have any."""
_QUARKUS = {"gen_ai.prompt": _PROMPT, "gen_ai.completion": _COMPLETION}
"""Quarkus' earlier names for both, and its present ones."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "completion", "generate", "responses"), "model"),
    **dict.fromkeys(("acompletion", "atext_completion", "aresponses", "anthropic_messages"), "model"),  # LiteLLM
    **dict.fromkeys(("chat.completions", "text.completions"), "model"),  # Semantic Kernel
    "realtime_inference": "model",
    "invoke_agent": "agent",
    "invoke_workflow": "workflow",
    **dict.fromkeys(("embeddings", "embedding", "create_agent", "fetch_response", "user_speech"), "other"),
    "execute_tool": "tool",
    "retrieval": "retrieval",
    **dict.fromkeys(("rerank", "evaluate", "evaluation", "guardrail", "moderation"), "auxiliary"),
}  # any other operation is a step around others


_NON_CHAT_REQUESTS = ("embedding", "aembedding", "rerank", "arerank")
"""OpenLLMetry's and LiteLLM's names for requests that have no answer in words."""


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a span by the conventions."""
    attributes, events, evaluations = span.attributes, _NO_EVENTS, list[Attributes]()
    feedback: tuple[Feedback, ...] = ()
    if records or span.events:
        attributes, events = _merge_details(span, records), _parse_event_messages(span, records)
        evaluations = _list_evaluations(span, records)
        feedback = tuple(_parse_feedback(each) for each in evaluations) if evaluations else ()
    if span.scope.startswith("io.quarkus"):
        attributes = {**attributes, **{name: attributes[key] for key, name in _QUARKUS.items() if key in attributes}}
    kind = _find_kind(attributes, failed=span.failed)
    if kind is None:
        if not (events.input or events.output):
            subjects = filter(None, (find_text(attributes, "gen_ai.response.id") for attributes in evaluations))
            feedback_for = next(subjects, None)
            return Call(feedback=feedback, feedback_for=feedback_for) if feedback else None
        kind = "model"
    if kind == "tool":
        return _read_tool(span, attributes, events)
    if kind == "retrieval":
        return _read_retrieval(attributes)
    return _read_call(span, attributes, kind, events, feedback)


def glance(span: Span) -> Kind | None:
    """See `Glance`: an operation by its name; a model's with an id or counts of tokens, and no sign of tools."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if not isinstance(operation, str) or not operation:
        return None
    kind = _KINDS.get(operation)  # of any other, the spans around it decide
    if kind != "model":
        return None if kind == "tool" else kind
    if not find_text(attributes, "gen_ai.response.id") and find_usage(attributes, _USAGE_IN, _USAGE_OUT) is None:
        return None
    return kind if all(is_free_of_tools(attributes[key]) for key in _OUTPUTS if key in attributes) else None


_NO_EVENTS = message_events.EventMessages((), ())


_SCORE_FIELDS = ("gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label", "gen_ai.evaluation.explanation")


def _list_evaluations(span: Span, records: Sequence[LogRecord]) -> list[Attributes]:
    """The evaluations in log records and events of a span; one that failed says nothing (`error.type` alone)."""
    written = [record.attributes for record in records if record.event_name == EVALUATION]
    written += [event.attributes for event in span.events if event.name == EVALUATION]
    return [attributes for attributes in written if not attributes.keys().isdisjoint(_SCORE_FIELDS)]


def _find_kind(attributes: Attributes, *, failed: bool) -> Kind | None:
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation:
        return _KINDS.get(operation, "chain")
    if "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes and _OUTPUT not in attributes:
        return "tool"
    has_messages = _INPUT in attributes or _OUTPUT in attributes
    if attributes.get("llm.request.type") in _NON_CHAT_REQUESTS:
        return None
    if find_text(attributes, "gen_ai.request.model", "gen_ai.response.model"):
        ended = ("gen_ai.response.id", _PROMPT, *_FINISH, *_USAGE_IN, *_USAGE_OUT, "error.type")
        if has_messages or failed or not attributes.keys().isdisjoint(ended):
            return "model"
    return "chain" if has_messages else None


def _merge_details(span: Span, records: Sequence[LogRecord]) -> Attributes:
    """The span's attributes, and its details events' attributes under names that the span lacks."""
    details: list[Attributes] = [event.attributes for event in span.events if event.name == DETAILS]
    for record in records:
        if record.event_name == DETAILS:
            details += [record.attributes, as_dict(record.body)]
    if not details:
        return span.attributes
    merged: dict[str, Json] = {}
    for each in (*reversed(details), span.attributes):  # the first one wins
        merged.update(each)
    return merged


def _parse_event_messages(span: Span, records: Sequence[LogRecord]) -> message_events.EventMessages:
    from_records = message_events.parse_events(
        (record.event_name, record.body if record.body is not None else dict(record.attributes)) for record in records
    )
    if from_records.input or from_records.output or not span.events:
        return from_records
    return message_events.parse_events(
        ((event.name, dict(event.attributes)) for event in span.events if event.name in message_events.NAMES),
        encoded=True,
    )


_FINISH = ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason")
_OUTPUTS = (_OUTPUT, _COMPLETION, *_FINISH)
_USAGE_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "gen_ai.response.prompt_tokens")
_USAGE_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "gen_ai.response.completion_tokens")


def _read_call(
    span: Span, attributes: Attributes, kind: Kind, events: message_events.EventMessages, feedback: tuple[Feedback, ...]
) -> Call:
    input_messages, input_incomplete = _parse_content(attributes, _INPUT, "user", events.input)
    output_messages, output_incomplete = _parse_content(attributes, _OUTPUT, "assistant", events.output)
    uncertain = _PROMPT in attributes and _INPUT not in attributes
    if uncertain and span.scope.startswith("io.quarkus") and input_messages and "\n" in input_messages[-1].text:
        input_messages, input_incomplete = None, "no_content"  # which line the question begins in, nothing says
    if (
        kind == "model"
        and input_messages
        and output_messages is None
        and output_incomplete is None
        and "gen_ai.operation.name" in attributes
    ):
        output_incomplete = "no_content"  # it was a call, even if its answer was not recorded
    if output_messages is not None and len(output_messages) > 1:
        output_messages = _join_chunks(output_messages, attributes)
    return Call(
        kind=kind,
        system=parse_system_text(attributes.get(_SYSTEM) or attributes.get("system_prompt")),
        input=input_messages,
        output=output_messages,
        input_incomplete=input_incomplete,
        output_incomplete=output_incomplete,
        finish_reason=parse_finish_reason(decode_json(find_value(attributes, *_FINISH)[0])),
        error=find_error(span, answered=output_messages is not None),
        model=find_text(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        provider=find_text(attributes, "gen_ai.provider.name", "gen_ai.system"),
        response_id=find_text(attributes, "gen_ai.response.id"),
        usage=find_usage(attributes, _USAGE_IN, _USAGE_OUT) if kind in {"model", "chain"} else None,
        agent=find_text(attributes, "gen_ai.agent.name", "gen_ai.workflow.name"),
        variables=_find_variables(attributes),
        feedback=feedback,
        uncertain=uncertain,
        sources=_find_message_sources(attributes, events),
    )


def _find_variables(attributes: Attributes) -> dict[str, str]:
    if _VARIABLE not in "\n".join(attributes):
        return {}
    size = len(_VARIABLE)
    return {
        key[size:]: value for key, value in attributes.items() if key[:size] == _VARIABLE and isinstance(value, str)
    }


def _parse_content(
    attributes: Attributes, key: str, role: str, events: tuple[ChatMessage, ...]
) -> tuple[tuple[ChatMessage, ...] | None, Incomplete | None]:
    value = attributes.get(key)
    if value is not None and (not isinstance(value, str) or value[:1] == '"'):
        value = _decode_again(value)
    transcript: ChatTranscript = NO_MESSAGES if value is None else parse_messages(value, role)
    if transcript.messages or transcript.incomplete:
        return transcript.messages or None, transcript.incomplete or find_redaction(value)
    if events:
        return events, None
    if value is None and _ELSEWHERE.isdisjoint(attributes):
        return None, None
    names = _TEXTS[key]
    plain = find_text(attributes, *(names if "lk.generation_id" in attributes else names[:1]))
    if plain is not None:
        return (ChatMessage(role, plain),), find_redaction(plain)
    if value in ("", "[]", []) and role == "assistant":  # the model answered nothing
        return (ChatMessage("assistant"),), None
    return None, "external_reference" if find_text(attributes, *_REFERENCES[key]) else None


def _decode_again(value: Json) -> Json:
    """Messages that were encoded once too often: the JSON of a text, or a list with the JSON of each."""
    if isinstance(value, str):
        return decode_json(value)
    texts = as_list(value)
    return [decode(text) for text in texts] if texts and all(str(text)[:1] == "{" for text in texts) else value


def _join_chunks(messages: tuple[ChatMessage, ...], attributes: Attributes) -> tuple[ChatMessage, ...]:
    """Join the chunks of one answer: google-genai writes each as a message, with a finish reason in the last only.

    So does Gemini CLI, in Google's own form and without any finish reason, for an operation with a name of its own.
    """
    operation = attributes.get("gen_ai.operation.name")
    if operation not in _KINDS and all(message.role == "assistant" for message in messages):
        return (reduce(message_events.join, messages),) if _GOOGLE.search(str(attributes.get(_OUTPUT))) else messages
    if operation != "generate_content":
        return messages
    *chunks, last = messages
    if last.finish_reason is None or any(message.finish_reason or message.role != "assistant" for message in chunks):
        return messages
    return (reduce(message_events.join, messages),)


_GOOGLE = re.compile(r'"role":\s*"model"')
_FIELDS = {_INPUT: "input", _OUTPUT: "output", _SYSTEM: "system"}


def _find_message_sources(attributes: Attributes, events: message_events.EventMessages) -> dict[str, str]:
    sources = {field: key for key, field in _FIELDS.items() if key in attributes}
    if events.input:
        sources.setdefault("input", "gen_ai.*.message")
    if events.output:
        sources.setdefault("output", message_events.CHOICE)
    for key, names in () if _ELSEWHERE.isdisjoint(attributes) else _TEXTS.items():
        present = [name for name in names if name in attributes]
        if present:
            sources.setdefault(_FIELDS[key], present[0])
    return sources


def _read_tool(span: Span, attributes: Attributes, events: message_events.EventMessages) -> Call:
    name = find_text(attributes, "gen_ai.tool.name") or ""
    input_value, input_key = find_value(attributes, "gen_ai.tool.call.arguments", "gen_ai.tool.arguments")
    output_value, output_key = find_value(attributes, "gen_ai.tool.call.result", "gen_ai.tool.result")
    if input_value is None and events.input:  # Strands writes its tools' arguments and results as messages
        input_value = events.input[-1].text
    if output_value is None and events.output:
        output_value = events.output[-1].text
    call = ToolCall(
        id=find_text(attributes, "gen_ai.tool.call.id"),
        name=name,
        arguments=parse_arguments(input_value),
        # The AI SDK's results are JSON throughout.
        result=decode_json(output_value) if span.scope == "gen_ai" else decode(output_value),
    )
    is_summary = name.startswith("(merged")  # a summary of parallel calls, which have spans beside it
    return Call(
        kind="other" if is_summary or not name else "tool",
        tool=None if is_summary or not name else call,
        agent=find_text(attributes, "gen_ai.agent.name"),
        sources=find_sources(attributes, arguments=input_key, result=output_key),
    )


def _read_retrieval(attributes: Attributes) -> Call:
    passages = parse_passages(attributes.get("gen_ai.retrieval.documents"))
    return Call(
        kind="retrieval",
        passages=passages,
        query=find_text(attributes, "gen_ai.retrieval.query.text"),
        sources={"passages": "gen_ai.retrieval.documents"} if passages else {},
    )


def _parse_feedback(attributes: Attributes) -> Feedback:
    value = attributes.get("gen_ai.evaluation.score.value")
    return Feedback(
        name=find_text(attributes, "gen_ai.evaluation.name") or "evaluation",
        value=value if isinstance(value, (int, float, str)) else None,
        label=find_text(attributes, "gen_ai.evaluation.score.label"),
        comment=find_text(attributes, "gen_ai.evaluation.explanation"),
        source="application",
    )


DIALECT = Dialect(
    name="otel_genai",
    rank=900,
    read=read,
    glance=glance,
    evidence=("gen_ai.*",),
    events=frozenset({DETAILS, EVALUATION, DISCARDED, *message_events.NAMES}),
    records=frozenset({DETAILS, EVALUATION, *message_events.RECORDS}),
    coverage=Coverage(
        libraries="OpenTelemetry GenAI instrumentations, AI SDK 7, Google ADK 2, Microsoft Agent Framework, Strands, "
        "OpenLLMetry ≥ 0.60, OpenLIT ≥ 1.40, Logfire, Pydantic AI, Mastra, LiveKit, Quarkus, Rig, .NET's AI extensions",
        messages="attributes or log records, when content capture is on",
        tools="messages, tool spans",
        retrieval="retrieval spans, prompt variables",
        conversation="gen_ai.conversation.id",
        user="user.id",
        feedback="gen_ai.evaluation.result",
    ),
)
