"""Whether an answer keeps to the passages it was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.inquiry import Inquiry
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share

_INQUIRY = Inquiry(
    "faithfulness",
    share=Share(frozenset({"yes", "unclear"}), 1.0, "claims", "keep to the passages"),
    apart=("actual_output",),
    beside=("retrieval_context",),
)
_STRICTER = replace(_INQUIRY.share, counts=frozenset({"yes"}))


class Faithfulness(Evaluator[Turn]):
    """The share of the answer's claims that the retrieved passages do not contradict.

    The judge lists the claims, then gives each a verdict; with `penalize_unclear` only those count that the passages
    support. An answer without claims gets 1.
    """

    kind: ClassVar[str] = "faithfulness"
    prompts: ClassVar[tuple[str, ...]] = _INQUIRY.prompts

    penalize_unclear: bool = Field(default=False, description="Whether claims beyond the passages count as unfaithful.")

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset({"actual_output", "retrieval_context"})

    @property
    def worthless_if_wordless(self) -> str | None:
        """The answer."""
        return "actual_output"

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _INQUIRY.score(case, judge, _STRICTER if self.penalize_unclear else None)
