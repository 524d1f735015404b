"""Whether the application keeps to its role."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from evaluators.cases import Conversation
from evaluators.evaluator import Example
from evaluators.judge import Judge
from evaluators.outcome import Score
from evaluators.rating import Line
from evaluators.survey import ConversationRatio, Survey
from evaluators.verdicts import Share


class RoleAdherence(ConversationRatio):
    """The share of the application's answers that keep to the conversation's chatbot role.

    The judge gives each answer a verdict; those it cannot decide on count as kept. The role comes with the
    conversation, or from the configuration.
    """

    kind: ClassVar[str] = "role_adherence"
    survey: ClassVar[Survey] = Survey(
        "role_adherence",
        share=Share(counts=frozenset({"yes", "unclear"}), without_items=1.0, noun="answers", holds="keep to the role"),
        judged=("actual_output",),
    )
    prompts: ClassVar[tuple[str, ...]] = survey.prompts
    example: ClassVar[Example] = {"chatbot_role": "A patient clerk of a railway company."}

    chatbot_role: Line | None = Field(default=None, description="Who it is, where conversations do not say.")

    @property
    def requires(self) -> frozenset[str]:
        """The answers, and the role unless it is configured."""
        role = () if self.chatbot_role else ("chatbot_role",)
        return frozenset({"turns.actual_output", *role})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        role = case.chatbot_role or self.chatbot_role
        return await self.survey.score(case, judge, self.token_budget, beside={"chatbot_role": role})
