"""Whether the application remembers what the user said."""

from __future__ import annotations

from typing import ClassVar

from evaluators.survey import ConversationRatio, Survey
from evaluators.verdicts import Share


class KnowledgeRetention(ConversationRatio):
    """The share of the application's answers that forget or contradict nothing the user said.

    The judge gives each answer a verdict, with the whole conversation in view; those it cannot decide on count as good.
    """

    kind: ClassVar[str] = "knowledge_retention"
    survey: ClassVar[Survey] = Survey(
        "knowledge_retention",
        share=Share(counts=frozenset({"no", "unclear"}), without_items=1.0, noun="answers", holds="forget nothing"),
        judged=("actual_output",),
    )
    prompts: ClassVar[tuple[str, ...]] = survey.prompts
