"""OpenLIT's first generation, and others that write prompt and completion as two span events.

`gen_ai.content.prompt` has one text with all messages, each a line `role: text`. A user's pasted text may look the
same, so the borders between messages are guessed. Newer versions follow the conventions.
"""

import re
from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction
from collector.dialects.call import Call, ChatMessage, parse_finish_reason
from collector.dialects.decode import as_list, decode, decode_json, parse_repr
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages, parse_tool_calls, split_input
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_PROMPT = "gen_ai.content.prompt"
_COMPLETION = "gen_ai.content.completion"
_BORDER = re.compile(r"^(system|developer|user|assistant|model|tool): ", re.MULTILINE)
_SCOPE = "openlit"
_CALL = re.compile(r"(?:chat|text_completion|generate_content) |openai\.chat\.")
_STAND_IN = "Function called with tools"
"""The text that 1.33.0 writes instead of the answer of every call with tools."""


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the two events; a failed call has neither events nor attributes, only its name identifies it."""
    events = {event.name: event.attributes for event in span.events if event.name in {_PROMPT, _COMPLETION}}
    if not events:
        is_call = span.failed and span.scope.startswith(_SCOPE) and not span.attributes and _CALL.match(span.name)
        return Call(kind="model", error=find_error(span, answered=False)) if is_call else None
    prompt = events.get(_PROMPT, {}).get("gen_ai.prompt")
    completion = _get_first_choice(events.get(_COMPLETION, {}).get("gen_ai.completion"))
    input_messages, uncertain = (
        _parse_prompt(prompt) if isinstance(prompt, str) else (parse_messages(prompt).messages, False)
    )
    calls = parse_tool_calls(span.attributes.get("gen_ai.response.tool_calls")) or _parse_tool_calls(span.attributes)
    output_messages = _parse_answer(completion, has_calls=bool(calls))
    if calls:
        output_messages = (ChatMessage("assistant", output_messages[0].text if output_messages else "", calls),)
    stand_in = completion == _STAND_IN and not calls
    return Call(
        kind="model",
        **split_input(input_messages),
        output=None if stand_in else output_messages,
        input_incomplete=find_redaction(prompt),
        output_incomplete="no_content" if stand_in else find_redaction(completion),
        finish_reason=parse_finish_reason(decode_json(span.attributes.get("gen_ai.response.finish_reasons"))),
        error=find_error(span, answered=output_messages is not None),
        uncertain=uncertain,
        sources={field: name for field, name in (("input", _PROMPT), ("output", _COMPLETION)) if name in events},
    )


def _get_first_choice(value: Json) -> Json:
    """The first choice: Spring AI writes a list with a text for each."""
    several = as_list(value)
    return several[0] if several else value


def _parse_prompt(text: str) -> tuple[tuple[ChatMessage, ...], bool]:
    transcript = parse_messages(text)
    if transcript.is_structured:
        return transcript.messages, False
    borders = list(_BORDER.finditer(text))
    if not borders or text[: borders[0].start()].strip():
        return transcript.messages, False
    ends = [border.start() for border in borders[1:]] + [len(text)]
    messages: list[ChatMessage] = []
    for border, end in zip(borders, ends, strict=True):
        piece = text[border.end() : end].strip("\n")
        dumped_messages = parse_messages(piece).messages if piece.startswith(("[{'", '[{"')) else ()
        if dumped_messages:  # a tool call or its result: the whole request again, as a repr
            messages = (
                [*dumped_messages]
                if any(message.role == "user" for message in dumped_messages)
                else [*messages, *dumped_messages]
            )
        elif border[1] != "tool" or not any(message.role == "tool" for message in messages):
            messages += _parse_piece(border[1], piece)
    return tuple(messages), len(borders) > 1


_KIND = re.compile(r"(?:^|, )(text|input_text|image_url|image|input_image|function_call|function_response): ")
_NAME = re.compile(r"\bname='([^']*)'")
_ID = re.compile(r"\bid=(?:'([^']*)'|None)")
_VALUE = {"function_call": re.compile(r"\bargs=(?=\{)"), "function_response": re.compile(r"\bresponse=(?=\{)")}
"""Gemini's parts as reprs, with their fields in any order, separated by spaces."""


def _parse_piece(role: str, text: str) -> tuple[ChatMessage, ...]:
    """Parse one message; a list of parts is written with each part's kind before it."""
    kinds = list(_KIND.finditer(text))
    if not kinds or kinds[0].start() > 0:
        return parse_messages([{"role": role, "content": text}]).messages
    ends = [match.start() for match in kinds[1:]] + [len(text)]
    parts = [_parse_part(kind[1], text[kind.end() : end]) for kind, end in zip(kinds, ends, strict=True)]
    return parse_messages([{"role": role, "content": parts}]).messages


def _parse_part(kind: str, text: str) -> dict[str, Json]:
    name, value = (_NAME.search(text), _VALUE[kind].search(text)) if kind in _VALUE else (None, None)
    end = text.rfind("}") + 1
    if name is None or value is None or end <= value.end():
        return {"type": kind, "text": text}
    identity = _ID.search(text)
    about: dict[str, Json] = {"id": identity[1] if identity else None, "name": name[1]}
    content = parse_repr(text[value.end() : end])
    if kind == "function_call":
        return {"type": "tool_call", **about, "arguments": content}
    return {"type": "tool_call_response", **about, "response": content}


def _parse_tool_calls(attributes: Attributes) -> tuple[ToolCall, ...]:
    """Parse tool calls with names, ids and arguments in three attributes, separated by commas.

    Some versions write only the last of several names: then the calls before it are unknown.
    """
    listed = (attributes.get(f"gen_ai.tool.{key}") for key in ("name", "call.id"))
    names, ids = (value.split(", ") if isinstance(value, str) and value else [] for value in listed)
    call_arguments = _parse_arguments(attributes.get("gen_ai.tool.args"))[-len(names) :] if names else []
    if len(call_arguments) != len(names):
        return ()
    known = len(ids) == len(names)
    return tuple(
        ToolCall(id=ids[index] if known else None, name=name, arguments=value)
        for index, (name, value) in enumerate(zip(names, call_arguments, strict=True))
    )


_NEXT = re.compile(r"(?<=\}),? ?(?=\{)")


def _parse_arguments(value: Json) -> list[Json]:
    if not isinstance(value, str):
        return []
    document = decode(value)
    if not isinstance(document, str):
        return as_list(document) or [document]
    several = [decode(part) for part in _NEXT.split(value)]
    return several if all(isinstance(each, dict) for each in several) else []


def _parse_answer(completion: object, *, has_calls: bool) -> tuple[ChatMessage, ...] | None:
    if not isinstance(completion, str):
        return None
    transcript = parse_messages(completion, "assistant")
    if transcript.is_structured and transcript.messages:
        return transcript.messages
    return (ChatMessage("assistant", "" if has_calls and completion == "None" else completion),)


DIALECT = Dialect(
    name="openlit",
    rank=280,
    read=read,
    scopes=(_SCOPE,),
    events=frozenset({_PROMPT, _COMPLETION}),
    coverage=Coverage(
        libraries="OpenLIT ≤ 1.33 and others of its generation",
        messages="span events (borders between messages are guessed)",
        tools="gen_ai.response.tool_calls",
        conversation="session.id, if the application sets it",
        user="user.id, if the application sets it",
    ),
)
