"""Whether the user was frustrated with the application."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Conversation
from evaluators.evaluator import Direction, Evaluator
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.survey import Survey
from evaluators.transcript import DEFAULT_BUDGET, TokenBudget
from evaluators.verdicts import Share

_SURVEY = Survey(
    "frustration",
    share=Share(frozenset({"yes"}), 0.0, "messages", "show frustration"),
    judged=("input",),
)


class Frustration(Evaluator[Conversation]):
    """The share of the user's messages that show frustration with the application. Lower is better.

    The judge gives each message a verdict; those it cannot decide on count as calm.
    """

    kind: ClassVar[str] = "frustration"
    scope: ClassVar = "conversation"
    direction: ClassVar[Direction] = "lower_is_better"
    prompts: ClassVar[tuple[str, ...]] = _SURVEY.prompts

    token_budget: TokenBudget = DEFAULT_BUDGET

    @property
    def requires(self) -> frozenset[str]:
        """What the user and the application said."""
        return frozenset({"turns.input"})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _SURVEY.score(case, judge, self.token_budget)
