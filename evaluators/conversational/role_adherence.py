"""Whether the application keeps to its role."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from evaluators.cases import Conversation
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.rating import Line
from evaluators.survey import Survey
from evaluators.transcript import DEFAULT_BUDGET, TokenBudget
from evaluators.verdicts import Share

_SURVEY = Survey(
    "role_adherence",
    share=Share(frozenset({"yes", "unclear"}), 1.0, "answers", "keep to the role"),
    judged=("actual_output",),
)


class RoleAdherence(Evaluator[Conversation]):
    """The share of the application's answers that keep to the conversation's chatbot role.

    The judge gives each answer a verdict; those it cannot decide on count as kept. The role comes with the
    conversation, or from the configuration.
    """

    kind: ClassVar[str] = "role_adherence"
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = _SURVEY.prompts
    example: ClassVar[Example] = {"chatbot_role": "A patient clerk of a railway company."}

    chatbot_role: Line | None = Field(default=None, description="Who it is, where conversations do not say.")
    token_budget: TokenBudget = DEFAULT_BUDGET

    @property
    def requires(self) -> frozenset[str]:
        """The answers, and the role unless it is configured."""
        role = () if self.chatbot_role else ("chatbot_role",)
        return frozenset({"turns.actual_output", *role})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        role = case.chatbot_role or self.chatbot_role
        return await _SURVEY.score(case, judge, self.token_budget, beside={"chatbot_role": role})
