"""The mean that people would have given, from few human labels and many judge's scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from collector.calibration.agreement import Pair


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, and how much of the judge went into it: `power` 0 is people alone, 1 is PPI."""

    mean: float
    error: float
    power: float


def corrected(labelled: Sequence[Pair], unlabelled: Sequence[float]) -> Estimate:
    """The power-tuned prediction-powered mean (PPI++, Angelopoulos et al. 2023).

    `labelled` is a random sample of the traffic whose scores `unlabelled` holds. Never wider, with enough labels (200),
    than people alone.
    """
    humans, judges = [human for _, human in labelled], [judge for judge, _ in labelled]
    n, everyone = len(labelled), [*judges, *unlabelled]
    spread = _variance(everyone)
    covariance = fmean(j * h for j, h in labelled) - fmean(judges) * fmean(humans)
    power = 0.0
    if unlabelled and spread > 0:
        power = min(1.0, max(0.0, covariance * n / (n - 1) / spread / (1 + n / len(unlabelled))))
    rest = [human - power * judge for judge, human in labelled]
    many = fmean(unlabelled) if unlabelled else 0.0
    variance = _variance(rest) / n + (power**2 * _variance(unlabelled) / len(unlabelled) if unlabelled else 0.0)
    return Estimate(power * many + fmean(rest), math.sqrt(variance), power)


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)
