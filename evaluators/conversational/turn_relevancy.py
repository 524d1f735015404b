"""Whether each answer fits what was said before it."""

from __future__ import annotations

from typing import ClassVar

from evaluators.survey import ConversationRatio, Survey
from evaluators.verdicts import Share


class TurnRelevancy(ConversationRatio):
    """The share of the application's answers that respond to what the user just said.

    The judge gives each answer a verdict, with the whole conversation in view; those it cannot decide on count as
    fitting.
    """

    kind: ClassVar[str] = "turn_relevancy"
    survey: ClassVar[Survey] = Survey(
        "turn_relevancy",
        share=Share(counts=frozenset({"yes", "unclear"}), without_items=1.0, noun="answers", holds="fit"),
        judged=("input", "actual_output"),
    )
    prompts: ClassVar[tuple[str, ...]] = survey.prompts
