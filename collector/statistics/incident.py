"""The life of a drop's alert: it begins with evidence of a drop, and ends with evidence that the mean has recovered.

When the drop detector fires, its evidence starts over, and what is known of the fall is written down: since when the
mean has been beyond its target, and to which level it fell (the mean since then). Two tests then run side by side, each
an e-detector on the sums as in `collector.statistics.drop_detector`, and each begins from nothing:

- *recovery*: evidence against "the mean is still no better than half-way from the level it fell to back to the
  target". Half-way, as that level is known with an error; but at most 0.1 from the target, so that half a recovery from
  a large fall is none. While the mean is no better, the alert ends wrongly once in the configured time at most.
- *a further fall*: evidence against "the mean is no worse than the level it fell to, less the same distance". It has
  the threshold of the first fall. A further fall is a new alert, and pages again.

After a recovery the detector starts over; a fall within a day of it is the next one of the same incident. Since when:
the last time at which the sum of shortfalls from the target was used up by scores on its good side, as a cumulative sum
has it (Page 1954).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from collector.statistics.drop_detector import (
    MOST_INTERVALS,
    NOTHING,
    DropDetector,
    advance,
    evidence,
    fans_coefficient,
)
from collector.statistics.estimator import Sums

STAKES = (0.04, 0.1, 0.2, 0.4, 0.75)
"""The largest loss of a bet within an incident on one conversation, as a share of its capital. Why few: the levels
they are about are known to a half, so that steps of two lose little."""
LARGEST_MARGIN = 0.1
"""How far from the target a mean may be at most to have recovered."""
LEAST_SPAN = 0.001
"""The span that a hypothesis has at least: bets are divided by it."""
CONTINUES = 1440
"""Intervals after a recovery within which a new fall continues the incident: a day. Its number continues."""
ROOM = 20.0
"""How far above its threshold evidence within an incident may go, as a logarithm."""


@dataclass(frozen=True, slots=True)
class Level:
    """The hypothesis that the mean is at `value` or above, or below if `at_most`."""

    value: float
    at_most: bool

    @property
    def span(self) -> float:
        """How far a score can lie on the hypothesis' side."""
        return max(LEAST_SPAN, self.value if self.at_most else 1.0 - self.value)

    def shortfall(self, sums: Sums) -> float:
        """Weight times how far scores lie on the other side."""
        short = self.value * sums.w - sums.wy
        return -short if self.at_most else short

    def log_gain_bound(self, stake: float, sums: Sums) -> float:
        """The lower bound of what an interval adds to the logarithm of a bet's state."""
        value, span = self.value, self.span
        squares = value * value * sums.w2 - 2.0 * value * sums.w2y + sums.w2y2
        gain = stake * self.shortfall(sums) / span
        return gain - fans_coefficient(stake) * stake**2 * squares / span**2


def margin(target: float, level: float) -> float:
    """How far a level lies from those at which a mean that fell to it has recovered, or fallen further."""
    return min(abs(target - level) / 2.0, LARGEST_MARGIN)


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of the mean: its number within the incident, since when (in intervals), and to which level."""

    number: int
    since: int
    level: float


class DropLife:
    """The detector of one series, and the alert that it raises. Intervals have numbers: the time in intervals.

    `recovery_threshold` is the evidence that ends an alert.
    """

    def __init__(self, detector: DropDetector, recovery_threshold: float) -> None:
        self.detector = detector
        self._recovery_threshold = recovery_threshold
        self.fall: Fall | None = None
        """The fall for which the alert fires."""
        self.before: Fall | None = None
        """The fall before it, if it is a further one."""
        self.recovered: int | None = None
        """The interval after the last recovery."""
        self.evidence = NOTHING
        """The logarithm of the evidence of a fall, or of a further one."""
        self.recovery = NOTHING
        """The logarithm of the evidence that the mean has recovered."""
        self._last: int | None = None
        self._falls = 0
        self._start_over()

    @property
    def start(self) -> int:
        """Since when the mean is short of its target, if it is, by interval; that of the fall within an incident."""
        return self._start if self.fall is None else self.fall.since

    def next_number(self, interval: int) -> int:
        """The number within its incident of a fall that begins in an interval."""
        continues = self.fall is not None or (self.recovered is not None and interval - self.recovered < CONTINUES)
        return self._falls + 1 if continues else 1

    def _start_over(self) -> None:
        self._drop = self.detector.start()
        self._further = self._recovering = [NOTHING] * len(STAKES)
        self._shortfall = self._weight = 0.0
        self._start = 0

    def step(self, number: int, sums: Sums, gains: Sequence[float] | None = None) -> None:
        """Take an interval: the detector's sums of its scores, and what it adds to every bet where that is known."""
        self._last = number - 1 if self._last is None else self._last
        if sums.w <= 0.0:
            return
        if self.evidence > self.detector.threshold or self.recovery > self._recovery_threshold:
            self._start_over()
        intervals = min(number - self._last, MOST_INTERVALS)
        self._last = number
        target = self._target()
        if self.fall is None:
            if gains is None:
                gains = [self.detector.log_gain_bound(bet, sums) for bet in self.detector.bets]
            self._drop = self.detector.advance(self._drop, gains, intervals)
            self.evidence, self.recovery = evidence(self._drop), NOTHING
        else:
            self._further = _advance(self._further, target, sums, self.detector.threshold, intervals)
            recovered = self._level_of_recovery(self.fall)
            self._recovering = _advance(self._recovering, recovered, sums, self._recovery_threshold, intervals)
            self.evidence, self.recovery = evidence(self._further), evidence(self._recovering)
        self._follow(number, sums, target)
        self._decide(number, target)

    def _target(self) -> Level:
        """The level of which the mean has fallen short if there is enough evidence."""
        lower, level = self.detector.lower_is_better, self.detector.target
        if self.fall is not None:
            away = margin(level, self.fall.level)
            level = min(1.0, max(0.0, self.fall.level + (away if lower else -away)))
        return Level(level, at_most=lower)

    def _level_of_recovery(self, fall: Fall) -> Level:
        lower, target = self.detector.lower_is_better, self.detector.target
        away = margin(target, fall.level)
        return Level(target + (away if lower else -away), at_most=not lower)

    def _follow(self, number: int, sums: Sums, target: Level) -> None:
        """Since when the mean has been short of the target, and by how much."""
        if not self._shortfall:
            self._start = number
        self._shortfall = max(0.0, self._shortfall + target.shortfall(sums))
        self._weight = self._weight + sums.w if self._shortfall else 0.0

    def _decide(self, number: int, target: Level) -> None:
        if self.evidence > self.detector.threshold:
            short = self._shortfall / self._weight if self._weight else 0.0
            level = target.value + short if target.at_most else target.value - short
            self.before = self.fall
            self._falls = self.next_number(number)
            self.fall = Fall(self._falls, self._start, level)
        if self.recovery > self._recovery_threshold:
            self.fall = self.before = None
            self.recovered = number + 1


def _advance(states: Sequence[float], level: Level, sums: Sums, threshold: float, intervals: int) -> list[float]:
    return advance(states, [level.log_gain_bound(stake, sums) for stake in STAKES], threshold + ROOM, intervals)


def recovery_threshold(mean_seconds: float, interval: float) -> float:
    """The evidence of a recovery that passes wrongly once in `mean_seconds` while the mean is down."""
    return math.log(max(1.0, mean_seconds / interval))
