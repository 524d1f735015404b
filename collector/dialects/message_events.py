"""Messages as events, one each: the conventions' earlier generation, still the default of several libraries.

`gen_ai.{system,user,assistant,tool}.message` and `gen_ai.choice`, as log records with a body or as span events with
attributes. The role is in the name, the order of the events is the order of the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from collector.dialects.call import Said
from collector.dialects.decode import as_dict, json_value
from collector.dialects.messages import choice_message, messages
from collector.dialects.parts import Dict
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
"""The names before those; LiteLLM writes records of these names, each with a message or a choice as its body."""
NAMES = frozenset({CHOICE, *ROLE_OF})
RECORDS = NAMES | {PROMPT, COMPLETION}


class Told(NamedTuple):
    """The messages of events: what was given and what came back."""

    input: tuple[Said, ...]
    output: tuple[Said, ...]


def told(events: Iterable[tuple[str, Json]], *, encoded: bool = False) -> Told:
    """Read events, given as (name, body or attributes); `encoded` if their contents are JSON of blocks."""
    given: list[Said] = []
    came: list[Said] = []
    for name, raw in events:
        body = _body(raw)
        if name == CHOICE or (name == COMPLETION and "message" in body):
            _add_choice(came, body, encoded=encoded)
        elif name == COMPLETION:
            came += messages(body.get("gen_ai.completion"), "assistant").said
        elif name == PROMPT:
            given += messages(body if "role" in body else body.get("gen_ai.prompt")).said
        elif name in ROLE_OF:
            given += _message(body, ROLE_OF[name], encoded=encoded)
    return Told(tuple(given), tuple(came))


def _add_choice(came: list[Said], body: Dict, *, encoded: bool) -> None:
    """Add a choice. Of a stream, google-genai tells every chunk as one, and a finish reason in the last only."""
    chosen = _choice(body, encoded=encoded)
    if came and chosen and came[-1].finish is None and isinstance(body.get("content"), dict):
        first = came.pop()
        chosen = (joined(first, chosen[0]), *chosen[1:])
    came += chosen


def joined(first: Said, then: Said) -> Said:
    """Two pieces of one message."""
    return first._replace(text=first.text + then.text, calls=(*first.calls, *then.calls), finish=then.finish)


def _body(raw: Json) -> Dict:
    body = as_dict(json_value(raw))
    if "gen_ai.event.content" in body:  # the generation before: everything as JSON in one attribute
        return as_dict(json_value(body["gen_ai.event.content"]))
    return body


def _message(body: Dict, role: str, *, encoded: bool) -> tuple[Said, ...]:
    content = body.get("content")
    if isinstance(content, dict) and content.keys() == {"tools"}:
        return ()  # what tools there are: OpenLLMetry tells it as words of the user
    if isinstance(content, dict) and ("role" in content or "parts" in content):
        return messages(content, role).said  # Gemini's contents carry their own role
    if encoded and isinstance(content, str):
        heard = messages(content, role)
        if heard.shaped:
            return heard.said
    return messages({**body, "role": role}).said


def _silence(message: str) -> str:
    """A message without content, which an empty list of blocks stands for."""
    return "" if message == "[]" else message


def _choice(body: Dict, *, encoded: bool) -> tuple[Said, ...]:
    message = body.get("message")
    if isinstance(message, str):
        said = (messages(message, "assistant").said if encoded else ()) or (Said("assistant", _silence(message)),)
        finish = choice_message({**body, "message": {"role": "assistant"}})
        return tuple(each._replace(finish=finish.finish if finish else None) for each in said)
    single = choice_message(body if message or "content" in body else {**body, "message": {"role": "assistant"}})
    return (single,) if single else ()
