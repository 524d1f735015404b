"""Facts about a conversation as a whole, which travel with its turns: through the logs there are only turns."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from collector.errors import BadInput
from evaluators.cases import Turn

_FIELDS = ("chatbot_role", "scenario", "expected_outcome")


def with_conversation_fields(turn: Turn, document: Mapping[str, object]) -> Turn:
    """The turn, with what a conversation's document says of the whole among its attributes (`conversation.scenario`).

    Raises:
        BadInput: it is no text.
    """
    fields = {name: document[name] for name in _FIELDS if document.get(name) is not None}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise BadInput(f"not a conversation: {name}: a text is needed")
    named = {f"conversation.{name}": value for name, value in fields.items()}
    return replace(turn, attributes={**named, **turn.attributes}) if named else turn


def conversation_fields(turns: Iterable[Turn]) -> dict[str, Any]:
    """The texts of turns about their conversation, by the names of its fields; the last non-empty one counts."""
    fields: dict[str, Any] = {}
    for turn in turns:
        for name in _FIELDS:
            value = turn.attributes.get(f"conversation.{name}")
            if isinstance(value, str) and value:
                fields[name] = value
    return fields
