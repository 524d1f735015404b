"""Sums over scores in which no conversation weighs more than the others allow, for the mean and for the drop detector.

A weight may have any size: an earlier sampler left out 99 of 100 traces, a budget has lowered a rate, a sender lies, or
one conversation has ten thousand turns. One conversation that outweighs all others decides the mean of its window, and
the standard error shows that only afterwards. So the weight of a conversation is bounded before its score is known. The
bound follows from the last 1,000 conversations of the same series:

- In the sums for the mean, the scores of a conversation in an hour weigh at most 20 times the mean weight of these
  conversations, which is 2 % of their total weight once 1,000 are known; or as much as a single score weighs by
  evalstream's own sampling, if that is more. Not as all its scores weigh: a long conversation at a low rate would
  decide the mean. The excess is left out of the sums, and added up as `clipped`. It biases the mean by at
  most clipped / (W + clipped). If one conversation in twenty is heavy, the bound grows until nothing is clipped.
- In the sums for the drop detector, each weight is divided by a large weight, the scale. The quotients of one
  conversation add up to at most 1, however long it lasts: the guarantee of the detector requires this. The excess is
  left out here, too. The scale is chosen so that the conversations lighter than the scale have 95 % of all weight: a
  larger scale would let the detector find a drop later. Before that, each weight is divided by the level of its time: a
  budget that has lowered the rate for a while leaves heavy scores, and the detector would be blind until 1,000
  conversations have followed. A new level is a sixteenth of the largest weight that the rate has given to the last 20
  scores; it stays until it is too low, or more than twice too high. The weight of a boosted score is multiplied by 4
  there, the largest boost: all of the 20 may be boosted, and the next score without a boost would lose a part of its
  weight. The detector's guarantee is for traffic whose expected score is at its target at every time. A divisor that
  depends on earlier scores only, and is the same for all scores of a time, keeps this guarantee.

Until 20 conversations are known, a score weighs at most 20 times the weight that evalstream's own sampling gives it,
and the scale is four times the largest weight so far. Each process bounds weights for itself; a restart begins again.

Five weighted sums give means, errors and drops, and are updated on a stream. With w = 1 / sampling probability, and for
each conversation a = sum of w and b = sum of w * score of its scored turns, the sums are W = sum a, WY = sum b,
W2 = sum a², W2Y = sum a*b, W2Y2 = sum b². Then WY / W is the unbiased mean. Its standard error is

    sqrt(W2Y2 - 2 * mean * W2Y + mean² * W2) / W

(Hájek's estimator, Taylor variance, conversations as clusters: turns of one conversation are not independent). On a
stream the turns of a conversation come one by one, so each turn adds the growth of the squares and products:

    a² -> (a + w)²:           w * (2a + w)
    a*b -> (a + w)(b + w*y):  w*y * (a + w) + w * b
    b² -> (b + w*y)²:         w*y * (2b + w*y)

No growth is negative, so the sums are counters. They are exact over any window of time that has whole conversations.
One counter of squared scores would not be enough: it would treat turns of a conversation as independent, and understate
the error. The sums of replicas may be added, because a conversation is scored by one process: its partition's owner.

A window of time that begins within a conversation also gets products with earlier turns, which overstates the error. So
a and b fade with time before each product; `collector.statistics.conversations` says how, and how long a conversation
lasts. A restart begins new conversations. If late turns reopen a conversation and it is judged again, that counts as
one more score of the same conversation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

from collector.statistics.conversations import FADE_WEEK, PAUSE, Conversations, fading
from evaluators.results import Sampling

VARIANCE_FLOOR = 1e-4
"""The variance that is added to the scores' variance, because a few equal scores do not prove that all are equal."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The five sums over scores in [0, 1], or their growth. None is negative."""

    w: float = 0.0
    wy: float = 0.0
    w2: float = 0.0
    w2y: float = 0.0
    w2y2: float = 0.0

    def __add__(self, more: Sums) -> Sums:
        return Sums(self.w + more.w, self.wy + more.wy, self.w2 + more.w2, self.w2y + more.w2y, self.w2y2 + more.w2y2)

    def __sub__(self, less: Sums) -> Sums:
        return Sums(self.w - less.w, self.wy - less.wy, self.w2 - less.w2, self.w2y - less.w2y, self.w2y2 - less.w2y2)

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
        """The sum of weighted squared differences of conversations from the mean; its root over W is the error."""
        mean = self.mean
        return max(0.0, self.w2y2 - 2.0 * mean * self.w2y + mean * mean * self.w2)

    @property
    def squares(self) -> float:
        """`residual_squares` with the floor, as if conversations differed from the mean by at least 0.01; 0 without
        scores.
        """
        return self.residual_squares + VARIANCE_FLOOR * self.w2 if self.w else 0.0

    @property
    def stderr(self) -> float:
        """The standard error of the mean by these scores alone, with the floor.

        For a window, use `collector.statistics.mean_error`.
        """
        return math.sqrt(self.squares) / self.w

    def variance(self, conversations: int) -> float:
        """The variance of the mean of `conversations` (two or more), without the floor.

        Differences from a mean of the same conversations are too small; the factor n / (n - 1) corrects this (Bessel).
        """
        return self.residual_squares / (self.w * self.w) * conversations / (conversations - 1)

    @property
    def n_eff(self) -> float:
        """The number of equally weighted conversations with the same information (Kish); 0 without scores."""
        return self.w**2 / self.w2 if self.w2 else 0.0


