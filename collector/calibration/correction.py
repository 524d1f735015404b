"""Corrected mean: the mean that people would have given, from few human labels and many judge's scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class WeightedScore(NamedTuple):
    """A judge's score, and how many subjects of the traffic it stands for: 1 / its sampling probability."""

    score: float
    weight: float = 1.0


class LabelledScore(NamedTuple):
    """The same with a person's score beside it."""

    judge: float
    human: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, and how much of the judge went into it: `power` 0 is people alone, 1 is PPI."""

    mean: float
    error: float
    power: float


def weighted_mean(scores: Sequence[WeightedScore]) -> float:
    """The mean of the traffic that the scores were sampled from; there must be one."""
    return math.fsum(each.score * each.weight for each in scores) / math.fsum(each.weight for each in scores)


def corrected(labelled: Sequence[LabelledScore], unlabelled: Sequence[WeightedScore]) -> Estimate:
    """The power-tuned prediction-powered mean (PPI++, Angelopoulos et al. 2023), of weighted samples.

    `labelled` is a random part of the sample whose scores `unlabelled` holds. Never wider, with enough labels (200),
    than people alone.
    """
    judges = [WeightedScore(each.judge, each.weight) for each in labelled]
    humans = [WeightedScore(each.human, each.weight) for each in labelled]
    spread = _covariance(judges, judges) + (_covariance(unlabelled, unlabelled) if unlabelled else 0.0)
    power = 0.0
    if unlabelled and spread > 0:
        power = min(1.0, max(0.0, _covariance(judges, humans) / spread))
    rest = [WeightedScore(each.human - power * each.judge, each.weight) for each in labelled]
    mean, variance = weighted_mean(rest), _covariance(rest, rest)
    if unlabelled:
        mean += power * weighted_mean(unlabelled)
        variance += power**2 * _covariance(unlabelled, unlabelled)
    return Estimate(mean, math.sqrt(variance), power)


def _covariance(ones: Sequence[WeightedScore], others: Sequence[WeightedScore]) -> float:
    """The covariance of the weighted means of two scores of the same subjects; of one with itself, its variance."""
    one, other = _weighted_residuals(ones), _weighted_residuals(others)
    total = math.fsum(each.weight for each in ones)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / total**2


def _weighted_residuals(scores: Sequence[WeightedScore]) -> Iterable[float]:
    """Each score's distance from their mean, times its weight."""
    mean = weighted_mean(scores)
    return [each.weight * (each.score - mean) for each in scores]
