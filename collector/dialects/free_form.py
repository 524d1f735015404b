"""Question and answer in what wrappers write down: a function's arguments, a chain's state, a text.

Nothing defines these values. What is read here is only believed by `assemble` where a model call confirms it, or where
nothing else tells what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collector.dialects.call import Said
from collector.dialects.decode import as_dict, as_list, document
from collector.dialects.messages import messages, printed
from collector.dialects.parts import Dict
from collector.dialects.reading import looks_like_repr, masked_hole
from evaluators.cases import Incomplete, Json

QUESTION_KEYS = (
    "question", "query", "query_str", "query_bundle", "user_input", "user_message", "user_query", "input", "prompt",
    "message", "text", "content", "request", "task", "q", "inputs", "kwargs", "args",
)  # fmt: skip
ANSWER_KEYS = (
    "answer", "final_answer", "final_output", "final_result", "response", "output", "result", "output_text", "reply",
    "completion", "generation", "text", "content", "message", "raw", "outputs",
)  # fmt: skip
_SHAPES = frozenset({"messages", "choices", "candidates", "generations", "contents", "replies", "role", "lc", "parts"})
_MAX_DEPTH = 4


class Side(NamedTuple):
    """One side of an exchange: messages, None if there are none to be read, and why."""

    said: tuple[Said, ...] | None
    hole: Incomplete | None = None


def question_in(value: Json) -> Side:
    """What was asked, from a text, a JSON document, or a value."""
    return _side(value, "user", QUESTION_KEYS)


def answer_in(value: Json) -> Side:
    """What was answered, from a text, a JSON document, or a value."""
    return _side(value, "assistant", ANSWER_KEYS)


def _side(value: Json, role: str, keys: Sequence[str]) -> Side:
    if value is None:
        return Side(None)
    if not isinstance(value, str):
        return Side(_said(value, role, keys, _MAX_DEPTH))
    hole = masked_hole(value)
    if hole:
        return Side(None, hole)
    found = document(value)
    if found is None:
        return Side(_text(value, role))
    said = _said(found.value, role, keys, _MAX_DEPTH)
    if not found.whole:
        return Side(said, "truncated")
    return Side(said)


def _said(value: Json, role: str, keys: Sequence[str], depth: int) -> tuple[Said, ...] | None:
    if isinstance(value, str):
        return _text(value, role)
    if depth <= 0 or not isinstance(value, (dict, list)):
        return None
    held = as_dict(value)
    if (held and _SHAPES & held.keys()) or any(_SHAPES & as_dict(each).keys() for each in as_list(value)):
        return messages(value, role).said or None
    if held:
        return _picked(held, role, keys, depth)
    commands = messages(value, role).said if as_dict(as_list(value)[0] if value else None).get("update") else ()
    if commands:
        return commands
    return next((said for each in as_list(value)[:4] if (said := _said(each, role, keys, depth - 1))), None)


def _picked(held: Dict, role: str, keys: Sequence[str], depth: int) -> tuple[Said, ...] | None:
    for key in keys:
        if key in held:
            said = _said(held[key], role, keys, depth - 1)
            if said:
                return said
    only = next(iter(held.values())) if role == "user" and len(held) == 1 else None  # arguments are called anything
    return _text(only, role) if isinstance(only, str) else None


def _text(value: str, role: str) -> tuple[Said, ...] | None:
    if not value.strip() or looks_like_repr(value):
        return None
    return (printed(value, role) or Said(role, value),)
