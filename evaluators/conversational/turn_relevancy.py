"""Whether each answer fits what was said before it."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Conversation
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.survey import Survey
from evaluators.transcript import DEFAULT_BUDGET, TokenBudget
from evaluators.verdicts import Share

_SURVEY = Survey(
    "turn_relevancy",
    share=Share(frozenset({"yes", "unclear"}), 1.0, "answers", "fit"),
    judged=("input", "actual_output"),
)


class TurnRelevancy(Evaluator[Conversation]):
    """The share of the application's answers that respond to what the user just said.

    The judge gives each answer a verdict, with the whole conversation in view; those it cannot decide on count as
    fitting.
    """

    kind: ClassVar[str] = "turn_relevancy"
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = _SURVEY.prompts

    token_budget: TokenBudget = DEFAULT_BUDGET

    @property
    def requires(self) -> frozenset[str]:
        """What the user and the application said."""
        return frozenset({"turns.input", "turns.actual_output"})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await _SURVEY.score(case, judge, self.token_budget)
