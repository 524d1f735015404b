"""The life of a drop's alert: it begins with evidence of a drop, and ends with evidence that the mean has recovered.

When the drop detector fires, its evidence starts over, and the fall is noted: when the mean left its target, and the
level to which it fell (the mean since then). Two tests then run side by side. Each is an e-detector as below, and
begins without evidence:

- *recovery*: evidence against "the mean is still no better than half-way from the level it fell to back to the
  target". Half-way, as that level is not known exactly; at most 0.1 from the target, as half a recovery from a large
  fall is not one. While the mean is no better, the alert ends wrongly once in the configured time at most.
- *a further fall*: evidence against "the mean is no worse than the level it fell to, less the same distance". It has
  the threshold of the first fall. A further fall is a new alert, and pages again.

If a fall is found at once, its level mixes scores from before and after, because its minute began with good scores. So
the level is settled later: when some minutes have passed since the alert began, and their mean has a standard error of
at most half of that distance, or a weight of 400. If that mean is worse, it becomes the level. Until then no further
fall is tested for. An interval whose own mean has recovered settles nothing, nor does any with half the evidence of a
recovery: the mean since the alert began then holds recovered scores.

After a recovery the detector starts over; a fall within the next day belongs to the same incident. The sum of
shortfalls (a cumulative sum, Page 1954) may leave 0 by chance long before a fall. So a fall began at the interval since
which shortfall² / weight is largest: the likeliest begin if the mean before was the target. Another begin is as likely,
if that value is smaller by at most `BEGIN_DOUBT` times a conversation's weight. Of simulated falls 95 to 100 % began
between these, but 72 to 89 % of small ones found late: the mean before is not at the target, and the test stops.

The drop detector is evidence that a mean has left its target, with a known rate of false alarms: an e-detector in the
Shiryaev-Roberts form (Shin, Ramdas, Rinaldo 2023). For each bet λ of a ladder, once an interval,

    M ← (1 + M) · Π (1 + u),   u = λ (target · a - b)

over the conversations of an interval with scores, where a is the sum of the weights of a conversation's scores, and b
the sum of weights times scores. The weights are shares of a scale that is known before the score, so that a is at most
1 (`collector.statistics.bounded_sums`). The evidence is the mean of M over the ladder. As long as the mean is at target
or better, the mean number of intervals until the evidence passes c is at least c, whatever the distribution of scores,
the traffic, or the dependence between conversations. Starting over sets M to 0, which only loses evidence. Up to an
hour of intervals without scores is taken together with the next interval that has scores: M grows by one for each, and
an evaluator that never scores has no evidence. A conversation's scores come one by one, and each adds the growth of the
conversation's log(1 + u).

The growth of the five counters in an interval suffices for a lower bound of that growth, by Fan's inequality log(1 + u)
≥ u - c(v) u² for u ≥ -v, c(v) = (-log(1 - v) - v) / v², with v = λ · (1 - target):

    Σ log(1 + u) ≥ λ (target·W - WY) - c(v) λ² (target²·W2 - 2·target·W2Y + W2Y2)

`tests/bench/drop_detection.py` measures false alarms and delays. If lower is better, scores and target count from the
other end.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collector.statistics.bounded_sums import Sums

# A ladder and not one bet, because the best bet grows with the drop, which is not known in advance. The mean over the
# bets has log(14) less evidence than the best of them, and keeps the guarantee, as a mean of e-detectors is an
# e-detector.
LADDER = (0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.1, 1.6, 2.4, 3.2, 4.8, 7.2, 11.0, 16.0)
_LARGEST_LOSS = 0.75
"""The largest share of its capital that a bet may lose on one conversation. It is not 1, because c(v) grows without
limit towards 1, and the bound from the sums would never find anything."""
_HEADROOM = 6.0
"""How far above the threshold a state may go, as a logarithm; more would only make large numbers."""
NOTHING = -100.0
"""The logarithm of a state without gains: e to this power is negligible beside 1."""


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
        """The bets of the ladder that this target allows."""
        return tuple(bet for bet in LADDER if bet * self.span <= _LARGEST_LOSS)

    @property
    def ceiling(self) -> float:
        """The upper limit of the logarithm of a bet's state."""
        return self.threshold + math.log(len(self.bets)) + _HEADROOM

    def coefficient(self, bet: float) -> float:
        """Fan's c(v) of a bet."""
        return fans_coefficient(bet * self.span)

    def shortfall(self, w: float, wy: float) -> float:
        """The weight times the distance of the scores from the target, on its bad side."""
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
        """The logarithms of the states after an interval with scores and the intervals without scores before it."""
        return advance(states, increments, self.ceiling, intervals)

    def start(self) -> list[float]:
        """The logarithms of the states before the first score: no gains yet."""
        return [NOTHING] * len(self.bets)


