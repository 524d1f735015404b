"""OpenLIT's first generation, and others that write prompt and completion as two span events.

`gen_ai.content.prompt` has one text with all messages, `role: text` each in a line of its own. What a user pasted may
look the same, so where one message ends is a guess; newer versions follow the conventions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collector.dialects.call import Call, Said, finish_of, listed
from collector.dialects.decode import as_list, decoded, json_value, python_value
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages, system_and_rest, tool_calls
from collector.dialects.reading import failure, masked_hole
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_PROMPT = "gen_ai.content.prompt"
_COMPLETION = "gen_ai.content.completion"
_BORDER = re.compile(r"^(system|developer|user|assistant|model|tool): ", re.MULTILINE)
_SCOPE = "openlit"
_CALL = re.compile(r"(?:chat|text_completion|generate_content) |openai\.chat\.")
_STAND_IN = "Function called with tools"
"""What 1.33.0 writes for every answer of a call that was offered tools, whatever the answer was."""


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read the two events; a failed call has none, nor any attribute: only its name tells what it was."""
    events = {event.name: event.attributes for event in span.events if event.name in {_PROMPT, _COMPLETION}}
    if not events:
        is_call = span.failed and span.scope.startswith(_SCOPE) and not span.attributes and _CALL.match(span.name)
        return Call(dialect="openlit", kind="model", error=failure(span, answered=False)) if is_call else None
    prompt = events.get(_PROMPT, {}).get("gen_ai.prompt")
    completion = _single(events.get(_COMPLETION, {}).get("gen_ai.completion"))
    given, uncertain = _prompt(prompt) if isinstance(prompt, str) else (messages(prompt).said, False)
    system, given = system_and_rest(given)
    calls = tool_calls(span.attributes.get("gen_ai.response.tool_calls")) or _calls(span.attributes)
    output = _answer(completion, calls_there=bool(calls))
    if calls:
        output = (Said("assistant", output[0].text if output else "", calls),)
    stand_in = completion == _STAND_IN and not calls
    return Call(
        dialect="openlit",
        kind="model",
        system=system,
        input=listed(given),
        output=None if stand_in else output,
        input_hole=masked_hole(prompt),
        output_hole="no_content" if stand_in else masked_hole(completion),
        finish=finish_of(json_value(span.attributes.get("gen_ai.response.finish_reasons"))),
        error=failure(span, answered=output is not None),
        uncertain=uncertain,
        found={field: name for field, name in (("input", _PROMPT), ("output", _COMPLETION)) if name in events},
    )


def _single(value: Json) -> Json:
    """Spring AI writes a list of texts, one for every choice."""
    several = as_list(value)
    return several[0] if several else value


def _prompt(text: str) -> tuple[tuple[Said, ...], bool]:
    heard = messages(text)
    if heard.shaped:
        return heard.said, False
    borders = list(_BORDER.finditer(text))
    if not borders or text[: borders[0].start()].strip():
        return heard.said, False
    ends = [border.start() for border in borders[1:]] + [len(text)]
    said: list[Said] = []
    for border, end in zip(borders, ends, strict=True):
        piece = text[border.end() : end].strip("\n")
        whole = messages(piece).said if piece.startswith(_DUMP) else ()
        if whole:  # a call of a tool, or its answer: the whole request again, as a repr
            said = [*whole] if any(each.role == "user" for each in whole) else [*said, *whole]
        elif border[1] != "tool" or not any(each.role == "tool" for each in said):
            said += _piece(border[1], piece)
    return tuple(said), len(borders) > 1


_DUMP = ("[{'", '[{"')
_KIND = re.compile(r"(?:^|, )(text|input_text|image_url|image|input_image|function_call|function_response): ")
_NAMED = r"(?=.*?\bname='(?P<name>[^']*)')(?=.*?\bid=(?:'(?P<id>[^']*)'|None))?"
_CALLED = re.compile(rf"{_NAMED}.*?\bargs=(?P<value>\{{.*\}})", re.DOTALL)
_CAME = re.compile(rf"{_NAMED}.*?\bresponse=(?P<value>\{{.*\}})", re.DOTALL)
"""Gemini's parts as reprs: their fields stand in any order, with spaces between them."""


def _piece(role: str, text: str) -> tuple[Said, ...]:
    """One message; of a list of parts, each is there with its kind before it."""
    kinds = list(_KIND.finditer(text))
    if not kinds or kinds[0].start() > 0:
        return messages([{"role": role, "content": text}]).said
    ends = [each.start() for each in kinds[1:]] + [len(text)]
    parts = [_part(kind[1], text[kind.end() : end]) for kind, end in zip(kinds, ends, strict=True)]
    return messages([{"role": role, "content": parts}]).said


def _part(kind: str, text: str) -> dict[str, Json]:
    found = {"function_call": _CALLED, "function_response": _CAME}[kind].match(text) if "function" in kind else None
    if found is None:
        return {"type": kind, "text": text}
    about: dict[str, Json] = {"id": found["id"], "name": found["name"]}
    value = python_value(found["value"])
    if kind == "function_call":
        return {"type": "tool_call", **about, "arguments": value}
    return {"type": "tool_call_response", **about, "response": value}


def _calls(attributes: Attributes) -> tuple[ToolCall, ...]:
    """Tool calls whose names, ids and arguments stand in three attributes, with commas between them.

    Some versions keep the last name of several calls only: the calls before it are unknown.
    """
    names, ids = (_several(attributes.get(f"gen_ai.tool.{key}")) for key in ("name", "call.id"))
    given = _arguments(attributes.get("gen_ai.tool.args"))[-len(names) :] if names else []
    if len(given) != len(names):
        return ()
    known = len(ids) == len(names)
    return tuple(
        ToolCall(id=ids[index] if known else None, name=name, arguments=value)
        for index, (name, value) in enumerate(zip(names, given, strict=True))
    )


def _several(value: Json) -> list[str]:
    return value.split(", ") if isinstance(value, str) and value else []


_NEXT = re.compile(r"(?<=\}),? ?(?=\{)")


def _arguments(value: Json) -> list[Json]:
    if not isinstance(value, str):
        return []
    found = decoded(value)
    if not isinstance(found, str):
        return as_list(found) or [found]
    several = [decoded(each) for each in _NEXT.split(value)]
    return several if all(isinstance(each, dict) for each in several) else []


def _answer(completion: object, *, calls_there: bool) -> tuple[Said, ...] | None:
    if not isinstance(completion, str):
        return None
    heard = messages(completion, "assistant")
    if heard.shaped and heard.said:
        return heard.said
    return (Said("assistant", "" if calls_there and completion == "None" else completion),)


DIALECT = Dialect(
    name="openlit",
    rank=280,
    read=read,
    evidence=(),
    scopes=(_SCOPE,),
    events=frozenset({_PROMPT, _COMPLETION}),
    carries=Carries(
        libraries="OpenLIT ≤ 1.33 and others of its generation",
        messages="span events (borders between messages are guessed)",
        tools="gen_ai.response.tool_calls",
        conversation="session.id, if the application sets it",
        user="user.id, if the application sets it",
    ),
)
