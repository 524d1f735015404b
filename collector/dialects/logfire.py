"""Pydantic AI and Logfire: what they write beside the conventions.

Agents' whole conversations, the events of their first format as JSON, the OpenAI Agents integration, and feedback.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects import message_events
from collector.dialects.call import Call, Kind, Said, finish_of, listed
from collector.dialects.decode import as_dict, as_list, as_text, decoded, json_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages, parts_text, system_and_rest
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, found_at, passage, passages_in, text_at, usage_of
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Json, ToolCall

_ALL = ("pydantic_ai.all_messages", "all_messages_events")
_FEEDBACK = "logfire.feedback.name"
_AGENTS_SCOPE = "logfire.openai_agents"
_REQUEST = "request_data"
_RESPONSE = "response_data"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that has any of those."""
    attributes = span.attributes
    if _FEEDBACK in attributes:
        return _feedback(attributes)
    if "final_result" in attributes or _ALL[0] in attributes or _ALL[1] in attributes:
        return _agent(span)
    if "tool_arguments" in attributes or "tool_response" in attributes:
        return _tool(attributes, text_at(attributes, "gen_ai.tool.name"), "tool_arguments", "tool_response")
    if span.scope.startswith(_AGENTS_SCOPE):
        if span.name.startswith("Function: "):
            return _tool(attributes, text_at(attributes, "name"), "input", "output")
        if span.name.startswith("Guardrail"):
            return Call(dialect="logfire", kind="aside")
        if span.name.startswith("Agent run"):
            return Call(dialect="logfire", kind="chain", agent=text_at(attributes, "name"))
        if span.name.startswith(("Responses API", "Chat completion")):
            return _model(span)
    if "events" in attributes or "raw_input" in attributes:
        return _model(span)
    if _REQUEST in attributes:
        return _request(span)
    return _documents(attributes) if "documents" in attributes else None


def _feedback(attributes: Attributes) -> Call:
    name = text_at(attributes, _FEEDBACK) or "feedback"
    value = attributes.get(name)
    said = Feedback(
        name=name,
        value=value if isinstance(value, (bool, int, float, str)) else None,
        comment=text_at(attributes, "logfire.feedback.comment"),
        source="user",
    )
    return Call(dialect="logfire", feedback=(said,))


def _agent(span: Span) -> Call:
    attributes = span.attributes
    raw, key = found_at(attributes, *_ALL)
    said = _all_messages(raw, key)
    system, said = system_and_rest(said)
    asked = [index for index, each in enumerate(said) if each.role == "user" and each.text.strip()]
    border = asked[-1] + 1 if asked else len(said)
    output = list(said[border:])
    result, is_there = attributes.get("final_result"), "final_result" in attributes
    if is_there and not (output and output[-1].text == as_text(result)):
        output.append(Said("assistant", as_text(result)))
    return Call(
        dialect="logfire",
        kind="agent",
        system=parts_text(attributes.get("gen_ai.system_instructions")) or system,
        input=listed(said[:border]),
        output=listed(output),
        error=failure(span, answered=bool(output)),
        model=text_at(attributes, "gen_ai.request.model", "model_name"),
        agent=text_at(attributes, "gen_ai.agent.name", "agent_name"),
        found={field: place for field, place in (("input", key), ("output", "final_result")) if place in attributes},
    )


def _all_messages(raw: Json, key: str) -> tuple[Said, ...]:
    if key == _ALL[1]:
        return message_events.told(_events(raw)).input
    heard = messages(raw)
    return heard.said if heard.shaped else ()


def _events(raw: Json) -> list[tuple[str, Json]]:
    return [(as_text(as_dict(each).get("event.name")), as_dict(each)) for each in as_list(decoded(raw))]