def fans_coefficient(v: float) -> float:
    """Fan's c(v) of a bet that loses at most a share v of its capital on one conversation."""
    return 0.5 if v < 1e-9 else (-math.log1p(-v) - v) / v**2


MOST_INTERVALS = 60
"""The most intervals without scores that count together with the next one."""


def advance(states: Sequence[float], increments: Iterable[float], ceiling: float, intervals: int = 1) -> list[float]:
    """The logarithms of states after an interval that adds `increments`, and intervals without scores before it."""
    more = math.log(intervals)
    return [
        # log(exp(state) + intervals) + increment
        max(NOTHING, min(max(state, more) + math.log1p(math.exp(-abs(state - more))) + increment, ceiling))
        for state, increment in zip(states, increments, strict=True)
    ]


def evidence(states: Sequence[float]) -> float:
    """The logarithm of the mean of the states."""
    highest = max(states)
    return highest + math.log(sum(math.exp(state - highest) for state in states) / len(states))


def threshold(mean_seconds: float, interval: float, series: int) -> float:
    """The evidence that false alarms reach once in `mean_seconds` over all `series`, if evaluated every `interval`
    seconds.
    """
    return math.log(max(1.0, mean_seconds / interval) * max(1, series))


STAKES = (0.04, 0.1, 0.2, 0.4, 0.75)
"""The largest losses of bets within an incident on one conversation, as shares of their capital. A few suffice: the
levels are known only roughly, so steps of a factor of two lose little."""
LARGEST_MARGIN = 0.1
"""The largest distance from the target at which a mean counts as recovered."""
SETTLING_INTERVALS, LARGEST_SETTLING_WEIGHT = 5, 400.0
"""The intervals with scores after which the level of a fall is final, and the weight that always suffices."""
BEGIN_DOUBT, MOST_BEGINS = 7.35 / 4, 360
"""The doubt in a fall's begin: the 95 % quantile of twice the largest value of a two-sided Brownian motion with the
drift of a likelihood ratio, times a score's largest variance. And the number of intervals that are compared."""
LEAST_DIFFERENCE = 0.005
"""The least difference of two means that a text calls a fall, or shows."""
LEAST_SPAN = 0.001
"""The least span of a hypothesis, because bets are divided by it."""
CONTINUES = 1440
"""Intervals after a recovery (a day) within which a new fall continues the incident and its numbering."""
ROOM = 20.0
"""How far above its threshold the evidence within an incident may go, as a logarithm."""


@dataclass(frozen=True, slots=True)
class Level:
    """The hypothesis that the mean is at `value` or above, or below if `at_most`."""

    value: float
    at_most: bool

    @property
    def span(self) -> float:
        """The largest distance of a score from `value` on the hypothesis' side."""
        return max(LEAST_SPAN, self.value if self.at_most else 1.0 - self.value)

    def shortfall(self, sums: Sums) -> float:
        """The weight times the scores' distance from `value`, measured from the other end of the scale."""
        short = self.value * sums.w - sums.wy
        return -short if self.at_most else short

    def log_gain_bound(self, stake: float, sums: Sums) -> float:
        """The lower bound of what an interval adds to the logarithm of a bet's state."""
        value, span = self.value, self.span
        squares = value * value * sums.w2 - 2.0 * value * sums.w2y + sums.w2y2
        return stake * self.shortfall(sums) / span - fans_coefficient(stake) * stake**2 * squares / span**2


