"""Whether an answer contradicts what is known to be right."""

from __future__ import annotations

from typing import ClassVar

from evaluators.evaluator import Direction
from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.verdicts import Share


class Hallucination(TurnRatio):
    """The share of the context's texts that the answer contradicts. Lower is better.

    The judge gives each text of the context a verdict.
    """

    kind: ClassVar[str] = "hallucination"
    direction: ClassVar[Direction] = "lower_is_better"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "hallucination",
        share=Share(counts=frozenset({"yes"}), without_items=0.0, noun="texts", holds="are contradicted"),
        listed="context",
        beside=("actual_output",),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts
