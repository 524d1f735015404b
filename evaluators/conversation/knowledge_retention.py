"""Knowledge retention: does the application remember the user's words?"""

from typing import ClassVar

from evaluators.mechanisms.conversation_ratio import ConversationRatio, ConversationRatioSpec
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec


class KnowledgeRetention(ConversationRatio):
    """The share of the application's answers that forget or contradict nothing the user said.

    The judge gives each answer a verdict, with the whole conversation in view; an undecided answer counts as good.
    """

    kind: ClassVar[str] = "knowledge_retention"
    spec: ClassVar[ConversationRatioSpec] = ConversationRatioSpec(
        "knowledge_retention",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="answers", predicate="fit what was said"),
        required_fields=("actual_output",),
        lookback=None,
    )
