"""Slices of the traffic: values of attributes, alone and in pairs, with the weighted sums of their scores.

The sums are those of the estimator (collector/statistics/bounded_sums.py): scores weigh 1 / sampling probability, and
the scores of one conversation are one cluster.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from typing import NamedTuple

from collector.statistics.bounded_sums import Sums

Label = tuple[str, str]
"""An attribute's name and value."""
Slice = tuple[Label, ...]
"""One label, or two of different attributes; () is everything."""

EVERYTHING: Slice = ()
FEWEST_CONVERSATIONS = 20
"""A slice with fewer conversations in the window is not tested, since its error would not be known."""
MOST_VALUES = 20
"""The most values of an attribute that are tested; the most frequent ones are."""


class ScoredItem(NamedTuple):
    """One score: its conversation, its weight, the labels of its subject, and its time (s)."""

    evaluation_id: str
    conversation: str
    score: float
    weight: float
    labels: frozenset[Label]
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class SliceSums:
    """The sums of a slice in one window, and its number of conversations."""

    conversations: int = 0
    sums: Sums = field(default_factory=Sums)

    def without(self, other: "SliceSums") -> "SliceSums":
        """The sums without another slice. Exact if no conversation is in both."""
        rest = self.sums - other.sums
        return SliceSums(
            max(0, self.conversations - other.conversations),
            Sums(max(0.0, rest.w), rest.wy, max(0.0, rest.w2), rest.w2y, max(0.0, rest.w2y2)),
        )

    @property
    def mean(self) -> float:
        """The weighted mean; 0 without scores."""
        return self.sums.mean if self.sums.w > 0 else 0.0

    @property
    def effective(self) -> float:
        """The number of equally weighted conversations with the same information (Kish)."""
        return self.sums.n_eff

    @property
    def variance(self) -> float:
        """The variance of the mean, conversations as clusters; 0 with fewer than two."""
        return self.sums.variance(self.conversations) if self.sums.w > 0 and self.conversations > 1 else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return sqrt(self.variance)


def labels_to_compare(items: Iterable[ScoredItem]) -> tuple[Label, ...]:
    """The labels to test: those with enough conversations, of attributes with more than one value."""
    conversations: dict[Label, set[str]] = {}
    values: dict[str, set[str]] = {}
    everyone: set[str] = set()
    for item in items:
        everyone.add(item.conversation)
        for label in item.labels:
            conversations.setdefault(label, set()).add(item.conversation)
            values.setdefault(label[0], set()).add(label[1])
    frequent: Counter[Label] = Counter({label: len(those) for label, those in conversations.items()})
    chosen: list[Label] = []
    by_attribute: Counter[str] = Counter()
    for label, count in sorted(frequent.items(), key=lambda each: (-each[1], each[0])):
        if FEWEST_CONVERSATIONS <= count < len(everyone) and by_attribute[label[0]] < MOST_VALUES:
            by_attribute[label[0]] += 1
            chosen.append(label)
    return tuple(sorted(chosen))


def members(items: Iterable[ScoredItem], part: Slice, without: Sequence[Slice] = ()) -> list[ScoredItem]:
    """The scores of a slice, without those of other slices."""
    own = [item for item in items if item.labels.issuperset(part)]
    return [item for item in own if not any(item.labels.issuperset(each) for each in without)]


def sum_of(items: Iterable[ScoredItem]) -> SliceSums:
    """The sums of all scores."""
    return sum_slices(items, ())[EVERYTHING]


def sum_slices(items: Iterable[ScoredItem], labels: Sequence[Label]) -> Mapping[Slice, SliceSums]:
    """The sums of all scores, of each label and of each pair."""
    adder = _Adder(frozenset(labels))
    conversations: dict[str, dict[frozenset[Label], list[float]]] = {}
    for item in items:
        sums = conversations.setdefault(item.conversation, {}).setdefault(item.labels, [0.0, 0.0])
        sums[0] += item.weight
        sums[1] += item.weight * item.score
    for by_labels in conversations.values():
        adder.add(by_labels)
    return adder.sums()


class _Adder:
    """Adds conversations to the sums of their slices."""

    def __init__(self, labels: frozenset[Label]) -> None:
        self._labels = labels
        # Each slice's number of conversations and five sums, as a list: a conversation adds to hundreds of slices.
        self._totals: dict[Slice, list[float]] = {EVERYTHING: [0.0] * 6}
        self._slices_of: dict[frozenset[Label], tuple[Slice, ...]] = {}
        self._totals_of: dict[frozenset[Label], list[list[float]]] = {}

    def sums(self) -> Mapping[Slice, SliceSums]:
        """The sums of each slice with a score, and of everything."""
        return {part: SliceSums(int(number), Sums(*sums)) for part, (number, *sums) in self._totals.items()}

    def add(self, by_labels: Mapping[frozenset[Label], Sequence[float]]) -> None:
        """Add a conversation: the sums of weights and of weighted scores of its subjects with the same labels."""
        if len(by_labels) == 1:  # true for most; then all slices have the same sums
            ((labels, (weight, weighted_score)),) = by_labels.items()
            _add(self._find_totals(labels), weight, weighted_score)
            return
        shares: dict[Slice, list[float]] = {}
        for labels, (weight, weighted_score) in by_labels.items():
            for slice_ in self._find_slices(labels):
                share = shares.setdefault(slice_, [0.0, 0.0])
                share[0] += weight
                share[1] += weighted_score
        for slice_, (weight, weighted_score) in shares.items():
            _add([self._total(slice_)], weight, weighted_score)

    def _total(self, slice_: Slice) -> list[float]:
        return self._totals.setdefault(slice_, [0.0] * 6)

    def _find_totals(self, labels: frozenset[Label]) -> Sequence[list[float]]:
        totals = self._totals_of.get(labels)
        if totals is None:
            totals = self._totals_of[labels] = [self._total(slice_) for slice_ in self._find_slices(labels)]
        return totals

    def _find_slices(self, labels: frozenset[Label]) -> tuple[Slice, ...]:
        slices = self._slices_of.get(labels)
        if slices is None:
            ordered = sorted(labels & self._labels)
            pairs = [pair for pair in combinations(ordered, 2) if pair[0][0] != pair[1][0]]
            slices = self._slices_of[labels] = (EVERYTHING, *((label,) for label in ordered), *pairs)
        return slices


def _add(totals: Iterable[list[float]], w: float, wy: float) -> None:
    """Add a conversation with these sums of weights and of weighted scores."""
    w2, w2y, w2y2 = w * w, w * wy, wy * wy
    for total in totals:
        total[0] += 1
        total[1] += w
        total[2] += wy
        total[3] += w2
        total[4] += w2y
        total[5] += w2y2
