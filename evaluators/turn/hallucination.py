"""Hallucination: contradictions of an answer to what is known to be right."""

from typing import ClassVar

from evaluators.evaluator import Direction
from evaluators.mechanisms.item_verdicts import RatioSpec
from evaluators.mechanisms.turn_ratio import TurnRatio, TurnRatioSpec


class Hallucination(TurnRatio):
    """The share of the context's texts that the answer contradicts. Lower is better.

    The judge gives each text of the context a verdict.
    """

    kind: ClassVar[str] = "hallucination"
    direction: ClassVar[Direction] = "lower_is_better"
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "hallucination",
        ratio=RatioSpec(empty_score=0.0, noun="texts", predicate="are contradicted"),
        list_field="context",
        companion_fields=("actual_output",),
    )
