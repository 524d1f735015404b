"""Evaluation of alerts from buckets: the exact drop detector, and the test of the mean over every window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.alerting.detection import DropDetector, EstimatorSums, evidence
from collector.alerting.watch.buckets import Bucket

WINDOWS = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}


def merge_buckets(parts: Iterable[Mapping[int, Bucket]]) -> dict[int, Bucket]:
    """The buckets of all partitions as one, in order of time."""
    whole: dict[int, Bucket] = {}
    for part in parts:
        for number, bucket in part.items():
            if number in whole:
                before = whole[number]
                gains = [one + other for one, other in zip(before.gains, bucket.gains, strict=True)]
                whole[number] = Bucket(before.sums + bucket.sums, gains, before.clipped + bucket.clipped)
            else:
                whole[number] = bucket
    return dict(sorted(whole.items()))


class DropState:
    """The detector of one series, advanced to the last interval that has ended."""

    def __init__(self, detector: DropDetector) -> None:
        self.detector = detector
        self._states = detector.start()
        self._until: int | None = None
        """The first interval that is not processed yet."""
        self.is_firing = False
        """Whether the evidence has passed its threshold, and has not clearly fallen since."""

    @property
    def evidence(self) -> float:
        """The logarithm of the evidence."""
        return evidence(self._states)

    def restart_from(self, number: int) -> None:
        """A bucket has changed: if it was taken already, everything is computed again."""
        if self._until is not None and number < self._until:
            self._states = self.detector.start()
            self._until = None
            self.is_firing = False

    def advance(self, buckets: Mapping[int, Bucket], until: int) -> None:
        """Take the buckets, in order of time, up to but not `until`."""
        for number, bucket in buckets.items():
            if number < until and (self._until is None or number >= self._until):
                self._step(number, bucket.gains)
        if self._until is not None and until > self._until:
            self._states = self.detector.advance(self._states, [0.0] * len(self._states), until - self._until - 1)
            self._until = until
            self._update()

    def _update(self) -> None:
        limit = self.detector.clear_threshold if self.is_firing else self.detector.threshold
        self.is_firing = self.evidence > limit

    def _step(self, number: int, gains: list[float]) -> None:
        empty = 0 if self._until is None else number - self._until
        self._states = self.detector.advance(self._states, gains, empty)
        self._until = number + 1
        self._update()


def sum_from(buckets: Mapping[int, Bucket], first: int) -> EstimatorSums:
    """The sums from a bucket on."""
    total = EstimatorSums()
    for number, bucket in buckets.items():
        if number >= first:
            total += bucket.sums
    return total


@dataclass(frozen=True, slots=True)
class TargetMiss:
    """A window in which the mean is on the wrong side of its target, by how many standard errors."""

    window: str
    sums: EstimatorSums
    errors: float
    clipped: float = 0.0
    """The share of the weight that is left out of the mean."""


def target_misses(
    buckets: Mapping[int, Bucket],
    detector: DropDetector,
    *,
    now: float,
    interval: float,
    min_n: float,
    doubt: float = 0.0,
) -> list[TargetMiss]:
    """The windows with enough scores in which the mean is on the wrong side of its target, by more than the doubt."""
    misses: list[TargetMiss] = []
    for window, length in WINDOWS.items():
        first = int((now - length) // interval)
        sums = sum_from(buckets, first)
        if sums.n_eff < min_n:
            continue
        errors = (detector.shortfall(1.0, sums.mean) - doubt) / sums.stderr
        if errors > 0:
            misses.append(TargetMiss(window, sums, errors, _clipped_share(buckets, first, sums)))
    return misses


def _clipped_share(buckets: Mapping[int, Bucket], first: int, sums: EstimatorSums) -> float:
    clipped = sum(bucket.clipped for number, bucket in buckets.items() if number >= first)
    return clipped / (clipped + sums.w)
