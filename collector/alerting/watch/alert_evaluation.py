"""Evaluation of alerts from buckets: the exact drop detector, and the test of the mean over every window."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.alerting.rules.series import WINDOWS
from collector.alerting.watch.buckets import Bucket
from collector.statistics.bounded_sums import Sums
from collector.statistics.incident import LEAST_DIFFERENCE, DropDetector, DropLife, Incidents
from collector.statistics.intervals import MeanInterval, bounds_of_all
from collector.statistics.mean_error import WindowSums


class DropState:
    """The detector of one series and its alert, advanced to the last interval that has ended.

    `recovery_threshold` is the evidence that ends the alert. `first` is the first interval to which the target
    applies: earlier scores are no evidence; incidents were `over` before it.
    """

    def __init__(self, detector: DropDetector, recovery_threshold: float, first: int = 0, over: Incidents = ()) -> None:
        self._begin = detector, recovery_threshold, over
        self.first = self._until = first
        """`_until`: the first interval that is not processed yet."""
        self.life = DropLife(*self._begin)

    def invalidate(self, number: int) -> None:
        """A bucket has changed: if it was processed already, everything is computed again."""
        if number < self._until:
            self.life = DropLife(*self._begin)
            self._until = self.first

    def begin(self, known: int) -> int:
        """A begin that `life` knows, not before `first`. Both are 0 before an interval with scores has ended: then the
        present one, which has the first scores.
        """
        return max(self.first, known) or self._until

    def advance(self, buckets: Mapping[int, Bucket], until: int) -> None:
        """Take the buckets, in order of time, up to but not `until`."""
        for number, bucket in buckets.items():
            if self._until <= number < until:
                self.life.step(number, bucket.evidence, bucket.gains)
        self._until = max(self._until, until)


@dataclass(frozen=True, slots=True)
class FallOfMean:
    """A fall that an alert fires for: between which times (s) it began, the mean before it if it is known, the mean it
    fell to, and the level that tests use.
    """

    number: int
    began: tuple[float, float]
    before: float | None
    mean: float
    level: float
    settled: bool = True
    """Whether the mean is final."""

    def is_fall(self, of: DropDetector) -> bool:
        """Whether the mean is known to have been better before and, at a first fall, to have been nearer to its target
        than to its level since. If the target was raised, or the mean was never near it, the mean has not fallen.
        """
        if self.before is None or (self.was_low(of) and self.number == 1):
            return False
        return of.shortfall(1.0, self.mean) - of.shortfall(1.0, self.before) > LEAST_DIFFERENCE

    def was_low(self, of: DropDetector) -> bool:
        """Whether the mean is known to have been no nearer to its target before: nobody knows since when."""
        return self.before is not None and of.shortfall(1.0, self.before) >= of.shortfall(1.0, self.mean) / 2.0


def fall_of(drop: DropState, buckets: Mapping[int, Bucket], interval: float) -> FallOfMean | None:
    """The fall that a series' alert fires for; a first one fell from the mean over the day before it, without incidents
    that are over.
    """
    fall, earlier = drop.life.fall, drop.life.before
    if fall is None:
        return None
    good = {number: bucket for number, bucket in buckets.items() if number < fall.since}
    for begin, end in drop.life.incidents:
        good = {number: bucket for number, bucket in good.items() if not begin <= number < end}
    day = window_from(good, max(drop.first, fall.since - int(WINDOWS["24h"] // interval))).sums
    before = (day.mean if day.w else None) if earlier is None else earlier.level
    began, mean = (fall.earliest * interval, fall.latest * interval), fall.level if fall.settled else fall.mean
    return FallOfMean(fall.number, began, before, mean, fall.level, fall.settled)


UNSCORED_WINDOW, FEWEST_WANTED = "1h", 20
"""The window of the share without a score, and the fewest evaluations for it; the same as in the Prometheus rules."""


def unscored_share(buckets: Iterable[Mapping[int, Bucket]], *, now: float, interval: float) -> float:
    """Of the evaluations that should have a score, the share that has none; 0 if there are too few evaluations."""
    first = int((now - WINDOWS[UNSCORED_WINDOW]) // interval)
    recent = [bucket for part in buckets for number, bucket in part.items() if first <= number < now / interval]
    few = sum(bucket.wanted for bucket in recent) < FEWEST_WANTED
    return 0.0 if few else _unscored_share(dict(enumerate(recent)), 0)


def window_from(buckets: Mapping[int, Bucket], first: int) -> WindowSums:
    """The sums from a bucket on, and how many scores they come from."""
    total, scores = Sums(), 0
    for number, bucket in buckets.items():
        if number >= first:
            total += bucket.sums
            scores += bucket.wanted - bucket.unscored
    return WindowSums(total, scores)


@dataclass(frozen=True, slots=True)
class TargetMiss:
    """A window in which the mean is on the wrong side of its target, and by how many standard errors."""

    window: str
    sums: Sums
    stderr: float
    standard_errors: float
    clipped: float = 0.0
    """The share of the weight that is left out of the mean."""
    uncovered: float = 0.0
    """The share of the evaluations that lack a score, plus the share of cases that scores do not cover."""

    @property
    def bounds(self) -> MeanInterval:
        """The least and the largest mean that all subjects can have, scored or not."""
        return bounds_of_all(self.sums.mean, self.uncovered)


def target_misses(
    buckets: Mapping[int, Bucket],
    detector: DropDetector,
    *,
    now: float,
    interval: float,
    min_n: float,
    doubts: Mapping[str, float] | None = None,
    recovered: int | None = None,
) -> list[TargetMiss]:
    """The windows with enough scores in which the mean is on the wrong side of its target, by more than its doubt.
    Windows that reach back before the interval `recovered` hold scores of an incident that is over, and are left out.
    """
    misses: list[TargetMiss] = []
    firsts = {window: int((now - length) // interval) for window, length in WINDOWS.items()}
    day = window_from(buckets, firsts["24h"])
    for window, first in firsts.items():
        if recovered is not None and first < recovered:
            continue
        known = _sums_and_error(buckets, first, day)
        if known is None or known[0].n_eff < min_n:
            continue
        sums, stderr = known
        errors = (detector.shortfall(1.0, sums.mean) - (doubts or {}).get(window, 0.0)) / stderr
        if errors > 0:
            clipped = sum(bucket.clipped for number, bucket in buckets.items() if number >= first)
            shares = clipped / (clipped + window_from(buckets, first).sums.w or 1.0), _uncovered_share(buckets, first)
            misses.append(TargetMiss(window, sums, stderr, errors, *shares))
    return misses


def _sums_and_error(buckets: Mapping[int, Bucket], first: int, day: WindowSums) -> tuple[Sums, float] | None:
    """The sums that a window's mean is made of, and its standard error; None if it needs audits and has too few.

    If audits correct the mean, the sums are those of the effective number of audits.
    """
    audited = [bucket.audited for number, bucket in buckets.items() if number >= first and bucket.audited is not None]
    if not audited and any(bucket.audited is not None for bucket in buckets.values()):
        return None
    if audited:
        mean = sum(audited[1:], audited[0]).corrected()
        return None if mean is None else (Sums(mean.audits, mean.audits * mean.mean, mean.audits), mean.error)
    whole = window_from(buckets, first)
    return (whole.sums, whole.stderr(day)) if whole.sums.w else None


def _unscored_share(buckets: Mapping[int, Bucket], first: int) -> float:
    """Of the evaluations that should have a score, the share that lacks it, or lacks that of a drawn audit."""
    recent = [bucket for number, bucket in buckets.items() if number >= first]
    unscored = max(0, sum(bucket.unscored for bucket in recent)) / max(1, sum(bucket.wanted for bucket in recent))
    lost = sum(bucket.lost_audits for bucket in recent)
    audited = sum(bucket.audited.values[0] for bucket in recent if bucket.audited is not None)
    return 1.0 - (1.0 - unscored) * (audited / (audited + lost) if lost else 1.0)


def _uncovered_share(buckets: Mapping[int, Bucket], first: int) -> float:
    recent = [bucket for number, bucket in buckets.items() if number >= first]
    unshown = sum(bucket.unshown for bucket in recent) / max(1, sum(bucket.wanted for bucket in recent))
    return min(1.0, _unscored_share(buckets, first) + unshown)
