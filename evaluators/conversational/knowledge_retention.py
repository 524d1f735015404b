"""Whether the application remembers what the user said."""

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
    "knowledge_retention",
    share=Share(frozenset({"no", "unclear"}), 1.0, "answers", "forget nothing"),
    judged=("actual_output",),
)


class KnowledgeRetention(Evaluator[Conversation]):
    """The share of the application's answers that forget or contradict nothing the user said.

    The judge gives each answer a verdict, with the whole conversation in view; those it cannot decide on count as good.
    """

    kind: ClassVar[str] = "knowledge_retention"
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
