"""Outcomes that references bring, as scores."""

from __future__ import annotations

from typing import Any

import pytest

from evaluators import Conversation, Score, Turn, evaluate_sync
from evaluators.conversation.outcome import ConversationOutcome
from evaluators.turn.outcome import ExternalOutcome


@pytest.mark.parametrize(
    ("good", "value", "score"),
    [
        ([False], False, 1.0),
        ([False], True, 0.0),
        ([False], 0, 0.0),
        ([True], 1, 0.0),
        ([1], True, 0.0),
        ([0, 1], 1.0, 1.0),
        (["solved", "closed"], "closed", 1.0),
        (["solved"], "Solved", 0.0),
    ],
)
def test_a_good_value_scores_1_and_true_is_not_1(good: list[Any], value: Any, score: float) -> None:
    turn = Turn(attributes={"outcome.end": value})
    result = evaluate_sync(ExternalOutcome(name="o", outcome="end", good=tuple(good)), turn).outcome
    assert isinstance(result, Score)
    assert result.value == score
    conversation = Conversation(turns=(Turn(),), attributes={"outcome.end": value})
    result = evaluate_sync(ConversationOutcome(name="o", outcome="end", good=tuple(good)), conversation).outcome
    assert isinstance(result, Score)
    assert result.value == score
