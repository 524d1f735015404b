"""Sums of scores by minute: the state of the watch stage, a pure function of the evaluations it has read."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.alerting.detection import DropDetector, EstimatorSums
from collector.export.estimator import Clusters

Series = tuple[str, str, str]
"""Monitor, evaluator, evaluator version."""


@dataclass(slots=True)
class Bucket:
    """One interval of one series: its sums, and what it adds to the logarithm of every bet of the detector."""

    sums: EstimatorSums = field(default_factory=EstimatorSums)
    gains: list[float] = field(default_factory=list[float])


MAX_CONVERSATIONS = 100_000
"""Conversations whose earlier scores are remembered."""
CLUSTER_SECONDS = 3600.0
"""Seconds from a conversation's first score in which its scores count as one outcome of a bet. Why not singly: turns of
one conversation are not independent, and a bet on each would overstate the evidence."""


@dataclass(slots=True)
class _ConversationScores:
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
        self._by_conversation: dict[tuple[Series, Hashable], _ConversationScores] = {}  # in the order of their start
        self._by_series: dict[Series, dict[int, Bucket]] = {}
        self.touched: dict[Series, int] = {}
        """The oldest bucket of each series that has changed since this was last emptied."""

    def add(
        self, series: Series, detector: DropDetector, conversation: str, *, weight: float, score: float, time: float
    ) -> None:
        """Count a score that the log took at `time` (s)."""
        number = int(time // self._interval)
        bucket = self._by_series.setdefault(series, {}).setdefault(number, Bucket())
        grown = self._clusters.add((series, conversation), weight=weight, score=score, time=time)
        bucket.sums += EstimatorSums(grown.w, grown.wy, grown.w2, grown.w2y, grown.w2y2)
        self._gain(bucket, detector, self._conversation_scores((series, conversation), time), weight, score)
        self.touched[series] = min(number, self.touched.get(series, number))

    def _gain(
        self, bucket: Bucket, detector: DropDetector, scores: _ConversationScores, weight: float, score: float
    ) -> None:
        """Scores of a conversation come one by one: each adds the growth of the conversation's gain."""
        w, wy = scores.w, scores.wy
        scores.w, scores.wy = w + weight, wy + weight * score
        if not bucket.gains:
            bucket.gains = [0.0] * len(detector.bets)
        for place, bet in enumerate(detector.bets):
            bucket.gains[place] += detector.log_gain(bet, scores.w, scores.wy) - detector.log_gain(bet, w, wy)

    def _conversation_scores(self, key: tuple[Series, Hashable], time: float) -> _ConversationScores:
        known = self._by_conversation.get(key)
        if known is not None and time - known.start <= CLUSTER_SECONDS:
            return known
        self._by_conversation.pop(key, None)
        self._by_conversation[key] = made = _ConversationScores(time)
        if len(self._by_conversation) > MAX_CONVERSATIONS:
            del self._by_conversation[next(iter(self._by_conversation))]
        return made

    def of(self, series: Series) -> Mapping[int, Bucket]:
        """The buckets of a series by their number: the time in intervals."""
        return self._by_series.get(series, {})

    def series(self) -> Iterator[Series]:
        """Every series that has a bucket."""
        return iter(self._by_series)

    def forget(self, now: float) -> None:
        """Drop buckets that are older than the memory."""
        oldest = int((now - self._memory) // self._interval)
        for series, buckets in list(self._by_series.items()):
            for number in [each for each in buckets if each < oldest]:
                del buckets[number]
            if not buckets:
                del self._by_series[series]
