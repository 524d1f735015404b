"""Whether the user got everything he wanted."""

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
    "completeness",
    share=Share(frozenset({"yes", "unclear"}), 1.0, "wishes", "were met"),
    extracted=True,
    shown=("tools_called",),
)


class Completeness(Evaluator[Conversation]):
    """The share of the user's wishes that were met by the end of the conversation.

    The judge lists the wishes, then gives each a verdict; those it cannot decide on count as met. A conversation
    without a wish gets 1.
    """

    kind: ClassVar[str] = "completeness"
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
