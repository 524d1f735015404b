"""Whether an answer contradicts what is known to be right."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Direction, Evaluator
from evaluators.inquiry import Inquiry
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share

_INQUIRY = Inquiry(
    "hallucination",
    share=Share(frozenset({"yes"}), 0.0, "texts", "are contradicted"),
    listed="context",
    beside=("actual_output",),
)


class Hallucination(Evaluator[Turn]):
    """The share of the context's texts that the answer contradicts. Lower is better.

    The judge gives each text of the context a verdict.
    """

    kind: ClassVar[str] = "hallucination"
    direction: ClassVar[Direction] = "lower_is_better"
    prompts: ClassVar[tuple[str, ...]] = _INQUIRY.prompts

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset({"actual_output", "context"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _INQUIRY.score(case, judge)
