"""Scores of a judge and of people with what they stand for, and the mean of the former."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class WeightedScore(NamedTuple):
    """A judge's score, and how many subjects of the traffic it stands for: 1 / its sampling probability.

    Scores of one `conversation` may depend on each other; without one, a score is independent of all others.
    """

    score: float
    weight: float = 1.0
    conversation: str = ""


class LabelledScore(NamedTuple):
    """The same with a person's score beside it."""

    judge: float
    human: float
    weight: float = 1.0
    conversation: str = ""


def weighted_mean(scores: Sequence[WeightedScore]) -> float:
    """The mean of the traffic that the scores were sampled from; there must be one."""
    return math.fsum(score.score * score.weight for score in scores) / math.fsum(score.weight for score in scores)
