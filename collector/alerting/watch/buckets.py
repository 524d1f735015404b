"""Sums of scores by minute: the state of the watch stage, a pure function of the evaluations it has read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.records.audits import AuditScore
from collector.statistics.audited_sums import AuditedClusters, AuditedSums, audited_weight
from collector.statistics.bounded_sums import BoundedSums, Sums, Weight
from collector.statistics.incident import DropDetector
from evaluators.results import Sampling

Series = tuple[str, str, str]
"""Monitor, evaluator, evaluator version."""


@dataclass(slots=True)
class Bucket:
    """One interval of one series: its sums, for the mean and for the detector, and the weight left out of them.

    `gains` is the growth of the logarithm of each of the detector's bets; None if it was computed for another target.
    `wanted` counts the evaluations that should have a score, and `unscored` those without one. `unshown` adds, over the
    scored ones, the share of the case that the judge was not shown. `audited` are the sums by which audits correct the
    mean.
    """

    sums: Sums = field(default_factory=Sums)
    evidence: Sums = field(default_factory=Sums)
    gains: list[float] | None = field(default_factory=list[float])
    clipped: float = 0.0
    wanted: int = 0
    unscored: int = 0
    unshown: float = 0.0
    audited: AuditedSums | None = None
    lost_audits: float = 0.0
    """The weight of audits without a score."""

    def __add__(self, other: "Bucket") -> "Bucket":
        return Bucket(
            self.sums + other.sums,
            self.evidence + other.evidence,
            _all_gains(self.gains, other.gains),
            self.clipped + other.clipped,
            self.wanted + other.wanted,
            self.unscored + other.unscored,
            self.unshown + other.unshown,
            _sum_of_both(self.audited, other.audited),
            self.lost_audits + other.lost_audits,
        )


def _all_gains(one: list[float] | None, other: list[float] | None) -> list[float] | None:
    if one is None or other is None:
        return None
    return [gain + more for gain, more in zip(one, other, strict=True)] if one and other else one or other


def _sum_of_both(one: AuditedSums | None, other: AuditedSums | None) -> AuditedSums | None:
    return one + other if one is not None and other is not None else one or other


def merge_buckets(parts: Iterable[Mapping[int, Bucket]]) -> dict[int, Bucket]:
    """The buckets of all partitions as one, in order of time."""
    whole: dict[int, Bucket] = {}
    for part in parts:
        for number, bucket in part.items():
            whole[number] = whole[number] + bucket if number in whole else bucket
    return dict(sorted(whole.items()))


class Buckets:
    """The buckets of one partition. `interval` and `memory` in seconds."""

    def __init__(self, interval: float, memory: float) -> None:
        self._interval = interval
        self._memory = memory
        self._scores = BoundedSums()
        self._audits = AuditedClusters()
        self._by_series: dict[Series, dict[int, Bucket]] = {}
        self.touched: dict[Series, int] = {}
        """The oldest bucket of each series that has got evidence since this was last emptied."""

    def add(
        self,
        series: Series,
        detector: DropDetector,
        conversation: str,
        *,
        weight: Weight,
        score: float,
        time: float,
        unshown: float = 0.0,
    ) -> None:
        """Count a score that the log took at `time` (s); it does not cover a share `unshown` of its case."""
        bucket, number = self._bucket(series, time), int(time // self._interval)
        self.touched[series] = min(number, self.touched.get(series, number))
        bucket.wanted += 1
        bucket.unshown += unshown
        grown = self._scores.add(series, conversation, weight=weight, score=score, time=time)
        bucket.sums += grown.mean
        bucket.evidence += grown.evidence
        bucket.clipped += grown.clipped
        if bucket.gains is None:
            return
        if not bucket.gains:
            bucket.gains = [0.0] * len(detector.bets)
        # Turns of one conversation are not independent: each adds the growth of the conversation's gain.
        (w, wy), after = grown.before, (grown.before[0] + grown.evidence.w, grown.before[1] + grown.evidence.wy)
        for place, bet in enumerate(detector.bets):
            bucket.gains[place] += detector.log_gain(bet, *after) - detector.log_gain(bet, w, wy)

    def add_audited(
        self,
        series: Series,
        detector: DropDetector,
        conversation: str,
        *,
        sampling: Sampling,
        score: float,
        audit: AuditScore | None,
        lost: float,
        time: float,
    ) -> None:
        """Count a cheap score for the mean by audits, and for the detector its audit if there is one.

        `lost` is the probability of the draw of an audit that brought no score, or 0.
        """
        weight = Weight.of(sampling)
        cheap = self._scores.add((series, "cheap"), conversation, weight=weight, score=score, time=time)
        bucket = self._bucket(series, time)
        bucket.lost_audits += cheap.mean.w / lost if lost else 0.0
        if audit is None:
            bucket.wanted += 1
        else:
            weight = audited_weight(sampling, audit)
            self.add(series, detector, conversation, weight=weight, score=audit.score, time=time)
        grown = self._audits.add((series, conversation), weight=cheap.mean.w, score=score, audit=audit, time=time)
        bucket.audited = _sum_of_both(bucket.audited, grown)

    def add_unscored(self, series: Series, *, time: float, number: int = 1) -> None:
        """Count evaluations that should have a score and have none; -1 takes one of that time back: it was replaced."""
        bucket = self._bucket(series, time)
        bucket.wanted += number
        bucket.unscored += number

    def _bucket(self, series: Series, time: float) -> Bucket:
        return self._by_series.setdefault(series, {}).setdefault(int(time // self._interval), Bucket())

    def of(self, series: Series) -> Mapping[int, Bucket]:
        """The buckets of a series by their number: the time in intervals."""
        return self._by_series.get(series, {})

    def series(self) -> Iterator[Series]:
        """Every series that has a bucket."""
        return iter(self._by_series)

    def forget_gains(self, monitor: str, evaluator: str) -> None:
        """Forget the growth of bets, because the target changed. Only a bound of it can be computed from the sums
        then.
        """
        for series, buckets in self._by_series.items():
            if series[:2] == (monitor, evaluator):
                for bucket in buckets.values():
                    bucket.gains = None

    def forget(self, now: float) -> None:
        """Drop buckets that are older than the memory."""
        oldest = int((now - self._memory) // self._interval)
        for series, buckets in list(self._by_series.items()):
            for number in [bucket for bucket in buckets if bucket < oldest]:
                del buckets[number]
            if not buckets:
                del self._by_series[series]
