"""Whether the application did what the user wanted."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.inquiry import Inquiry
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.verdicts import Share

_INQUIRY = Inquiry(
    "task_completion",
    share=Share(frozenset({"yes"}), 1.0, "wishes", "were met"),
    apart=("input", "history"),
    beside=("input", "actual_output", "tools_called"),
)


class TaskCompletion(Evaluator[Turn]):
    """The share of the user's wishes that the answer and the tools met.

    The judge lists the wishes from the input and its history, then gives each a verdict; those it cannot decide on
    count as unmet. A turn without a wish gets 1.
    """

    kind: ClassVar[str] = "task_completion"
    prompts: ClassVar[tuple[str, ...]] = _INQUIRY.prompts

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset({"actual_output", "input"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _INQUIRY.score(case, judge)
