"""Frustration of the user with the application."""

from typing import ClassVar

from evaluators.evaluator import Direction
from evaluators.mechanisms.conversation_ratio import ConversationRatio, ConversationRatioSpec
from evaluators.mechanisms.item_verdicts import RatioSpec


class Frustration(ConversationRatio):
    """The share of the user's messages that show frustration with the application. Lower is better.

    The judge gives each message a verdict; an undecided message counts as calm.
    """

    kind: ClassVar[str] = "frustration"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input"})
    direction: ClassVar[Direction] = "lower_is_better"
    spec: ClassVar[ConversationRatioSpec] = ConversationRatioSpec(
        "frustration",
        ratio=RatioSpec(empty_score=0.0, noun="messages", predicate="show frustration"),
        required_fields=("input",),
    )
