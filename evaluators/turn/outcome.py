"""The outcome of a turn outside: a refund, a ticket that was reopened, a purchase."""

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.mechanisms.external_outcome import OutcomeEvaluator


class ExternalOutcome(OutcomeEvaluator[Turn]):
    """1 if an outcome that a reference brings has a good value, else 0.

    `outcome: ticket_reopened, good: [false]` scores 1 where the ticket stayed closed.
    """

    kind: ClassVar[str] = "outcome"