def _request(span: Span) -> Call | None:
    """A client's request, and what came back, under names of Logfire's own: before it followed the conventions."""
    attributes = span.attributes
    request = {key: each for key, each in as_dict(decoded(attributes.get(_REQUEST))).items() if not _is_absent(each)}
    held = as_dict(decoded(attributes.get(_RESPONSE)))
    if not ({"messages", "prompt"} & request.keys()):
        return Call(dialect="logfire", kind="chain") if "input" in request else None  # embeddings
    system, given = system_and_rest(messages(request).said)
    answer = next(
        (held[key] for key in ("message", "text", "combined_chunk_content") if held.get(key) is not None), None
    )
    came = listed(messages(answer, "assistant").said)
    return Call(
        dialect="logfire",
        kind="model",
        system=system,
        input=listed(given),
        output=came,
        error=failure(span, answered=came is not None),
        model=text_at(attributes, "gen_ai.response.model", "gen_ai.request.model") or text_at(request, "model"),
        usage=usage_of(held.get("usage")),
        found={field: key for field, key in (("input", _REQUEST), ("output", _RESPONSE)) if key in attributes},
    )


def _is_absent(value: Json) -> bool:
    """Whether a parameter was not given: the clients' marks for that are written down as Python shows them."""
    return isinstance(value, str) and value.startswith("<") and " object at 0x" in value


def _model(span: Span) -> Call | None:
    attributes = span.attributes
    told = message_events.told(_events(attributes.get("events")))
    given, came = told.input, told.output
    raw, raw_at = found_at(attributes, "raw_input", "input")
    response = as_dict(decoded(attributes.get("response")))
    answer, answer_at = (response, "response") if response else found_at(attributes, "output")
    if not given:
        given = messages(raw).said
    if not came:
        came = messages(answer, "assistant").said
    if not came and "gen_ai.usage.output_tokens" in attributes:
        given, came = _answered(given)
    if not (given or came or span.failed):
        return None
    system, rest = system_and_rest(given)
    return Call(
        dialect="logfire",
        kind="model",
        system=text_at(response, "instructions") or system,
        input=listed(rest),
        output=listed(came),
        finish=finish_of(response.get("status")),
        error=failure(span, answered=bool(came)),
        model=text_at(response, "model"),
        response_id=_identifier(attributes.get("response_id")) or text_at(response, "id"),
        found={"input": "events" if told.input else raw_at, "output": "events" if told.output else answer_at},
    )


def _answered(told: Sequence[Said]) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
    """The events of a call that ended well, parted where the answer begins: it has the name of any earlier one."""
    end = len(told)
    while end and told[end - 1].role == "assistant":
        end -= 1
    return tuple(told[:end]), tuple(told[end:])


def _identifier(value: Json) -> str | None:
    return value if isinstance(value, str) and value not in {"", "null"} else None


def _tool(attributes: Attributes, name: str | None, given_at: str, came_at: str) -> Call:
    if not name:
        return Call(dialect="logfire")
    call = ToolCall(
        id=text_at(attributes, "gen_ai.tool.call.id"),
        name=name,
        arguments=arguments(json_value(attributes.get(given_at))),
        result=decoded(attributes.get(came_at)),
    )
    return Call(dialect="logfire", kind="tool", tool=call, found={"arguments": given_at, "result": came_at})


def _documents(attributes: Attributes) -> Call | None:
    """An application's own span around its retrieval."""
    passages = passages_in(attributes["documents"])
    items = [as_dict(each) for each in as_list(decoded(attributes["documents"]))]
    if not items or not all(passage(item).text for item in items):
        return None
    kind: Kind = "retrieval"
    query = text_at(attributes, "query", "question")
    return Call(dialect="logfire", kind=kind, passages=passages, query=query, found={"passages": "documents"})


DIALECT = Dialect(
    name="logfire",
    rank=270,
    read=read,
    evidence=(
        "logfire.feedback.name", "pydantic_ai.*", "all_messages_events", "final_result", "tool_arguments",
        "tool_response", "events", "raw_input", "documents", _REQUEST,
    ),
    scopes=(_AGENTS_SCOPE, "logfire.feedback"),
    carries=Carries(
        libraries="Pydantic AI (all formats), Logfire's OpenAI and OpenAI Agents integrations",
        messages="agents' messages, events; otherwise by the conventions",
        tools="messages, tool spans",
        retrieval="an application's span with documents",
        conversation="gen_ai.conversation.id, session_id, group_id",
        user="user_id, metadata",
        feedback="feedback spans",
    ),
)  # fmt: skip
