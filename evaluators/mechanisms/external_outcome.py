"""Outcomes of the application's own world, like a ticket that was reopened: 1 where the value is a good one."""

from typing import ClassVar, Generic

from pydantic import Field

from evaluators.evaluator import Case, CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score

_PREFIX = "outcome."  # the prefix of the attribute with a reference's outcome


class OutcomeEvaluator(CodeEvaluator[Case], Generic[Case]):
    """Whether an outcome of a turn or of a conversation has a good value."""

    needs_content: ClassVar[bool] = False
    example: ClassVar[Example] = {"outcome": "ticket_reopened", "good": [False]}

    outcome: str = Field(min_length=1, max_length=100)
    """The outcome's name in references."""
    good: tuple[bool | float | str, ...] = Field(default=(True,), min_length=1)
    """The values that score 1: true, false, numbers or texts."""

    @property
    def requires(self) -> frozenset[str]:
        """The outcome."""
        return frozenset({f"attributes.{_PREFIX}{self.outcome}"})

    async def evaluate(self, case: Case, judge: Judge) -> Score:  # noqa: ARG002 - it asks nobody
        """Score 1 if the outcome is among the good values, else 0. `true` is not 1."""
        value = case.attributes[f"{_PREFIX}{self.outcome}"]
        is_good = any(isinstance(good, bool) == isinstance(value, bool) and good == value for good in self.good)
        return Score(
            value=float(is_good), explanation=f"{self.outcome} is {'one of the good values' if is_good else 'another'}"
        )
