"""A case for a judge: what is found in it is numbered; what has nothing of the kind is not copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.redact.finding import Finding
from collector.redact.patterns import find
from collector.redact.redactor import RedactionFailed, Redactor, redact_as_stored, redact_case
from evaluators.cases import Conversation, Message, ToolCall, Turn

CLEAN = Turn(turn_id="turn", trace_id="trace", input="Where is my order?", attributes={"environment": "production"})
WITH_ADDRESS = replace(CLEAN, turn_id="other", input="Write to jane@example.org", actual_output="To jane@example.org.")
REDACTOR = Redactor((find,), b"a key")


def test_a_case_without_anything_to_redact_is_the_same_object() -> None:
    assert redact_case(CLEAN, REDACTOR) is CLEAN
    assert redact_as_stored(CLEAN, REDACTOR) is CLEAN


def test_of_a_conversation_only_what_has_something_is_replaced() -> None:
    seen = redact_case(Conversation(conversation_id="c", turns=(CLEAN, WITH_ADDRESS)), REDACTOR)
    assert isinstance(seen, Conversation)
    assert seen.turns[0] is CLEAN
    assert (seen.turns[1].input, seen.turns[1].actual_output) == ("Write to <EMAIL_1>", "To <EMAIL_1>.")
    assert seen.turns[1].turn_id == "other"


def test_what_lies_inside_an_attribute_is_replaced() -> None:
    seen = redact_case(replace(CLEAN, attributes={"nested": {"address": "jane@example.org"}}), REDACTOR)
    assert isinstance(seen, Turn)
    assert seen.attributes == {"nested": {"address": "<EMAIL_1>"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"input": "Write to jane@example.org"},
        {"input": "Call <PHONE_k3f7x2ab> back"},
        {"input": '{"a": "\\u006aane\\u0040example.org"}'},
        {"history": (Message(role="user", content="My card is 4111 1111 1111 1111."),)},
        {"attributes": {"api_key": "abcdef-123456"}},
        {"attributes": {"nested": [{"card": 4111111111111111}]}},
        {"attributes": {"jane@example.org": "a name"}},
        {"attributes": {"half of a character": "\ud800 jane@example.org"}},
        {"tools_called": (ToolCall(name="mail", arguments={"to": "jane@example.org", "number": 10**30}),)},
        {"retrieval_context": ("Jane's address:", "jane@example.org")},
    ],
)
def test_what_one_glance_at_all_texts_shows_is_what_each_shows(changes: dict[str, Any]) -> None:
    turn = replace(CLEAN, actual_output="Ω — fine.\n" * 2000, **changes)
    seen = redact_case(turn, REDACTOR)
    assert {name for name in changes if getattr(seen, name) != getattr(turn, name)} == set(changes)
    assert seen == replace(turn, **{name: getattr(seen, name) for name in changes})


def test_a_detector_that_cannot_tell_at_a_glance_looks_at_every_text() -> None:
    seen: list[str] = []

    def find_nothing(text: str) -> list[Finding]:
        seen.append(text)
        return []

    assert redact_case(CLEAN, Redactor((find_nothing,), b"a key")) is CLEAN
    assert "Where is my order?" in seen


def test_what_is_nested_too_deeply_is_not_sent() -> None:
    deep: Any = "jane@example.org"
    for _ in range(120):
        deep = [deep]
    with pytest.raises(RedactionFailed):
        redact_case(replace(CLEAN, attributes={"deep": deep}), REDACTOR)
