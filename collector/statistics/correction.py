"""Weighted scores of a judge and of people, and the mean of the judge's scores."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class WeightedScore(NamedTuple):
    """A judge's score with its weight, 1 / sampling probability: the number of subjects that it stands for.

    Scores of one `conversation` may depend on each other; without one, a score is independent of all others. `passed`
    is its verdict, if it had one.
    """

    score: float
    weight: float = 1.0
    conversation: str = ""
    passed: bool | None = None


class LabelledScore(NamedTuple):
    """A judge's score and a person's score of one subject, with its weight; `divided` if people's is a tie.

    `passed` is the judge's verdict, if it had one.
    """

    judge: float
    human: float
    weight: float = 1.0
    conversation: str = ""
    divided: bool = False
    passed: bool | None = None

    def verdicts(self) -> tuple["LabelledScore", ...]:
        """For measures of verdicts: people who are divided count half as good and half as bad."""
        if not self.divided:
            return (self,)
        return tuple(self._replace(human=human, weight=self.weight / 2.0, divided=False) for human in (1.0, 0.0))


def weighted_mean(scores: Sequence[WeightedScore]) -> float:
    """The mean of the traffic that the scores were sampled from; there must be one."""
    return math.fsum(score.score * score.weight for score in scores) / math.fsum(score.weight for score in scores)
