"""Role adherence: does the application keep to its role?"""

from typing import ClassVar

from evaluators.cases import Conversation
from evaluators.evaluator import Example
from evaluators.judge import Judge
from evaluators.mechanisms.conversation_ratio import ConversationRatio, ConversationRatioSpec
from evaluators.mechanisms.item_verdicts import YES_OR_UNCLEAR, RatioSpec
from evaluators.mechanisms.rating import NonBlank
from evaluators.results import Score


class RoleAdherence(ConversationRatio):
    """The share of the application's answers that keep to the conversation's chatbot role.

    The judge gives each answer a verdict; an undecided answer counts as keeping to it.
    """

    kind: ClassVar[str] = "role_adherence"
    spec: ClassVar[ConversationRatioSpec] = ConversationRatioSpec(
        "role_adherence",
        ratio=RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="answers", predicate="keep to the role"),
        required_fields=("actual_output",),
    )
    example: ClassVar[Example] = {"chatbot_role": "A patient clerk of a railway company."}

    chatbot_role: NonBlank | None = None
    """The role, for conversations that name none."""

    @property
    def requires(self) -> frozenset[str]:
        """The answers, and the role unless it is configured."""
        return frozenset({"turns.actual_output", *(() if self.chatbot_role else ("chatbot_role",))})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        role = case.chatbot_role or self.chatbot_role
        return await self.spec.score(case, judge, self, companions={"chatbot_role": role})
