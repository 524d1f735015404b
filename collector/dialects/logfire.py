"""Attributes of Pydantic AI and Logfire beside the conventions.

Agents' whole conversations, the events of their first format as JSON, the OpenAI Agents integration, and feedback.
"""

from collections.abc import Sequence

from collector.dialects import message_events
from collector.dialects.attributes import find_error, find_sources, find_text, find_value, parse_usage
from collector.dialects.call import Call, ChatMessage, Kind, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, as_list, decode, decode_json
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages, parse_system_text, split_input, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passage, parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Json, ToolCall
from evaluators.texts.exact_json import as_text

_ALL_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events")
_FEEDBACK = "logfire.feedback.name"
_AGENTS_SCOPE = "logfire.openai_agents"
_REQUEST = "request_data"
_RESPONSE = "response_data"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that has any of those."""
    attributes = span.attributes
    if _FEEDBACK in attributes:
        return _read_feedback(attributes)
    if "final_result" in attributes or _ALL_MESSAGES[0] in attributes or _ALL_MESSAGES[1] in attributes:
        return _read_agent(span)
    if "tool_arguments" in attributes or "tool_response" in attributes:
        return _read_tool(attributes, find_text(attributes, "gen_ai.tool.name"), "tool_arguments", "tool_response")
    if span.scope.startswith(_AGENTS_SCOPE):
        if span.name.startswith("Function: "):
            return _read_tool(attributes, find_text(attributes, "name"), "input", "output")
        if span.name.startswith("Guardrail"):
            return Call(kind="auxiliary")
        if span.name.startswith("Agent run"):
            return Call(kind="chain", agent=find_text(attributes, "name"))
        if span.name.startswith(("Responses API", "Chat completion")):
            return _read_model(span)
    if "events" in attributes or "raw_input" in attributes:
        return _read_model(span)
    if _REQUEST in attributes:
        return _read_request(span)
    return _read_documents(attributes) if "documents" in attributes else None


def _read_feedback(attributes: Attributes) -> Call:
    name = find_text(attributes, _FEEDBACK) or "feedback"
    value = attributes.get(name)
    feedback = Feedback(
        name=name,
        value=value if isinstance(value, (bool, int, float, str)) else None,
        comment=find_text(attributes, "logfire.feedback.comment"),
        source="user",
    )
    return Call(feedback=(feedback,))


def _read_agent(span: Span) -> Call:
    attributes = span.attributes
    raw, key = find_value(attributes, *_ALL_MESSAGES)
    messages = _parse_all_messages(raw, key)
    system, messages = split_system_prompt(messages)
    user_indexes = [index for index, message in enumerate(messages) if message.role == "user" and message.text.strip()]
    output_start = user_indexes[-1] + 1 if user_indexes else len(messages)
    output_messages = list(messages[output_start:])
    result, has_result = attributes.get("final_result"), "final_result" in attributes
    if has_result and not (output_messages and output_messages[-1].text == as_text(result)):
        output_messages.append(ChatMessage("assistant", as_text(result)))
    return Call(
        kind="agent",
        system=parse_system_text(attributes.get("gen_ai.system_instructions")) or system,
        input=as_messages(messages[:output_start]),
        output=as_messages(output_messages),
        error=find_error(span, answered=bool(output_messages)),
        model=find_text(attributes, "gen_ai.request.model", "model_name"),
        agent=find_text(attributes, "gen_ai.agent.name", "agent_name"),
        sources=find_sources(attributes, input=key, output="final_result"),
    )


def _parse_all_messages(raw: Json, key: str) -> tuple[ChatMessage, ...]:
    if key == _ALL_MESSAGES[1]:
        return message_events.parse_events(_parse_event_list(raw)).input
    transcript = parse_messages(raw)
    return transcript.messages if transcript.is_structured else ()


def _parse_event_list(raw: Json) -> list[tuple[str, Json]]:
    return [(as_text(as_dict(each).get("event.name")), as_dict(each)) for each in as_list(decode(raw))]


def _read_request(span: Span) -> Call | None:
    """Read a client's request and response under Logfire's own names, from before it followed the conventions."""
    attributes = span.attributes
    request = {
        key: attribute
        for key, attribute in as_dict(decode(attributes.get(_REQUEST))).items()
        # the clients' marker of an omitted parameter is written as its Python repr
        if not (isinstance(attribute, str) and attribute.startswith("<") and " object at 0x" in attribute)
    }
    response = as_dict(decode(attributes.get(_RESPONSE)))
    if not ({"messages", "prompt"} & request.keys()):
        return Call(kind="chain") if "input" in request else None  # embeddings
    answer = next(
        (response[key] for key in ("message", "text", "combined_chunk_content") if response.get(key) is not None), None
    )
    output_messages = as_messages(parse_messages(answer, "assistant").messages)
    return Call(
        kind="model",
        **split_input(parse_messages(request).messages),
        output=output_messages,
        error=find_error(span, answered=output_messages is not None),
        model=find_text(attributes, "gen_ai.response.model", "gen_ai.request.model") or find_text(request, "model"),
        usage=parse_usage(response.get("usage")),
        sources=find_sources(attributes, input=_REQUEST, output=_RESPONSE),
    )


def _read_model(span: Span) -> Call | None:
    attributes = span.attributes
    events = message_events.parse_events(_parse_event_list(attributes.get("events")))
    input_messages, output_messages = events.input, events.output
    input_value, input_key = find_value(attributes, "raw_input", "input")
    response = as_dict(decode(attributes.get("response")))
    output_value, output_key = (response, "response") if response else find_value(attributes, "output")
    if not input_messages:
        input_messages = parse_messages(input_value).messages
    if not output_messages:
        output_messages = parse_messages(output_value, "assistant").messages
    if not output_messages and "gen_ai.usage.output_tokens" in attributes:
        input_messages, output_messages = _split_answer(input_messages)
    if not (input_messages or output_messages or span.failed):
        return None
    system, rest = split_system_prompt(input_messages)
    return Call(
        kind="model",
        system=find_text(response, "instructions") or system,
        input=as_messages(rest),
        output=as_messages(output_messages),
        finish_reason=parse_finish_reason(response.get("status")),
        error=find_error(span, answered=bool(output_messages)),
        model=find_text(response, "model"),
        response_id=_as_identifier(attributes.get("response_id")) or find_text(response, "id"),
        sources={"input": "events" if events.input else input_key, "output": "events" if events.output else output_key},
    )


def _split_answer(messages: Sequence[ChatMessage]) -> tuple[tuple[ChatMessage, ...], tuple[ChatMessage, ...]]:
    """Split the events of a successful call where the answer begins: its name is that of any earlier answer."""
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    return tuple(messages[:end]), tuple(messages[end:])


def _as_identifier(value: Json) -> str | None:
    return value if isinstance(value, str) and value not in {"", "null"} else None


def _read_tool(attributes: Attributes, name: str | None, input_key: str, output_key: str) -> Call:
    if not name:
        return Call()
    call = ToolCall(
        id=find_text(attributes, "gen_ai.tool.call.id"),
        name=name,
        arguments=parse_arguments(decode_json(attributes.get(input_key))),
        result=decode(attributes.get(output_key)),
    )
    return Call(kind="tool", tool=call, sources={"arguments": input_key, "result": output_key})


def _read_documents(attributes: Attributes) -> Call | None:
    """Read an application's own span around its retrieval."""
    passages = parse_passages(attributes["documents"])
    items = [as_dict(attribute) for attribute in as_list(decode(attributes["documents"]))]
    if not items or not all(parse_passage(item).text for item in items):
        return None
    kind: Kind = "retrieval"
    query = find_text(attributes, "query", "question")
    return Call(kind=kind, passages=passages, query=query, sources={"passages": "documents"})


DIALECT = Dialect(
    name="logfire",
    rank=270,
    read=read,
    evidence=(
        "logfire.feedback.name", "pydantic_ai.*", "all_messages_events", "final_result", "tool_arguments",
        "tool_response", "events", "raw_input", "documents", _REQUEST,
    ),
    scopes=(_AGENTS_SCOPE, "logfire.feedback"),
    coverage=Coverage(
        libraries="Pydantic AI (all formats), Logfire's OpenAI and OpenAI Agents integrations",
        messages="agents' messages, events; otherwise by the conventions",
        tools="messages, tool spans",
        retrieval="an application's span with documents",
        conversation="gen_ai.conversation.id, session_id, group_id",
        user="user_id, metadata",
        feedback="feedback spans",
    ),
)  # fmt: skip