def margin(target: float, level: float) -> float:
    """The distance from a level at which a mean has recovered, or fallen further."""
    return min(abs(target - level) / 2.0, LARGEST_MARGIN)


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of the mean: its number within the incident, its likeliest begin (an interval) and its level. It was found
    in the interval `detected`.

    It began between the starts of the intervals `earliest` and `latest`. `mean` is the mean from `since` until the
    alert began. `level`, which the tests use, may hold scores from before the fall.
    """

    number: int
    since: int
    earliest: int
    latest: int
    mean: float
    level: float
    detected: int
    settled: bool = False
    """Whether the level is final. Until then scores after the fall may correct it."""


class _Begins:
    """The shortfall since it was last 0, its weight, and the intervals at which a fall may have begun since then."""

    def __init__(self) -> None:
        self.shortfall = self.weight = 0.0
        self.first = 0
        self._candidates: list[tuple[int, int, float, float]] = []
        """Each interval with the last one that had scores before it, and the shortfall and the weight before it."""

    def add(self, number: int, last: int, shortfall: float, weight: float) -> None:
        """Take an interval; `last` is the last one with scores before it."""
        if not self.shortfall:
            self._candidates, self.first = [], number
        self._candidates.append((number, last, self.shortfall, self.weight))
        del self._candidates[1:-MOST_BEGINS]
        self.shortfall = max(0.0, self.shortfall + shortfall)
        self.weight = self.weight + weight if self.shortfall else 0.0

    def likely(self, doubt: float = 0.0) -> tuple[int, int, int, float]:
        """The likeliest interval, the earliest and the latest likely one, and the mean shortfall since the first."""
        if not self.shortfall:
            return self.first, self.first - 1, self.first + 1, 0.0
        since = [
            (number, last, self.shortfall - short, self.weight - weight)
            for number, last, short, weight in self._candidates
        ]
        gains = [max(0.0, short) ** 2 / weight for *_, short, weight in since]
        best = max(gains)
        near = [begin for begin, gain in zip(since, gains, strict=True) if gain >= best - doubt]
        number, _, short, weight = since[gains.index(best)]
        return number, near[0][1], near[-1][0] + 1, short / weight


Incidents = tuple[tuple[int, int], ...]
"""Incidents by the likeliest begin of their first fall, and the interval after their recovery."""


class DropLife:
    """The detector of one series, and the alert that it raises. Intervals are numbered by time.

    `recovery_threshold` is the evidence that ends an alert; `incidents` are those that were over before.
    """

    def __init__(self, detector: DropDetector, recovery_threshold: float, incidents: Incidents = ()) -> None:
        self.detector = detector
        self._recovery_threshold = recovery_threshold
        self.fall: Fall | None = None
        """The fall for which the alert fires."""
        self.before: Fall | None = None
        """The fall before `fall`, if that is a further one."""
        self.incidents = incidents
        """The incidents that are over, in order of time."""
        self.evidence = NOTHING
        """The logarithm of the evidence of a fall, or of a further one."""
        self.recovery = NOTHING
        """The logarithm of the evidence that the mean has recovered."""
        self._last: int | None = None
        self._first: int | None = None
        """The first interval with scores: nothing was short of its target before."""
        self.first_detected = 0
        """The interval in which the first fall of the incident was found."""
        self._falls = self._short_since = self._incident_since = 0
        self._start_over()

    @property
    def recovered(self) -> int | None:
        """The interval after the last recovery."""
        return self.incidents[-1][1] if self.incidents else None

    @property
    def start(self) -> int:
        """The interval since which the mean is short of its target; in an incident, as it was when the alert began."""
        return self._begins.first if self.fall is None else self._short_since

    @property
    def likely_start(self) -> int:
        """The interval at which the fall likeliest began, if there is one."""
        return self._begins.likely()[0] if self.fall is None else self.fall.since

    def next_number(self, interval: int) -> int:
        """The number within its incident of a fall that begins in an interval."""
        continues = self.fall is not None or (self.recovered is not None and interval - self.recovered < CONTINUES)
        return self._falls + 1 if continues else 1

    def _start_over(self) -> None:
        self._drop = self.detector.start()
        self._further = self._recovering = [NOTHING] * len(STAKES)
        self._begins = _Begins()
        self._after, self._intervals_after = Sums(), 0

    def step(self, number: int, sums: Sums, gains: Sequence[float] | None = None) -> None:
        """Take an interval: the detector's sums of its scores, and the growth of every bet if it is known."""
        self._last = number - 1 if self._last is None else self._last
        if sums.w <= 0.0:
            return
        if self.evidence > self.detector.threshold or self.recovery > self._recovery_threshold:
            self._start_over()
        last, self._last = self._last, number
        intervals = min(number - last, MOST_INTERVALS)
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
        self._first = number if self._first is None else self._first
        self._begins.add(number, max(last, self._first), target.shortfall(sums), sums.w)
        self._decide(number, target, sums)

    def _target(self) -> Level:
        """The level that the mean has fallen short of if there is enough evidence."""
        lower, level = self.detector.lower_is_better, self.detector.target
        if self.fall is not None:
            away = margin(level, self.fall.level) if self.fall.settled else 1.0  # no mean can be beyond this level
            level = min(1.0, max(0.0, self.fall.level + (away if lower else -away)))
        return Level(level, at_most=lower)

    def _level_of_recovery(self, fall: Fall) -> Level:
        lower, target = self.detector.lower_is_better, self.detector.target
        away = margin(target, fall.level)
        return Level(target + (away if lower else -away), at_most=not lower)

    def _settling(self, fall: Fall, sums: Sums) -> Fall:
        """The fall after one more interval: with its final level, if enough scores have come since the alert began."""
        self._after += sums
        self._intervals_after += 1
        near = margin(self.detector.target, fall.level)
        sure = self._after.w >= LARGEST_SETTLING_WEIGHT or 2.0 * self._after.stderr <= near
        recovers = self.recovery > self._recovery_threshold / 2 or self._level_of_recovery(fall).shortfall(sums) >= 0
        if not sure or self._intervals_after < SETTLING_INTERVALS or recovers:
            return fall
        worse = max if self.detector.lower_is_better else min
        return replace(fall, level=worse(fall.level, self._after.mean), settled=True)

    def _decide(self, number: int, target: Level, sums: Sums) -> None:
        if self.evidence > self.detector.threshold:
            begins, worse = self._begins, 1.0 if target.at_most else -1.0
            since, earliest, latest, short = begins.likely(BEGIN_DOUBT * sums.w2 / sums.w)
            level = target.value + worse * begins.shortfall / (begins.weight or 1.0)
            self.before, self._short_since = self.fall, begins.first
            if self.fall is None:
                self._incident_since, self.first_detected = since, number
            self._falls = self.next_number(number)
            self.fall = Fall(self._falls, since, earliest, latest, target.value + worse * short, level, number)
        elif self.fall is not None and not self.fall.settled:
            self.fall = self._settling(self.fall, sums)
        if self.recovery > self._recovery_threshold:
            self.fall = self.before = None
            self.incidents += ((self._incident_since, number + 1),)


def _advance(states: Sequence[float], level: Level, sums: Sums, threshold: float, intervals: int) -> list[float]:
    return advance(states, [level.log_gain_bound(stake, sums) for stake in STAKES], threshold + ROOM, intervals)


def recovery_threshold(mean_seconds: float, interval: float) -> float:
    """The evidence of a recovery that is reached wrongly once in `mean_seconds` while the mean is down."""
    return math.log(max(1.0, mean_seconds / interval))
