"""Whether an answer is about what was asked."""

from __future__ import annotations

from typing import ClassVar

from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.verdicts import Share


class AnswerRelevancy(TurnRatio):
    """The share of the answer's statements that serve to answer the input.

    The judge lists the statements, then gives each a verdict; those it cannot decide on count as relevant. An answer
    without statements gets 1.
    """

    kind: ClassVar[str] = "answer_relevancy"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "answer_relevancy",
        share=Share(counts=frozenset({"yes", "unclear"}), without_items=1.0, noun="statements", holds="are relevant"),
        apart=("actual_output",),
        beside=("input",),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts

    @property
    def worthless_if_wordless(self) -> str | None:
        """The answer."""
        return "actual_output"