@dataclass(slots=True)
class FadingTotals:
    """The faded sums w and wy of a conversation."""

    w: float = 0.0
    wy: float = 0.0

    def add(self, weight: float, score: float, left: float = 1.0) -> Sums:
        """Add a score, after the earlier sums have faded to the share `left`; returns the growth of the five sums."""
        w, wy, more = self.w * left, self.wy * left, weight * score
        self.w, self.wy = w + weight, wy + more
        return Sums(
            w=weight, wy=more, w2=weight * (2.0 * w + weight), w2y=more * (w + weight) + weight * wy,
            w2y2=more * (2.0 * wy + more),
        )  # fmt: skip


class Clusters:
    """The sums of scores, without fading. A conversation ends `memory` seconds after its first score."""

    def __init__(self, *, capacity: int = 100_000, memory: float = 3600.0) -> None:
        self._totals = Conversations(FadingTotals, capacity=capacity, pause=memory, longest=memory)

    def __len__(self) -> int:
        return len(self._totals)

    def add(self, key: Hashable, *, weight: float, score: float, time: float) -> Sums:
        """Add a score in [0, 1] of the conversation `key`, with a `weight` >= 1, made at `time` (s)."""
        return self._totals.visit(key, time)[0].add(weight, score)


HOUR = 3600.0
LARGEST = 20.0
"""The most weight of a conversation in an hour, as a multiple of the mean weight. A lower limit would clip honest
traffic, because conversations differ in length, and samplers in their rates. With this limit nothing is clipped if one
conversation in twenty is heavy."""
_HISTORY = 1000
"""The number of conversations of a series whose weights are remembered."""
_ENOUGH = 20
"""The number of conversations after which the weights are known."""
_COVERED = 0.95
"""The share of the weight that is below the detector's scale. With a share of 1, a single forged weight would slow
the detector."""
_SCORES = 4.0
"""Until weights are known, the scale has room for this number of scores of one conversation."""
_BOOST = 4.0
"""The largest factor by which a boost raises the rate."""
_TOO_HIGH = 2.0
"""How much too high a level may be: so it does not follow each boosted score if boosts are 2 or more. With 4, scores
without a boost, if they are few, were cut at the scale while the rate changed (measured)."""
_LEVELLED = 16.0
"""The largest recent weight, divided by a new level: enough for the least, which is boosted and has a level that is too
high, to be above 1, the least that the bins distinguish."""
_STEPS = 8
"""The number of bins per doubling of the weight. With 8 bins the scale is at most 9 % too large."""


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of a score: `full` is 1 / its probability, `own` the factor from evalstream's own sampling alone, and
    `rate` the part of `own` from the rate of its time, without an evaluator's own draw. For a boosted score, `rate` is
    what it would be without the boost, or more: how large the boost was is not known here.
    """

    full: float
    own: float
    rate: float = 1.0

    @classmethod
    def of(cls, sampling: Sampling) -> Weight:
        """The weight of a subject with this sampling."""
        upstream = 1.0 if sampling.upstream == "unknown" else sampling.upstream
        own = upstream / sampling.probability
        boost = 1.0 if sampling.stratum == "all" else _BOOST
        return cls(1.0 / sampling.probability, own, own * (sampling.own or 1.0) * boost)


@dataclass(frozen=True, slots=True)
class BoundedIncrements:
    """The growth of the sums by one score. `clipped` is the part of the score's weight that is left out of all sums.

    `mean` and `week` belong to the sums for the mean: `mean` is for windows of up to a day, `week` for seven days.
    `evidence` belongs to the sums for the detector; `before` are the w and wy that the
    conversation had there before this score.
    """

    mean: Sums
    week: Sums
    evidence: Sums
    clipped: float
    before: tuple[float, float]


@dataclass(slots=True)
class _Conversation:
    """The sums of a conversation: `w` is the weight of all its scores, `levelled` the same at the rates of their times,
    `day` and `week` are fading sums for the mean, and `shares` are the sums for the detector, as shares of its scale.

    `hour` is the weight since `hour_start` (s). `bin` is the bin of the conversation in the distribution of weights.
    """

    w: float = 0.0
    levelled: float = 0.0
    hour: float = 0.0
    hour_start: float = -math.inf
    day: FadingTotals = field(default_factory=FadingTotals)
    week: FadingTotals = field(default_factory=FadingTotals)
    shares: FadingTotals = field(default_factory=FadingTotals)
    bin: int = 0
    in_history: bool = True


@dataclass(slots=True)
class _Bin:
    conversations: int = 0
    weight: float = 0.0


@dataclass(slots=True)
class WeightHistory:
    """The weights of the last conversations of a series."""

    largest: float = 0.0
    """The largest levelled weight that any score has had."""
    level: float = 0.0
    """The divisor of weights in the sums for the detector, by `rates`."""
    rates: deque[float] = field(default_factory=partial(deque[float], maxlen=_ENOUGH))
    """`Weight.rate` of the last scores."""
    _recent: deque[_Conversation] = field(default_factory=deque[_Conversation])
    _bins: dict[int, _Bin] = field(default_factory=dict[int, _Bin])
    _weight: float = 0.0
    _levelled: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether enough conversations have been seen."""
        return len(self._recent) >= _ENOUGH

    @property
    def most(self) -> float:
        """The most weight that a conversation may have in an hour, in the sums for the mean."""
        return LARGEST * self._weight / len(self._recent)

    @property
    def scale(self) -> float:
        """The conversation weight below which the share `_COVERED` of all weight lies. A conversation that is alone in
        the highest bin does not set the scale.
        """
        beyond, allowed = 0.0, (1.0 - _COVERED) * self._levelled
        for place, number in enumerate(sorted(self._bins, reverse=True)):
            bin_ = self._bins[number]
            if place == 0 and bin_.conversations == 1:
                allowed = max(allowed, bin_.weight)
            beyond += bin_.weight
            if beyond > allowed:
                return 2.0 ** (number / _STEPS)
        return 1.0

    def begin(self, conversation: _Conversation) -> None:
        """Note a new conversation, before its first score."""
        self._recent.append(conversation)
        self._bins.setdefault(0, _Bin()).conversations += 1
        if len(self._recent) > _HISTORY:
            oldest = self._recent.popleft()
            oldest.in_history = False
            self._take_out(oldest)

    def grow(self, conversation: _Conversation, weight: float, levelled: float) -> None:
        """Note that a conversation weighs `weight` more than before."""
        self.largest = max(self.largest, levelled)
        if not conversation.in_history:
            return
        self._take_out(conversation)
        conversation.w += weight
        conversation.levelled += levelled
        # the upper edge of a bin is 2 ** (bin / _STEPS)
        conversation.bin = math.ceil(_STEPS * math.log2(max(1.0, conversation.levelled)) - 1e-9)
        new = self._bins.setdefault(conversation.bin, _Bin())
        new.conversations += 1
        new.weight += conversation.levelled
        self._weight += conversation.w
        self._levelled += conversation.levelled

    def _take_out(self, conversation: _Conversation) -> None:
        old = self._bins[conversation.bin]
        old.conversations -= 1
        old.weight -= conversation.levelled
        self._weight -= conversation.w
        self._levelled -= conversation.levelled
        if not old.conversations:
            del self._bins[conversation.bin]


