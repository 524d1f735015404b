"""How often the 95 % interval of few scores covers their mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from collector.statistics.estimator import VARIANCE_FLOOR
from collector.statistics.intervals import mean_interval

SCORES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "nine of ten pass": lambda rng, number: (rng.random(number) < 0.9).astype(float),
    "nineteen of twenty pass": lambda rng, number: (rng.random(number) < 0.95).astype(float),
    "half pass": lambda rng, number: (rng.random(number) < 0.5).astype(float),
    "five levels": lambda rng, number: rng.choice(5, number, p=[0.03, 0.06, 0.13, 0.24, 0.54]) / 4,
    "mostly near one": lambda rng, number: np.round(rng.beta(9, 0.5, number), 2),
}


@cache
def interval(mean: float, error: float, number: int) -> tuple[float, float]:
    return mean_interval(mean, error, number)


@pytest.mark.parametrize("number", [3, 5, 10, 20, 100])
@pytest.mark.parametrize("kind", SCORES)
def test_it_covers_however_few(kind: str, number: int) -> None:
    rng = np.random.default_rng(1)
    truth = SCORES[kind](rng, 400_000).mean()
    hits = 0
    for _ in range(600):
        scores = SCORES[kind](rng, number)
        error = np.sqrt(scores.var() / (number - 1) + VARIANCE_FLOOR / number)
        low, high = interval(round(float(scores.mean()), 3), round(float(error), 3), number)
        assert 0.0 <= low <= scores.mean() + 1e-3
        assert scores.mean() - 1e-3 <= high <= 1.0
        hits += low <= truth <= high
    assert hits / 600 > 0.93


def test_equal_scores_are_a_limit_on_one_side() -> None:
    assert mean_interval(1.0, 0.0, 5.0) == pytest.approx((0.05**0.2, 1.0))
    assert mean_interval(0.0, 0.0, 5.0) == pytest.approx((0.0, 1 - 0.05**0.2))


def test_of_many_scores_it_is_the_normal_one() -> None:
    low, high = mean_interval(0.7, 0.01, 2000.0)
    assert (low, high) == pytest.approx((0.7 - 0.0196, 0.7 + 0.0196), abs=0.001)
    assert mean_interval(1.02, 0.02, 40.0)[1] == 1.0
