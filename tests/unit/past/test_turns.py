"""The order in which a conversation of the past is judged again."""

from dataclasses import replace

import pytest
from evaluation_samples import of_conversation

from collector.past.turns import by_conversation, case_of
from evaluators.cases import Conversation, Turn


@pytest.mark.parametrize("ids", [("t-9", "t-10", "t-11"), ("b", "a")])
def test_turns_without_a_start_stand_in_the_order_of_their_arrival(ids: tuple[str, ...]) -> None:
    evaluation = of_conversation()
    subject = replace(evaluation.subject, conversation_id="c", links=())
    evaluation = replace(evaluation, subject=subject, attributes={})
    turns = by_conversation(Turn(turn_id=each, conversation_id="c", input="q", actual_output="a") for each in ids)
    judged = case_of(evaluation, turns)
    assert isinstance(judged, Conversation)
    assert [turn.turn_id for turn in judged.turns] == list(ids)
