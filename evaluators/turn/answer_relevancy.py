"""Answer relevancy: is the answer about the question?"""

from typing import ClassVar

from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec


class AnswerRelevancy(TurnRatio):
    """The share of the answer's statements that serve to answer the input.

    The judge lists the statements, then gives each a verdict; an undecided statement counts as relevant. An answer
    without statements gets 1.
    """

    kind: ClassVar[str] = "answer_relevancy"
    trivial_without: ClassVar[str | None] = "actual_output"
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "answer_relevancy",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="statements", predicate="are relevant"),
        extract_from=("actual_output",),
        extract_beside=("input",),
        companion_fields=("input",),
    )
