"""Values that took over nearly all of the traffic as scores fell: no rest is left that a slice could be compared with.

Such a value is the first candidate, and no more than that: what else changed at the same time cannot be told apart from
it. Values that changed together are one candidate.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from collector.alerting.diagnosis.slices import (
    EVERYTHING,
    FEWEST_CONVERSATIONS,
    Label,
    ScoredItem,
    Slice,
    SliceSums,
    sum_slices,
)

MOST_OF_IT, LITTLE_OF_IT = 0.9, 0.1
"""The share of the traffic that a value has at least since a fall, and at most before it, to have taken over."""
_EARLIER_ERRORS = 2.0
"""Standard errors by which scores of a value that was there before are below the others of then, if they explain it."""
_LEAST_VARIANCE = 0.0025
"""Of the mean of one conversation, as in `explain_drop`."""


@dataclass(frozen=True, slots=True)
class WholeMove:
    """The values that took over, those that had most of the traffic before, and the time of the first score (s)."""

    values: Slice
    earlier: Slice
    first_seen: float

    @property
    def text(self) -> str:
        """The move as `model changed from m-1 to m-2`."""
        earlier = dict(self.earlier)
        return " and ".join(
            f"{name} changed from {earlier[name]} to {value}" if name in earlier else f"{name}={value} is new"
            for name, value in self.values
        )


def whole_move(
    before: Sequence[ScoredItem],
    after: Sequence[ScoredItem],
    wholes: tuple[SliceSums, SliceSums],
    *,
    sign: float,
    error_rate: float,
) -> WholeMove | None:
    """The values that took over as scores got worse beyond chance; None without any.

    `wholes` are the sums of both windows, and `sign` is -1 where lower scores are better.
    """
    if min(sums.conversations for sums in wholes) < FEWEST_CONVERSATIONS:
        return None
    errors = sign * (wholes[0].mean - wholes[1].mean) / _error(*wholes)
    if errors <= NormalDist().inv_cdf(1.0 - error_rate):
        return None
    shares, earlier_shares = _shares(after), _shares(before)
    names = {name for name, _ in shares}
    if not names or errors <= NormalDist().inv_cdf(1.0 - error_rate / len(names)):
        return None
    values = tuple(
        label
        for label, share in sorted(shares.items())
        if share >= MOST_OF_IT and earlier_shares.get(label, 0.0) <= LITTLE_OF_IT and _was_bad(label, before, sign)
    )
    if not values:
        return None
    earlier = tuple(label for name, _ in values for label in _most(name, earlier_shares))
    first = min(item.time for item in (*before, *after) if item.labels.intersection(values))
    return WholeMove(values, earlier, first)


def _was_bad(label: Label, before: Sequence[ScoredItem], sign: float) -> bool:
    """Whether the scores that a value had before the fall, if there are enough to tell, were below the others."""
    own, rest = (
        sum_slices([item for item in before if (label in item.labels) is has], ())[EVERYTHING] for has in (True, False)
    )
    if own.conversations < FEWEST_CONVERSATIONS:
        return True
    return sign * (rest.mean - own.mean) > _EARLIER_ERRORS * _error(own, rest)


def _error(*sums: SliceSums) -> float:
    return sqrt(sum(max(each.variance, _LEAST_VARIANCE / each.effective) for each in sums))


def _shares(items: Sequence[ScoredItem]) -> Mapping[Label, float]:
    """The share of the weight that each label has."""
    weights: dict[Label, float] = defaultdict(float)
    for item in items:
        for label in item.labels:
            weights[label] += item.weight
    total = sum(item.weight for item in items)
    return {label: weight / total for label, weight in weights.items()}


def _most(name: str, shares: Mapping[Label, float]) -> list[Label]:
    own = [label for label in shares if label[0] == name]
    return [max(own, key=shares.__getitem__)] if own else []
