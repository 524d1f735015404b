"""Whether the user got everything he wanted."""

from __future__ import annotations

from typing import ClassVar

from evaluators.survey import ConversationRatio, Survey
from evaluators.verdicts import Share


class Completeness(ConversationRatio):
    """The share of the user's wishes that were met by the end of the conversation.

    The judge lists the wishes, then gives each a verdict; those it cannot decide on count as met. A conversation
    without a wish gets 1.
    """

    kind: ClassVar[str] = "completeness"
    survey: ClassVar[Survey] = Survey(
        "completeness",
        share=Share(counts=frozenset({"yes", "unclear"}), without_items=1.0, noun="wishes", holds="were met"),
        extracted=True,
        shown=("tools_called",),
    )
    prompts: ClassVar[tuple[str, ...]] = survey.prompts
