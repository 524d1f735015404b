"""Completeness: did the user get everything they wanted?"""

from typing import ClassVar

from evaluators.mechanisms.conversation_ratio import ConversationRatio, ConversationRatioSpec
from evaluators.mechanisms.item_verdicts import RatioSpec


class Completeness(ConversationRatio):
    """The share of the user's wishes that were met by the end of the conversation.

    The judge lists the wishes, then gives each a verdict; an undecided wish counts as unmet, as in `task_completion`. A
    conversation without a wish gets 1.
    """

    kind: ClassVar[str] = "completeness"
    revision: ClassVar[int] = 2
    spec: ClassVar[ConversationRatioSpec] = ConversationRatioSpec(
        "completeness",
        ratio=RatioSpec(noun="wishes", predicate="were met"),
        extracts_items=True,
        extra_fields=("tools_called",),
    )
