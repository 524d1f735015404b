"""Corrected mean: the mean that people would have given, from few human labels and many judge's scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.statistics.conversations import by_conversation

_FLAT = 1e-15
"""Variance below which a judge's scores are all the same."""


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, and how much of the judge went into it: `power` 0 is people alone, 1 is PPI.

    `number` is the effective number of labelled conversations.
    """

    mean: float
    error: float
    power: float
    number: float


def weighted_mean(scores: Sequence[WeightedScore]) -> float:
    """The mean of the traffic that the scores were sampled from; there must be one."""
    return math.fsum(score.score * score.weight for score in scores) / math.fsum(score.weight for score in scores)


def corrected(labelled: Sequence[LabelledScore], unlabelled: Sequence[WeightedScore]) -> Estimate:
    """The power-tuned prediction-powered mean (PPI++, Angelopoulos et al. 2023), of weighted samples.

    `labelled` is a random part of the sample whose scores `unlabelled` holds. Never wider, with enough labels (200),
    than people alone. A ratio of weighted sums, and a power that the same labels choose, have a bias of the order of
    1 / labels, which unequal weights make larger; the delete-one jackknife takes it away, and gives the part of the
    error that is the labels' (Quenouille 1956; Tukey 1958). Of the bias it takes away the share that nobody labelled.
    It deletes a conversation with all its labels.
    """
    fixed = _Unlabelled.of(unlabelled)
    conversations = by_conversation(labelled)
    sums = _LabelledSums.of(conversations)
    mean, power = sums.estimate(fixed)
    number = len(conversations)
    if number > 2:
        parts = [sums.without(conversation).estimate(fixed)[0] for conversation in conversations]
        middle = math.fsum(parts) / number
        variance = (number - 1) / number * math.fsum((part - middle) ** 2 for part in parts)
        # What all have labelled has no bias.
        left = max(0.0, 1.0 - len(labelled) / len(unlabelled)) if unlabelled else 1.0
        mean -= left * (number - 1) * (middle - mean)
    else:
        rest = [WeightedScore(one.human - power * one.judge, one.weight, one.conversation) for one in labelled]
        variance = _variance(rest)
    return Estimate(mean, math.sqrt(variance + power**2 * fixed.variance), power, sums.w**2 / sums.w2)


class _Unlabelled(NamedTuple):
    """The mean of all the judge's scores, and its variance; no scores are a mean of 0 that counts for nothing."""

    mean: float
    variance: float
    there: bool

    @classmethod
    def of(cls, scores: Sequence[WeightedScore]) -> _Unlabelled:
        if not scores:
            return cls(0.0, 0.0, there=False)
        return cls(weighted_mean(scores), _variance(scores), there=True)


class _LabelledSums(NamedTuple):
    """Sums over labels with weights w, of the judge's x and the person's y, from one of them; w2… are those of products
    of a conversation's sums.
    """

    origin: tuple[float, float]
    w: float
    wx: float
    wy: float
    w2: float
    w2x: float
    w2y: float
    w2xx: float
    w2xy: float

    @classmethod
    def of(cls, conversations: Sequence[Sequence[LabelledScore]]) -> _LabelledSums:
        first = conversations[0][0]
        terms = [cls._terms(conversation, (first.judge, first.human)) for conversation in conversations]
        return cls((first.judge, first.human), *(math.fsum(term) for term in zip(*terms, strict=True)))

    @staticmethod
    def _terms(conversation: Sequence[LabelledScore], origin: tuple[float, float]) -> tuple[float, ...]:
        w = sum(label.weight for label in conversation)
        x = sum(label.weight * (label.judge - origin[0]) for label in conversation)
        y = sum(label.weight * (label.human - origin[1]) for label in conversation)
        return w, x, y, w * w, w * x, w * y, x * x, x * y

    def without(self, conversation: Sequence[LabelledScore]) -> _LabelledSums:
        """The sums of the other conversations."""
        terms = self._terms(conversation, self.origin)
        return _LabelledSums(self.origin, *(all_ - own for all_, own in zip(self[1:], terms, strict=True)))

    def estimate(self, unlabelled: _Unlabelled) -> tuple[float, float]:
        """The corrected mean and its power."""
        x, y = self.wx / self.w, self.wy / self.w
        spread = (self.w2xx - 2 * x * self.w2x + x * x * self.w2) / self.w**2 + unlabelled.variance
        shared = (self.w2xy - x * self.w2y - y * self.w2x + x * y * self.w2) / self.w**2
        power = min(1.0, max(0.0, shared / spread)) if unlabelled.there and spread > _FLAT else 0.0
        return self.origin[1] + y + power * (unlabelled.mean - self.origin[0] - x), power


def _variance(scores: Sequence[WeightedScore]) -> float:
    """The variance of the weighted mean of some scores, conversations as clusters."""
    mean = weighted_mean(scores)
    residuals = (
        math.fsum(score.weight * (score.score - mean) for score in conversation)
        for conversation in by_conversation(scores)
    )
    return math.fsum(residual**2 for residual in residuals) / math.fsum(score.weight for score in scores) ** 2
