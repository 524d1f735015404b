"""The five weighted sums from which means, errors and drops are computed, updated on a stream.

With w = 1 / sampling probability, and for each conversation a = sum of w and b = sum of w * score of its scored turns,
the sums are W = sum a, WY = sum b, W2 = sum a², W2Y = sum a*b, W2Y2 = sum b². Then WY / W is the unbiased mean, and

    sqrt(W2Y2 - 2 * mean * W2Y + mean² * W2) / W

its standard error (Hájek's estimator, Taylor variance, conversations as clusters: turns of one conversation are not
independent). On a stream a conversation's turns come one by one, so each adds what the squares grow by:

    a² -> (a + w)²:           w * (2a + w)
    a*b -> (a + w)(b + w*y):  w*y * (a + w) + w * b
    b² -> (b + w*y)²:         w*y * (2b + w*y)

None of it is negative, so these are counters, exact over any window that holds whole conversations. Why not one counter
of squared scores: it would take turns of a conversation for independent, and understate the error. The sums of
replicas add up, because one conversation is scored by one partition's owner.

A conversation without end must not be one cluster without end: a window that begins within a cluster also gets the
products with its earlier turns, and the more of them there are, the more the error is overstated. So the scores of a
conversation belong together for `memory` seconds from the first of them (an hour, as conversations are mostly shorter
and windows mostly not); later ones begin a new cluster. Over long windows this leaves out products within
conversations that last longer, and understates their share of the error. A restart begins new clusters, too. A
conversation judged again because late turns reopened it counts as one more score of the same conversation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

VARIANCE_FLOOR = 1e-4
"""Variance added to that of the scores: a few equal scores have no variance, and are no proof."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The five sums over some scores, or what scores add to them; of scores in [0, 1] and weights none is negative."""

    w: float = 0.0
    wy: float = 0.0
    w2: float = 0.0
    w2y: float = 0.0
    w2y2: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.w + other.w,
            self.wy + other.wy,
            self.w2 + other.w2,
            self.w2y + other.w2y,
            self.w2y2 + other.w2y2,
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.w - other.w,
            self.wy - other.wy,
            self.w2 - other.w2,
            self.w2y - other.w2y,
            self.w2y2 - other.w2y2,
        )

    @property
    def mean(self) -> float:
        """The unbiased mean; there must be a score."""
        return self.wy / self.w

    @property
    def residual_squares(self) -> float:
        """The weighted squares by which conversations differ from the mean: their root over W is its error."""
        mean = self.mean
        return max(0.0, self.w2y2 - 2.0 * mean * self.w2y + mean * mean * self.w2)

    @property
    def squares(self) -> float:
        """The same with the floor: conversations differ from the mean by 0.01 at least. 0 without scores."""
        return self.residual_squares + VARIANCE_FLOOR * self.w2 if self.w else 0.0

    @property
    def stderr(self) -> float:
        """The mean's standard error by these scores alone, with the floor.

        That of a window is `collector.statistics.mean_error`'s.
        """
        return math.sqrt(self.squares) / self.w

    def variance(self, conversations: int) -> float:
        """The variance of the mean of so many conversations, two or more, without the floor.

        Residuals from a mean of the same conversations are too small: n / (n - 1) corrects it (Bessel).
        """
        return self.residual_squares / (self.w * self.w) * conversations / (conversations - 1)

    @property
    def n_eff(self) -> float:
        """The number of equally weighted conversations with the same information (Kish); 0 without scores."""
        return self.w**2 / self.w2 if self.w2 else 0.0


def increments(w: float, wy: float, weight: float, score: float) -> Sums:
    """The sums that a score adds if its conversation has the sums `w` and `wy` already."""
    more = weight * score
    return Sums(
        w=weight,
        wy=more,
        w2=weight * (2.0 * w + weight),
        w2y=more * (w + weight) + weight * wy,
        w2y2=more * (2.0 * wy + more),
    )


@dataclass(slots=True)
class _Cluster:
    """Sums over a conversation's scores since `start` (s)."""

    start: float
    w: float = 0.0
    wy: float = 0.0


class Clusters:
    """The sums of the scores of recent conversations.

    At most `capacity` conversations, each for `memory` seconds from its first score; what is beyond is forgotten, the
    oldest first.
    """

    def __init__(self, *, capacity: int = 100_000, memory: float = 3600.0) -> None:
        self._capacity = capacity
        self._memory = memory
        self._clusters: dict[Hashable, _Cluster] = {}  # in the order of their start

    def __len__(self) -> int:
        return len(self._clusters)

    def add(self, key: Hashable, *, weight: float, score: float, time: float) -> Sums:
        """Add a score in [0, 1] of the conversation `key`, weighted `weight` >= 1, made at `time` (s)."""
        cluster = self._cluster(key, time)
        grown = increments(cluster.w, cluster.wy, weight, score)
        cluster.w += weight
        cluster.wy += weight * score
        return grown

    def _cluster(self, key: Hashable, time: float) -> _Cluster:
        known = self._clusters.get(key)
        if known is not None and time - known.start <= self._memory:
            return known
        self._clusters.pop(key, None)
        self._clusters[key] = cluster = _Cluster(time)
        self._forget(time)
        return cluster

    def _forget(self, time: float) -> None:
        while True:
            oldest = next(iter(self._clusters))
            if len(self._clusters) <= self._capacity and time - self._clusters[oldest].start <= self._memory:
                return
            del self._clusters[oldest]
