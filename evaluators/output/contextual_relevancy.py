"""Whether the search found what the question needs."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.inquiry import Inquiry
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share

_INQUIRY = Inquiry(
    "contextual_relevancy",
    share=Share(frozenset({"yes"}), 0.0, "passages", "help to answer"),
    listed="retrieval_context",
    beside=("input",),
)


class ContextualRelevancy(Evaluator[Turn]):
    """The share of the retrieved passages that help to answer the input.

    The judge gives each passage a verdict. Says something about the retrieval, nothing about the answer.
    """

    kind: ClassVar[str] = "contextual_relevancy"
    prompts: ClassVar[tuple[str, ...]] = _INQUIRY.prompts

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset({"input", "retrieval_context"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _INQUIRY.score(case, judge)
