"""Whether an answer keeps to the passages it was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from evaluators.cases import Turn
from evaluators.inquiry import Inquiry, TurnRatio
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share


class Faithfulness(TurnRatio):
    """The share of the answer's claims that the retrieved passages do not contradict.

    The judge lists the claims, then gives each a verdict; with `penalize_unclear` only those count that the passages
    support. An answer without claims gets 1.
    """

    kind: ClassVar[str] = "faithfulness"
    inquiry: ClassVar[Inquiry] = Inquiry(
        "faithfulness",
        share=Share(
            counts=frozenset({"yes", "unclear"}), without_items=1.0, noun="claims", holds="keep to the passages"
        ),
        apart=("actual_output",),
        beside=("retrieval_context",),
    )
    prompts: ClassVar[tuple[str, ...]] = inquiry.prompts

    penalize_unclear: bool = Field(default=False, description="Whether claims beyond the passages count as unfaithful.")

    @property
    def worthless_if_wordless(self) -> str | None:
        """The answer."""
        return "actual_output"

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        share = self.inquiry.share
        if self.penalize_unclear:
            share = replace(share, counts=frozenset({"yes"}))
        return await self.inquiry.score(case, judge, share)
