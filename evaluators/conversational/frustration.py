"""Whether the user was frustrated with the application."""

from __future__ import annotations

from typing import ClassVar

from evaluators.evaluator import Direction
from evaluators.survey import ConversationRatio, Survey
from evaluators.verdicts import Share


class Frustration(ConversationRatio):
    """The share of the user's messages that show frustration with the application. Lower is better.

    The judge gives each message a verdict; those it cannot decide on count as calm.
    """

    kind: ClassVar[str] = "frustration"
    direction: ClassVar[Direction] = "lower_is_better"
    survey: ClassVar[Survey] = Survey(
        "frustration",
        share=Share(counts=frozenset({"yes"}), without_items=0.0, noun="messages", holds="show frustration"),
        judged=("input",),
    )
    prompts: ClassVar[tuple[str, ...]] = survey.prompts

    @property
    def requires(self) -> frozenset[str]:
        """What the user said."""
        return frozenset({"turns.input"})
