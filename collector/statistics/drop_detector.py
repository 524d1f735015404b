"""The drop detector: evidence that a mean has left its target, with a known rate of false alarms.

An e-detector in the Shiryaev-Roberts form (Shin, Ramdas, Rinaldo 2023). For each bet λ of a ladder, once an interval,

    M ← (1 + M) · Π (1 + u),   u = λ (target · a - b)

over the conversations of an interval that has scores, where a is the sum of weights of a conversation's scores and b
that of weights times scores. The weights are shares of a scale that is known before the score, so that a is at most 1
(`collector.statistics.bounded_sums`). The evidence is the mean of M over the ladder. As long as the mean is at target
or better, the mean number of intervals until the evidence passes c is at least c, whatever the scores' distribution,
the traffic, or their dependence from one conversation to the next. To start over sets M to 0, which only loses
evidence. Intervals without scores are taken together with the next one that has some, an hour of them at most: M grows
by one for each, and an evaluator that never scores has no evidence. A conversation's
scores come one by one, and each adds the growth of the conversation's log(1 + u).

Of the five counters alone (their growth in an interval) a lower bound of it can be computed: by Fan's inequality
log(1 + u) ≥ u - c(v) u² for u ≥ -v, c(v) = (-log(1 - v) - v) / v², with v = λ · (1 - target):

    Σ log(1 + u) ≥ λ (target·W - WY) - c(v) λ² (target²·W2 - 2·target·W2Y + W2Y2)

`tests/bench/drop_detection.py` measures false alarms and delays; `collector.statistics.incident` decides when an alert
ends. If lower is better, scores and target count from the other end.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.statistics.estimator import Sums

# Why a ladder and not one bet: the best bet grows with the drop, which is not known in advance. The mean over the bets
# costs log(14) of evidence against the best of them, and the guarantee stays, as a mean of e-detectors is one.
LADDER = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.1, 1.6, 2.4, 3.2, 4.8, 7.2, 11.0, 16.0)
_LARGEST_LOSS = 0.75
"""The largest share of its capital that a bet may lose on one conversation. Why not 1: c(v) grows
without limit towards it, and the bound from the sums would never find anything."""
_HEADROOM = 6.0
"""How far above the threshold a state may go, as a logarithm: more is too large a number for nothing."""
NOTHING = -100.0
"""The logarithm of a state without gains: e to this is 0 beside 1."""


@dataclass(frozen=True, slots=True)
class DropDetector:
    """The detector of one series: bets against the mean being at `target` or better. See the module."""

    target: float
    threshold: float
    lower_is_better: bool = False

    @property
    def span(self) -> float:
        """How far a score can lie on the good side of the target."""
        return self.target if self.lower_is_better else 1.0 - self.target

    @property
    def bets(self) -> tuple[float, ...]:
        """The ladder, as far as this target allows."""
        return tuple(bet for bet in LADDER if bet * self.span <= _LARGEST_LOSS)

    @property
    def ceiling(self) -> float:
        """The upper limit of the logarithm of a bet's state."""
        return self.threshold + math.log(len(self.bets)) + _HEADROOM

    def coefficient(self, bet: float) -> float:
        """Fan's c(v) of a bet."""
        return fans_coefficient(bet * self.span)

    def shortfall(self, w: float, wy: float) -> float:
        """Weight times how far the scores lie on the bad side of the target."""
        short = self.target * w - wy
        return -short if self.lower_is_better else short

    def log_gain_bound(self, bet: float, sums: Sums) -> float:
        """The lower bound of what an interval adds to the logarithm of a bet's state."""
        t = self.target
        squares = t * t * sums.w2 - 2.0 * t * sums.w2y + sums.w2y2
        return bet * self.shortfall(sums.w, sums.wy) - self.coefficient(bet) * bet**2 * squares

    def log_gain(self, bet: float, w: float, wy: float) -> float:
        """The gain of the logarithm of a bet's state by a conversation's scores with these sums; `w` is at most 1."""
        return math.log1p(bet * self.shortfall(w, wy))

    def advance(self, states: Sequence[float], increments: Iterable[float], intervals: int = 1) -> list[float]:
        """The logarithms of the states after an interval with scores; with those before it that had none."""
        return advance(states, increments, self.ceiling, intervals)

    def start(self) -> list[float]:
        """The logarithms of the states before the first score: no gains yet."""
        return [NOTHING] * len(self.bets)


def fans_coefficient(v: float) -> float:
    """Fan's c(v) of a bet that loses at most a share v of its capital on one conversation."""
    return 0.5 if v < 1e-9 else (-math.log1p(-v) - v) / v**2


MOST_INTERVALS = 60
"""Intervals without scores that count, with the one after them."""


def advance(states: Sequence[float], increments: Iterable[float], ceiling: float, intervals: int = 1) -> list[float]:
    """The logarithms of states after an interval with scores that adds `increments`; with those before it without."""
    more = math.log(intervals)
    return [
        max(NOTHING, min(_log_sum(state, more) + increment, ceiling))
        for state, increment in zip(states, increments, strict=True)
    ]


def evidence(states: Sequence[float]) -> float:
    """The logarithm of the mean of the states."""
    highest = max(states)
    return highest + math.log(sum(math.exp(state - highest) for state in states) / len(states))


def threshold(mean_seconds: float, interval: float, series: int) -> float:
    """The evidence that a false alarm passes once in `mean_seconds` over all of `series`, if evaluated every `interval`
    seconds.
    """
    return math.log(max(1.0, mean_seconds / interval) * max(1, series))


def _log_sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))
