"""The standard error and the cost of a mean at given sampling rates.

A conversation is judged in stratum h where its draw is below p_h, so of strata h and g it is in both with probability
min(p_h, p_g). With r_h the sum of the residuals (y - mean) of its subjects in h, each weighted 1 / p_h, the sum of
squares from which the service computes its error (`collector.statistics.estimator`) is expected to be

    Σ_h Σ_g S_hg / max(p_h, p_g),    S_hg = Σ r_h r_g over all conversations,

divided by N², the squared number of subjects. It is the Horvitz–Thompson variance with conversations as clusters, for
draws that are nested (Särndal, Swensson and Wretman 1992, ch. 2.8 and 4), plus the day's own chance.

If a better judge scores a share s of the judged again (a second phase: an audit, a label), the mean of the better
scores has the squares of those, and what the first scores leave unexplained,

    Σ_h Σ_g S_hg / max(p_h, p_g) + (1/s - 1) Σ_h T_h / p_h,

with T_h the sum of squared residuals of the regression of the second scores on the first ones (Cochran 1977, ch. 12,
double sampling for regression: S² (1 - ρ²) / n + S² ρ² / n').
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collector.records.audits import FEWEST_AUDITS

ENOUGH_AGAIN = 50
"""Second scores that a day is to have: with as many on average, hardly a day has fewer than `FEWEST_AUDITS`."""

_HALVINGS = 18
"""Steps in which a rate is searched: it is right to 1e-4 of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPhase:
    """The second scorer of a share of the judged: by stratum, for a day whose every subject were scored so.

    `spread` is the variance of the second scores over that of the first ones, `residuals` are T_h of the module's
    formula, `usd` the costs. `correlation` is that of both scores, `pairs` how many were seen.
    """

    spread: float
    residuals: tuple[float, ...]
    usd: tuple[float, ...]
    correlation: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """A day of an evaluator's traffic, by stratum, as if all of it were judged. The first stratum is never boosted.

    `subjects` is their number as weighted by samplers before us, `arrived` the number that those let through, `squares`
    the sum of its squared weights (all three alike where nobody sampled before us). `usd` is what judging them costs,
    and `products` are S_hg of the module.
    """

    subjects: tuple[float, ...]
    arrived: tuple[float, ...]
    usd: tuple[float, ...]
    squares: tuple[float, ...]
    products: tuple[tuple[float, ...], ...]
    second: SecondPhase | None = None

    def error(self, rates: Sequence[float], share: float = 1.0) -> float:
        """The standard error of a day's mean at these rates, all in (0, 1]; infinite with too few second scores."""
        sum_of_squares = sum(
            product / max(one, other)
            for one, row in zip(rates, self.products, strict=True)
            for other, product in zip(rates, row, strict=True)
        )
        total = sum(self.subjects)
        if self.second is None:
            return math.sqrt(max(0.0, sum_of_squares)) / total
        number = self.scored_again(rates, share)
        if number < FEWEST_AUDITS:
            return math.inf
        unexplained = sum(residual / rate for residual, rate in zip(self.second.residuals, rates, strict=True))
        squares = self.second.spread * sum_of_squares + (1.0 / share - 1.0) * unexplained
        return math.sqrt(max(0.0, squares) * number / (number - 2.0)) / total

    def scored_again(self, rates: Sequence[float], share: float) -> float:
        """The effective number of second scores in a day (Kish), each taken for a conversation of its own."""
        squares = sum(square / rate for square, rate in zip(self.squares, rates, strict=True))
        return sum(self.subjects) ** 2 * share / squares

    def cost(self, rates: Sequence[float], share: float = 1.0) -> float:
        """The cost of a day at these rates (USD)."""
        again = (0.0,) * len(self.usd) if self.second is None else self.second.usd
        return sum(rate * (one + share * two) for rate, one, two in zip(rates, self.usd, again, strict=True))

    def second_alone(self) -> DayFigures | None:
        """The same day where the second phase scores all that is sampled, and nobody else any; None without one."""
        if self.second is None:
            return None
        spread = self.second.spread
        products = tuple(tuple(spread * product for product in row) for row in self.products)
        return replace(self, usd=self.second.usd, products=products, second=None)


def rates_of(rate: float, boosts: Sequence[float]) -> tuple[float, ...]:
    """The rates of strata: the first one's, times the boosts, at most 1."""
    return tuple(min(1.0, rate * boost) for boost in boosts)


def least_rate(
    day: DayFigures, boosts: Sequence[float], error: float, share: float = 1.0, *, lowest: float = 1e-4
) -> float | None:
    """The lowest rate of the first stratum, from `lowest` to 1, that reaches a standard error; None if none does.

    With a second phase a day has `ENOUGH_AGAIN` second scores, too.
    """

    def reaches(rate: float) -> bool:
        rates = rates_of(rate, boosts)
        if day.second is not None and day.scored_again(rates, share) < ENOUGH_AGAIN:
            return False
        return day.error(rates, share) <= error

    if not reaches(1.0):
        return None
    low, high = math.log(lowest), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if reaches(math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)
