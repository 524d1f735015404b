"""Contextual relevancy: do the retrieved passages help to answer the question?"""

from typing import ClassVar

from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec


class ContextualRelevancy(TurnRatio):
    """The share of the retrieved passages that help to answer the input.

    The judge gives each passage a verdict. The score says nothing about the answer.
    """

    kind: ClassVar[str] = "contextual_relevancy"
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "contextual_relevancy",
        ratio=RatioSpec(empty_score=0.0, noun="passages", predicate="help to answer"),
        list_field="retrieval_context",
        companion_fields=("input",),
    )
