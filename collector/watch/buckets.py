"""Scores summed up by minute: everything that the watcher knows, a pure function of the evaluations it was given."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.detection import Detector, Sums
from collector.export.estimator import Clusters

Series = tuple[str, str, str]
"""Monitor, evaluator, evaluator version."""


@dataclass(slots=True)
class Bucket:
    """One interval of one series: its sums, and what it adds to the logarithm of every bet of the detector."""

    sums: Sums = field(default_factory=Sums)
    gains: list[float] = field(default_factory=list[float])


CONVERSATIONS = 100_000
"""Conversations whose scores are known to belong together."""
BELONG = 3600.0
"""Seconds from a conversation's first score in which its scores count as one throw of a bet."""


@dataclass(slots=True)
class _Throw:
    """Scores of one conversation since `start` (s), as far as they have come."""

    start: float
    w: float = 0.0
    wy: float = 0.0


class Buckets:
    """The buckets of one partition. `interval` and `memory` in seconds."""

    def __init__(self, interval: float, memory: float) -> None:
        self._interval = interval
        self._memory = memory
        self._clusters = Clusters()
        self._throws: dict[tuple[Series, Hashable], _Throw] = {}  # in the order of their start
        self._by_series: dict[Series, dict[int, Bucket]] = {}
        self.touched: dict[Series, int] = {}
        """The oldest bucket of each series that has changed since this was last emptied."""

    def add(
        self, series: Series, detector: Detector, conversation: str, *, weight: float, score: float, time: float
    ) -> None:
        """Count a score that the log took at `time` (s)."""
        number = int(time // self._interval)
        bucket = self._by_series.setdefault(series, {}).setdefault(number, Bucket())
        grown = self._clusters.add((series, conversation), weight=weight, score=score, time=time)
        bucket.sums += Sums(grown.w, grown.wy, grown.w2, grown.w2y, grown.w2y2)
        self._gain(bucket, detector, self._throw((series, conversation), time), weight, score)
        self.touched[series] = min(number, self.touched.get(series, number))

    def _gain(self, bucket: Bucket, detector: Detector, throw: _Throw, weight: float, score: float) -> None:
        """Scores of a conversation come one by one: each adds what its conversation's gain grows by."""
        w, wy = throw.w, throw.wy
        throw.w, throw.wy = w + weight, wy + weight * score
        if not bucket.gains:
            bucket.gains = [0.0] * len(detector.bets)
        for place, bet in enumerate(detector.bets):
            bucket.gains[place] += detector.exact(bet, throw.w, throw.wy) - detector.exact(bet, w, wy)

    def _throw(self, key: tuple[Series, Hashable], time: float) -> _Throw:
        known = self._throws.get(key)
        if known is not None and time - known.start <= BELONG:
            return known
        self._throws.pop(key, None)
        self._throws[key] = made = _Throw(time)
        if len(self._throws) > CONVERSATIONS:
            del self._throws[next(iter(self._throws))]
        return made

    def of(self, series: Series) -> Mapping[int, Bucket]:
        """The buckets of a series by their number: the time in intervals."""
        return self._by_series.get(series, {})

    def series(self) -> Iterator[Series]:
        """Every series that has a bucket."""
        return iter(self._by_series)

    def forget(self, now: float) -> None:
        """Let go of what is older than the memory."""
        oldest = int((now - self._memory) // self._interval)
        for series, buckets in list(self._by_series.items()):
            for number in [each for each in buckets if each < oldest]:
                del buckets[number]
            if not buckets:
                del self._by_series[series]
