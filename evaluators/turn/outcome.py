"""What came of a turn outside: a refund, a ticket that was reopened, a purchase."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.outcomes import OUTCOME, score_outcome
from evaluators.results import Score


class ExternalOutcome(Evaluator[Turn]):
    """1 if an outcome that a reference brings has a good value, else 0.

    `outcome: ticket_reopened, good: [false]` scores 1 where the ticket stayed closed.
    """

    kind: ClassVar[str] = "outcome"
    needs_judge: ClassVar[bool] = False
    needs_content: ClassVar[bool] = False
    example: ClassVar[Example] = {"outcome": "ticket_reopened", "good": [False]}

    outcome: str = Field(min_length=1, max_length=100, description="The outcome's name in references.")
    good: tuple[bool | float | str, ...] = Field(
        default=(True,), min_length=1, description="The values that score 1: true, false, numbers or texts."
    )

    @property
    def requires(self) -> frozenset[str]:
        """The outcome."""
        return frozenset({f"attributes.{OUTCOME}{self.outcome}"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return score_outcome(case.attributes, self.outcome, self.good)
