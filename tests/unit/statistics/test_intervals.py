"""How often the 95 % interval of few scores covers their mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from collector.statistics.audited_sums import PRODUCTS, AuditedSums
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.intervals import change_half, mean_interval, mean_text

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


@pytest.mark.parametrize(
    ("mean", "error", "number", "text"),
    [
        (0.812, 0.0046, 2000.0, "0.812 (95 %: ± 0.009)"),
        (0.25, 0.055, 62.0, "0.250 (95 %: ± 0.126)"),  # from 0.149 to 0.376: the farther end
        (1.0, 0.0, 5.0, "1.000 (95 %: at least 0.54)"),
        (0.0, 0.0, 5.0, "0.000 (95 %: at most 0.46)"),
        (1.0, 0.0, 665.0, "1.000 (95 %: at least 0.99)"),
        (0.95, 0.035, 40.0, "0.950 (95 %: 0.83 to 0.99)"),
    ],
)
def test_a_mean_in_words(mean: float, error: float, number: float, text: str) -> None:
    assert mean_text(mean, error, number) == text


@pytest.mark.parametrize(("rate", "agree"), [(0.95, 0.95), (0.95, 0.97), (0.98, 0.97)])
def test_a_mean_by_thirty_to_forty_five_audits_is_covered(rate: float, agree: float) -> None:
    """Also where both judges agree so often that the audits may hold no disagreement."""
    rng, shown, hits = np.random.default_rng(3), 0, 0
    for _ in range(150):
        dear = (rng.random(760) < rate).astype(float)
        cheap = np.where(rng.random(760) < agree, dear, 1.0 - dear)
        drawn = np.where(rng.random(760) < 0.05, 20.0, 0.0)
        totals = np.stack([drawn, drawn * dear, drawn * cheap, np.ones(760), cheap])
        products = totals @ totals.T
        sums = AuditedSums((*totals.sum(1), *(products[pair] for pair in PRODUCTS)))
        mean = sums.corrected()
        if mean is not None and mean.audits <= 45:
            low, high = interval(round(mean.mean, 3), round(mean.error, 4), round(mean.audits))
            shown, hits = shown + 1, hits + (low <= rate <= high)
            assert 0.0 <= low <= high <= 1.0
    assert hits / shown > 0.93


def test_a_change_has_the_errors_of_both_means_and_one_of_equal_scores_is_not_exact() -> None:
    assert change_half((0.5, 0.003, 1e4), (0.6, 0.004, 1e4)) == pytest.approx(1.96 * 0.005, rel=0.02)
    one = mean_interval(0.0, 0.0, 400)[1]
    assert change_half((0.0, 0.0, 400), (0.0, 0.0, 400)) == pytest.approx(one)
    assert change_half((0.0, 0.0, 400), (1.0, 0.0, 400)) == pytest.approx(2**0.5 * one)