class BoundedSums:
    """The sums of the scores of recent conversations, by series. See `Conversations` for `capacity` and `pause`."""

    def __init__(self, *, capacity: int = 100_000, pause: float = PAUSE) -> None:
        self._conversations = Conversations(_Conversation, capacity=capacity, pause=pause)
        self._histories: dict[Hashable, WeightHistory] = {}

    def __len__(self) -> int:
        return len(self._conversations)

    def add(
        self, series: Hashable, conversation: Hashable, *, weight: Weight, score: float, time: float
    ) -> BoundedIncrements:
        """Add a score that was made at `time` (s). The result's `evidence` holds only for scores in [0, 1]."""
        history = self._histories.setdefault(series, WeightHistory())
        new, level = max(history.rates, default=weight.rate) / _LEVELLED, history.level
        # a level may be too high by `_TOO_HIGH`, and never too low: scores would weigh more than the scale and be cut
        if not new <= level <= new * _TOO_HIGH:
            level = history.level = new
        history.rates.append(weight.rate)
        sums, passed = self._conversations.visit((series, conversation), time)
        if passed is None:
            history.begin(sums)
        if time - sums.hour_start > HOUR:
            sums.hour, sums.hour_start = 0.0, time
        if history.is_known:
            room = max(history.most, weight.own) - sums.hour
            scale = history.scale
        else:
            room = LARGEST * weight.own
            scale = _SCORES * max(history.largest, min(weight.full, room) / level)
        admitted = min(weight.full, max(0.0, room))
        before = (sums.shares.w, sums.shares.wy)
        grown = BoundedIncrements(
            sums.day.add(admitted, score, fading(passed)), sums.week.add(admitted, score, fading(passed, FADE_WEEK)),
            sums.shares.add(min(admitted / level / scale, 1.0 - sums.shares.w), score), weight.full - admitted, before,
        )  # fmt: skip
        sums.hour += admitted
        # the first scores after a cut of the rate are remembered as at the level that follows from them
        history.grow(sums, admitted, admitted / max(level, weight.rate / _LEVELLED))
        return grown
