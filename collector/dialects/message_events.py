"""Messages written as one event each: the conventions' earlier generation, still the default of several libraries.

`gen_ai.{system,user,assistant,tool}.message` and `gen_ai.choice`, as log records with a body or as span events with
attributes. The role is in the name, the order of the events is the order of the messages.
"""

from collections.abc import Iterable
from typing import NamedTuple

from collector.dialects.call import ChatMessage
from collector.dialects.decode import as_dict, decode_json
from collector.dialects.messages import parse_choice, parse_messages
from collector.dialects.parts import JsonObject
from evaluators.cases import Json

CHOICE = "gen_ai.choice"
ROLE_OF: dict[str, str] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
PROMPT = "gen_ai.content.prompt"
COMPLETION = "gen_ai.content.completion"
"""The names before those; LiteLLM writes log records of these names, with a message or a choice as the body."""
NAMES: frozenset[str] = frozenset({CHOICE, *ROLE_OF})
RECORDS: frozenset[str] = NAMES | {PROMPT, COMPLETION}


class EventMessages(NamedTuple):
    """The messages of a call's events."""

    input: tuple[ChatMessage, ...]
    output: tuple[ChatMessage, ...]


def parse_events(events: Iterable[tuple[str, Json]], *, encoded: bool = False) -> EventMessages:
    """Parse events, each a name with its body or attributes; `encoded` if their contents are JSON of blocks."""
    input_messages: list[ChatMessage] = []
    output_messages: list[ChatMessage] = []
    for name, raw in events:
        body = _parse_body(raw)
        if name == CHOICE or (name == COMPLETION and "message" in body):
            _add_choice(output_messages, body, encoded=encoded)
        elif name == COMPLETION:
            output_messages += parse_messages(body.get("gen_ai.completion"), "assistant").messages
        elif name == PROMPT:
            input_messages += parse_messages(body if "role" in body else body.get("gen_ai.prompt")).messages
        elif name in ROLE_OF:
            input_messages += _parse_message(body, ROLE_OF[name], encoded=encoded)
    return EventMessages(tuple(input_messages), tuple(output_messages))


def _add_choice(output_messages: list[ChatMessage], body: JsonObject, *, encoded: bool) -> None:
    """Add a choice. google-genai writes every chunk of a stream as one, with a finish reason in the last only."""
    choice = _parse_choice_event(body, encoded=encoded)
    if (
        output_messages
        and choice
        and output_messages[-1].finish_reason is None
        and isinstance(body.get("content"), dict)
    ):
        choice = (join(output_messages.pop(), choice[0]), *choice[1:])
    output_messages += choice


def join(first: ChatMessage, then: ChatMessage) -> ChatMessage:
    """Join two chunks of one message."""
    return first._replace(
        text=first.text + then.text, tool_calls=(*first.tool_calls, *then.tool_calls), finish_reason=then.finish_reason
    )


def _parse_body(raw: Json) -> JsonObject:
    body = as_dict(decode_json(raw))
    # In the generation before, everything was JSON in one attribute.
    return as_dict(decode_json(body["gen_ai.event.content"])) if "gen_ai.event.content" in body else body


def _parse_message(body: JsonObject, role: str, *, encoded: bool) -> tuple[ChatMessage, ...]:
    content = body.get("content")
    if isinstance(content, dict) and content.keys() == {"tools"}:
        return ()  # the available tools: OpenLLMetry writes them as a user's message
    if isinstance(content, dict) and ("role" in content or "parts" in content):
        return parse_messages(content, role).messages  # Gemini's contents carry their own role
    if encoded and isinstance(content, str):
        transcript = parse_messages(content, role)
        if transcript.is_structured:
            return transcript.messages
    return parse_messages({**body, "role": role}).messages


def _parse_choice_event(body: JsonObject, *, encoded: bool) -> tuple[ChatMessage, ...]:
    message = body.get("message")
    if isinstance(message, str):
        text = "" if message == "[]" else message  # an empty list of blocks means that there is none
        messages = (parse_messages(message, "assistant").messages if encoded else ()) or (
            ChatMessage("assistant", text),
        )
        ending = parse_choice({**body, "message": {"role": "assistant"}})
        return tuple(message._replace(finish_reason=ending.finish_reason if ending else None) for message in messages)
    single = parse_choice(body if message or "content" in body else {**body, "message": {"role": "assistant"}})
    return (single,) if single else ()
