"""Faithfulness of an answer to the passages that it was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from evaluators.cases import Turn
from evaluators.item_verdicts import RatioSpec
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.turn_ratio import TurnRatio, TurnRatioSpec


class Faithfulness(TurnRatio):
    """The share of the answer's claims that the retrieved passages do not contradict.

    The judge lists the claims, then gives each a verdict; with `penalize_unclear` only those count that the passages
    support. An answer without claims gets 1.
    """

    kind: ClassVar[str] = "faithfulness"
    spec: ClassVar[TurnRatioSpec] = TurnRatioSpec(
        "faithfulness",
        ratio=RatioSpec(
            counting_verdicts=frozenset({"yes", "unclear"}),
            empty_score=1.0,
            noun="claims",
            predicate="keep to the passages",
        ),
        extract_from=("actual_output",),
        companion_fields=("retrieval_context",),
    )
    prompts: ClassVar[tuple[str, ...]] = spec.prompts

    penalize_unclear: bool = Field(default=False, description="Whether claims beyond the passages count as unfaithful.")

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer."""
        return "actual_output"

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        ratio = self.spec.ratio
        if self.penalize_unclear:
            ratio = replace(ratio, counting_verdicts=frozenset({"yes"}))
        return await self.spec.score(case, judge, self, ratio)
