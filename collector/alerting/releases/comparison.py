"""Compares two versions: how much better or worse the new one is, with an interval that holds at any time.

While both run, they are compared side by side. Time is divided into blocks of an hour to a day, with at least 20
effective conversations of each version, so that the daily wave and a changing share of the traffic do no harm. With d
the difference of a block's means, n and m its effective numbers, h = n m / (n + m), and s², t² the variances of one
conversation, pooled over the blocks,

    Σ h d / Σ h,   V = Σ h² (s² / n + t² / m)

is the estimate and the variance of its sum, and `confidence.radius(V, α) / Σ h` the half width of its interval. Means
and variances are those of the estimator: weights 1 / p, conversations as clusters.

The version may be the reason why a case has no score: the judge refuses its worse answers, or the application fails.
Let e be the share of the new version's cases without a score minus the old version's share. The interval is wider by
the bounds of Manski (1989): with the mean m, by e m downwards and e (1 - m) upwards. The loss that both versions have
is assumed to be equal.

If the new version replaced the old one at once, there is no block. Then each of its hours is compared with the same
hour of the week before, in the same blocks, which excludes effects of the time of day and the day of the week. Other
changes within a week remain, so the alert needs more than `drift`. If the old version did not run a week before, or its
scores are not known, the mean is compared with that of the day before. That cannot tell the version from the time of
day, so it has no interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import hypot
from typing import Literal

from collector.alerting.releases.hourly_scores import total
from collector.statistics.bounded_sums import Sums
from collector.statistics.confidence_sequence import radius

BLOCK = 20.0
"""The effective conversations of each version in a block; with fewer, variances and weighted means are too
uncertain."""
LONGEST_BLOCK = 24
"""Hours after which a block with too few conversations of a version begins again."""
BEFORE, WEEK = 24, 168
"""The hours of a day and of a week: the periods before a release that it is compared with if both did not run side by
side."""
_PRIOR, _PRIOR_VARIANCE = 10.0, 0.1
"""The prior of a variance: so many conversations of this variance are added, because few equal scores are no
certainty."""
INTERVAL_ERROR = 0.05
"""The error rate of the intervals that are shown."""

Method = Literal["in the same hours", "week before", "day before"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of the new version minus that of the old one, with its interval from `low` to `high`, if it has one.

    Without an interval, `errors` is the distance from 0 in standard errors.
    """

    estimate: float
    low: float
    high: float
    method: Method
    errors: float = 0.0

    @property
    def has_interval(self) -> bool:
        """Whether it can tell the version from the time of day. Otherwise `low` and `high` mean nothing."""
        return self.method != "day before"


@dataclass(frozen=True, slots=True)
class _Spread:
    """The variance of one conversation, pooled over groups."""

    squares: float = _PRIOR * _PRIOR_VARIANCE
    count: float = _PRIOR

    def and_of(self, sums: Sums) -> "_Spread":
        number = sums.n_eff
        squares = sums.residual_squares / sums.w**2 * number**3 / (number - 1.0)
        return _Spread(self.squares + squares, self.count + number)

    @property
    def variance(self) -> float:
        return self.squares / self.count


Hourly = Mapping[int, Sums]


@dataclass(frozen=True, slots=True)
class Pair:
    """The hours of a new version, and the hours of the old version from a week before the new one came."""

    old: Hourly
    new: Hourly
    started: int
    """The hour in which the new version came."""
    excess: float = 0.0
    """The new version's share of cases without a score minus the old version's."""

    def difference(self, error_rate: float) -> Difference | None:
        """The difference; its interval is ever wrong in a share `error_rate` of releases. None with too few scores."""
        difference = self._of_scores(error_rate)
        if difference is None or not self.excess:
            return difference
        mean = total(self.new.values()).mean
        low, high = difference.low - self.excess * mean, difference.high + self.excess * (1.0 - mean)
        return replace(difference, low=low, high=high)

    def _of_scores(self, error_rate: float) -> Difference | None:
        if blocks := _blocks(self.old, self.new, self.started):
            return _difference(blocks, error_rate, "in the same hours")
        earlier = self.week_before
        blocks = _blocks(earlier, {hour: sums for hour, sums in self.new.items() if hour in earlier}, self.started)
        return _difference(blocks, error_rate, "week before") if blocks else self._since_the_day_before()

    @property
    def week_before(self) -> Hourly:
        """The old version's hours, shifted by a week to the new version's."""
        before = {hour: self.old.get(hour - WEEK) for hour in self.new if hour - WEEK < self.started}
        return {hour: sums for hour, sums in before.items() if sums is not None}

    def _since_the_day_before(self) -> Difference | None:
        old = total(sums for hour, sums in self.old.items() if self.started - BEFORE <= hour < self.started)
        new = total(self.new.values())
        if min(old.n_eff, new.n_eff) < BLOCK:
            return None
        change = new.mean - old.mean
        return Difference(change, -1.0, 1.0, "day before", change / hypot(old.stderr, new.stderr))


def _blocks(old_hours: Hourly, new_hours: Hourly, started: int) -> list[tuple[Sums, Sums]]:
    blocks: list[tuple[Sums, Sums]] = []
    old = new = Sums()
    began = None
    for hour in sorted(each for each in {*old_hours, *new_hours} if each >= started):
        if began is not None and hour - began >= LONGEST_BLOCK:
            old = new = Sums()
            began = None
        began = hour if began is None else began
        old += old_hours.get(hour, Sums())
        new += new_hours.get(hour, Sums())
        if min(old.n_eff, new.n_eff) >= BLOCK:
            blocks.append((old, new))
            old = new = Sums()
            began = None
    return blocks


def _difference(blocks: list[tuple[Sums, Sums]], error_rate: float, method: Method) -> Difference:
    of_old, of_new = _Spread(), _Spread()
    for old, new in blocks:
        of_old, of_new = of_old.and_of(old), of_new.and_of(new)
    summed = weight = variance = 0.0
    for old, new in blocks:
        h = old.n_eff * new.n_eff / (old.n_eff + new.n_eff)
        weight += h
        summed += h * (new.mean - old.mean)
        variance += h * h * (of_old.variance / old.n_eff + of_new.variance / new.n_eff)
    estimate, half = summed / weight, radius(variance, error_rate) / weight
    return Difference(estimate, estimate - half, estimate + half, method)
