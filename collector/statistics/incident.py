"""The life of a drop's alert: it begins with evidence of a drop, and ends with evidence that the mean has recovered.

When the drop detector fires, its evidence starts over, and what is known of the fall is written down: since when the
mean has been beyond its target, and to which level it fell (the mean since then). Two tests then run side by side, each
an e-detector as below, and each begins from nothing:

- *recovery*: evidence against "the mean is still no better than half-way from the level it fell to back to the
  target". Half-way, as that level is known with an error; but at most 0.1 from the target, so that half a recovery from
  a large fall is none. While the mean is no better, the alert ends wrongly once in the configured time at most.
- *a further fall*: evidence against "the mean is no worse than the level it fell to, less the same distance". It has
  the threshold of the first fall. A further fall is a new alert, and pages again.

The level of a fall that is found at once is a mix of before and after: its minute began with good scores. So it is open
until it is settled: until some minutes have passed since the alert began, and the mean of their scores has a standard
error of half of that distance at most, or a weight of 400. That mean is then the level if it is worse; until then no
further fall is tested for.

After a recovery the detector starts over; a fall within a day of it is the next one of the same incident. Since when:
the last time at which the sum of shortfalls from the target was used up by scores on its good side, as a cumulative sum
has it (Page 1954).

The drop detector is evidence that a mean has left its target, with a known rate of false alarms: an e-detector in the
Shiryaev-Roberts form (Shin, Ramdas, Rinaldo 2023). For each bet λ of a ladder, once an interval,

    M ← (1 + M) · Π (1 + u),   u = λ (target · a - b)

over the conversations of an interval that has scores, where a is the sum of weights of a conversation's scores and b
that of weights times scores. The weights are shares of a scale that is known before the score, so that a is at most 1
(`collector.statistics.bounded_sums`). The evidence is the mean of M over the ladder. As long as the mean is at target
or better, the mean number of intervals until the evidence passes c is at least c, whatever the scores' distribution,
the traffic, or their dependence from one conversation to the next. To start over sets M to 0, which only loses
evidence. Intervals without scores are taken together with the next one that has some, an hour of them at most: M grows
by one for each, and an evaluator that never scores has no evidence. A conversation's scores come one by one, and each
adds the growth of the conversation's log(1 + u).

Of the five counters alone (their growth in an interval) a lower bound of it can be computed: by Fan's inequality
log(1 + u) ≥ u - c(v) u² for u ≥ -v, c(v) = (-log(1 - v) - v) / v², with v = λ · (1 - target):

    Σ log(1 + u) ≥ λ (target·W - WY) - c(v) λ² (target²·W2 - 2·target·W2Y + W2Y2)

`tests/bench/drop_detection.py` measures false alarms and delays. If lower is better, scores and target count from the
other end.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collector.statistics.bounded_sums import Sums

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


STAKES = (0.04, 0.1, 0.2, 0.4, 0.75)
"""The largest loss of a bet within an incident on one conversation, as a share of its capital. Why few: the levels
they are about are known to a half, so that steps of two lose little."""
LARGEST_MARGIN = 0.1
"""How far from the target a mean may be at most to have recovered."""
SETTLING_INTERVALS, LARGEST_SETTLING_WEIGHT = 5, 400.0
"""Intervals with scores after a fall's alert before its level is final, and the weight that always suffices."""
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
    settled: bool = False
    """Whether the level is final: until then scores after the fall may correct it."""


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
        self._after, self._intervals_after = Sums(), 0

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
        self._decide(number, target, sums)

    def _target(self) -> Level:
        """The level of which the mean has fallen short if there is enough evidence."""
        lower, level = self.detector.lower_is_better, self.detector.target
        if self.fall is not None:
            away = margin(level, self.fall.level) if self.fall.settled else 1.0  # a level that no mean can be beyond
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

    def _settling(self, fall: Fall, sums: Sums) -> Fall:
        """The fall after one more interval: with its final level, if enough scores have come since the alert began."""
        self._after += sums
        self._intervals_after += 1
        sure = self._after.w >= LARGEST_SETTLING_WEIGHT or (
            2.0 * self._after.stderr <= margin(self.detector.target, fall.level)
        )
        if not sure or self._intervals_after < SETTLING_INTERVALS:
            return fall
        worse = max if self.detector.lower_is_better else min
        return replace(fall, level=worse(fall.level, self._after.mean), settled=True)

    def _decide(self, number: int, target: Level, sums: Sums) -> None:
        if self.evidence > self.detector.threshold:
            short = self._shortfall / self._weight if self._weight else 0.0
            level = target.value + short if target.at_most else target.value - short
            self.before = self.fall
            self._falls = self.next_number(number)
            self.fall = Fall(self._falls, self._start, level)
        elif self.fall is not None and not self.fall.settled:
            self.fall = self._settling(self.fall, sums)
        if self.recovery > self._recovery_threshold:
            self.fall = self.before = None
            self.recovered = number + 1


def _advance(states: Sequence[float], level: Level, sums: Sums, threshold: float, intervals: int) -> list[float]:
    return advance(states, [level.log_gain_bound(stake, sums) for stake in STAKES], threshold + ROOM, intervals)


def recovery_threshold(mean_seconds: float, interval: float) -> float:
    """The evidence of a recovery that passes wrongly once in `mean_seconds` while the mean is down."""
    return math.log(max(1.0, mean_seconds / interval))
