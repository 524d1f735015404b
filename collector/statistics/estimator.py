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

A window that begins within a conversation also gets the products with its earlier turns, and the more of them there
are, the more the error is overstated. So before each product a and b fade with time, as
`collector.statistics.conversations` says, for how long a conversation lasts, too. A restart begins new conversations. A
conversation judged again because late turns reopened it counts as one more score of the same conversation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from collector.statistics.conversations import Conversations

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
            self.w + other.w, self.wy + other.wy, self.w2 + other.w2, self.w2y + other.w2y, self.w2y2 + other.w2y2
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.w - other.w, self.wy - other.wy, self.w2 - other.w2, self.w2y - other.w2y, self.w2y2 - other.w2y2
        )

    @property
    def values(self) -> tuple[float, float, float, float, float]:
        """The sums, in their order."""
        return self.w, self.wy, self.w2, self.w2y, self.w2y2

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
class FadingTotals:
    """The sums w and wy of a conversation, as far as they have not faded."""

    w: float = 0.0
    wy: float = 0.0

    def add(self, weight: float, score: float, left: float = 1.0) -> Sums:
        """Add a score after the share `left` was left of what was before; returns what the five sums grow by."""
        self.w *= left
        self.wy *= left
        grown = increments(self.w, self.wy, weight, score)
        self.w += weight
        self.wy += weight * score
        return grown


class Clusters:
    """The sums of scores whose conversations count for `memory` seconds from the first score, and do not fade."""

    def __init__(self, *, capacity: int = 100_000, memory: float = 3600.0) -> None:
        self._totals = Conversations(FadingTotals, capacity=capacity, pause=memory, longest=memory)

    def __len__(self) -> int:
        return len(self._totals)

    def add(self, key: Hashable, *, weight: float, score: float, time: float) -> Sums:
        """Add a score in [0, 1] of the conversation `key`, weighted `weight` >= 1, made at `time` (s)."""
        return self._totals.visit(key, time)[0].add(weight, score)
