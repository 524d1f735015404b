"""Whether an answer is about what was asked."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.inquiry import Inquiry
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share

_INQUIRY = Inquiry(
    "answer_relevancy",
    share=Share(frozenset({"yes", "unclear"}), 1.0, "statements", "are relevant"),
    apart=("actual_output",),
    beside=("input",),
)


class AnswerRelevancy(Evaluator[Turn]):
    """The share of the answer's statements that serve to answer the input.

    The judge lists the statements, then gives each a verdict; those it cannot decide on count as relevant. An answer
    without statements gets 1.
    """

    kind: ClassVar[str] = "answer_relevancy"
    prompts: ClassVar[tuple[str, ...]] = _INQUIRY.prompts

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset({"actual_output", "input"})

    @property
    def worthless_if_wordless(self) -> str | None:
        """The answer."""
        return "actual_output"

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _INQUIRY.score(case, judge)
