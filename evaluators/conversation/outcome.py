"""The outcome of a conversation outside: a refund, a ticket that was reopened, a purchase."""

from typing import ClassVar

from evaluators.cases import Conversation, Scope
from evaluators.mechanisms.external_outcome import OutcomeEvaluator


class ConversationOutcome(OutcomeEvaluator[Conversation]):
    """1 if an outcome that a reference brings has a good value, else 0.

    Works like `outcome`.
    """

    kind: ClassVar[str] = "conversation_outcome"
    scope: ClassVar[Scope] = "conversation"
