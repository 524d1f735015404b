"""A cascade: a cheap judge first, then a strong judge if the cheap one is in doubt, or if a draw checks it.

Let x be the first judge's score and y the second judge's. An evaluation's score is y if the second judge was asked,
else x. The mean of these scores has the errors of the first judge in the cases of which it is sure. So a share π of the
sure cases is also drawn for the second judge, by a hash of the case, and

    z = x + (y - x) / π    where it was drawn, and the score elsewhere, has the mean that the second judge would have
    over all cases: E[z] = x + π (y - x) / π = y. This is the difference
estimator of survey sampling (Särndal, Swensson and Wretman 1992, 6.3), and in prediction-powered inference the
estimator with λ = 1 (Angelopoulos et al. 2023). Why not choose by doubt alone: a judge that is sure and wrong is never
asked about again, and the error of the mean stays unknown.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import case_draw
from evaluators.judge import Judge, WholeJudge
from evaluators.results import Escalation, Failure, Outcome, Score

DOUBT = 0.5
"""The default doubt, from 0 to 1, above which the second judge is asked."""
SHARE = 0.05
"""The default share of the other cases for which the second judge is asked."""

_LARGEST_DEVIATION = 0.5
"""The largest standard deviation of a number on 0..1."""
_UNREADABLE = frozenset({"judge_reply_invalid", "judge_reply_truncated", "judge_refused"})
"""Failures of the first judge at one question, not of its endpoint: the second judge may do better."""


def cascade_model(first: str, then: str, doubt: float, share: float) -> str:
    """The name of a cascade of two models, like `gpt-5 where gpt-5-nano doubts (0.5, 0.05)`."""
    return f"{then} where {first} doubts ({doubt:g}, {share:g})"


class Cascade(WholeJudge):
    """Two judges; `evaluators.evaluate` asks `then` only where `first` does not suffice.

    `first` makes the whole evaluation. If its doubt is above `doubt` or unknown, or its answer cannot be read, `then`
    makes it again, and also for a random `share` of the other cases. Doubt goes from 0 to 1: twice the standard
    deviation of the first judge's own probabilities or samples, or the range of a jury's scores. Either may be a jury.
    If the endpoint of `first` fails, so does the evaluation: an outage must not become a bill. If `then` is asked and
    gives no score, the cascade gives none. A secret `salt` makes the draw of the share unpredictable for a sender that
    chooses ids.

    Raises:
        ValueError: `doubt` or `share` is outside [0, 1].
    """

    refusal = "a cascade answers no single question: give it to evaluators.evaluate"

    def __init__(
        self, first: Judge, then: Judge, *, doubt: float = DOUBT, share: float = SHARE, salt: str = ""
    ) -> None:
        for name, value in (("doubt", doubt), ("share", share)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} lies between 0 and 1, not {value!r}")
        self.first = first
        self.then = then
        self.doubt = doubt
        self.share = share
        self.salt = salt

    @property
    def model(self) -> str:
        """See `cascade_model`."""
        return cascade_model(self.first.model, self.then.model, self.doubt, self.share)

    def escalation(self, evaluator: Evaluator[Any], case: Turn | Conversation, outcome: Outcome) -> Escalation | None:
        """The decision after the first judge's outcome; None if that outcome is final and no score."""
        if isinstance(outcome, Failure) and outcome.type in _UNREADABLE:
            return Escalation(reason="unreadable", probability=1.0)
        if not isinstance(outcome, Score):
            return None
        first, doubt = outcome.value, doubt_of(outcome.details)
        if doubt is None:
            return Escalation(reason="unknown", probability=1.0, first_score=first)
        if doubt > self.doubt:
            return Escalation(reason="doubt", probability=1.0, first_score=first, doubt=doubt)
        reason = "share" if case_draw("cascade", evaluator.name, case, self.salt) < self.share else "sure"
        return Escalation(reason=reason, probability=self.share, first_score=first, doubt=doubt)


def doubt_of(details: Mapping[str, Json]) -> float | None:
    """How doubtful a score is, from 0 to 1, by its details; None if they do not tell."""
    known = [
        value / largest
        for name, largest in (("uncertainty", _LARGEST_DEVIATION), ("disagreement", 1.0))
        if isinstance(value := details.get(name), int | float) and isfinite(value)
    ]
    return min(1.0, max(known)) if known else None
