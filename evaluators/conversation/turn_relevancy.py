"""Turn relevancy: does each answer fit what came before it?"""

from typing import ClassVar

from evaluators.mechanisms.conversation_ratio import ConversationRatio, ConversationRatioSpec
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec


class TurnRelevancy(ConversationRatio):
    """The share of the application's answers that respond to what the user just said.

    The judge gives each answer a verdict, with the whole conversation in view; an undecided answer counts as fitting.
    """

    kind: ClassVar[str] = "turn_relevancy"
    spec: ClassVar[ConversationRatioSpec] = ConversationRatioSpec(
        "turn_relevancy",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="answers", predicate="fit"),
        required_fields=("input", "actual_output"),
    )
