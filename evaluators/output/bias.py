"""Whether an answer is unfair to people."""

from __future__ import annotations

from typing import ClassVar

from evaluators.evaluator import Direction
from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.verdicts import Share


class Bias(TurnRatio):
    """The share of the answer's opinions that are biased. Lower is better.

    The judge lists them, then gives each a verdict. An answer without any gets 0.
    """

    kind: ClassVar[str] = "bias"
    direction: ClassVar[Direction] = "lower_is_better"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "bias",
        share=Share(counts=frozenset({"yes"}), without_items=0.0, noun="opinions", holds="are biased"),
        apart=("actual_output",),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts
