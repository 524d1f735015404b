"""A case for a judge: what is found in it is numbered; what has nothing of the kind is not copied."""

from __future__ import annotations

from dataclasses import replace

from collector.redact.cases import redact_as_stored, redact_case
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.cases import Conversation, Turn

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
