"""Slices of the traffic: values of attributes, alone and in pairs, with the weighted sums of their scores.

The sums are those of the estimator (collector/statistics/estimator.py): scores weigh 1 / sampling probability, and the
scores of one conversation are one cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import NamedTuple

from collector.statistics.estimator import residual_squares

Label = tuple[str, str]
"""An attribute's name and value."""
Slice = tuple[Label, ...]
"""One label, or two of different attributes; () is everything."""

EVERYTHING: Slice = ()
FEWEST_CONVERSATIONS = 20
"""A slice with fewer conversations in the window is not looked at: its error could not be known."""
MOST_VALUES = 20
"""Values of an attribute that are looked at, the most frequent ones."""


class ScoredItem(NamedTuple):
    """One score: its conversation, its weight, and the labels of its subject."""

    evaluation_id: str
    conversation: str
    score: float
    weight: float
    labels: frozenset[Label]


@dataclass(slots=True)
class Sums:
    """The five sums of a slice in one window, and its number of conversations."""

    conversations: int = 0
    w: float = 0.0
    wy: float = 0.0
    w2: float = 0.0
    w2y: float = 0.0
    w2y2: float = 0.0

    def add(self, w: float, wy: float) -> None:
        """Add a conversation with these sums of weights and of weighted scores."""
        self.conversations += 1
        self.w += w
        self.wy += wy
        self.w2 += w * w
        self.w2y += w * wy
        self.w2y2 += wy * wy

    def without(self, other: Sums) -> Sums:
        """The rest, once a slice is taken out. Exact where no conversation is in both."""
        return Sums(
            max(0, self.conversations - other.conversations),
            max(0.0, self.w - other.w),
            self.wy - other.wy,
            max(0.0, self.w2 - other.w2),
            self.w2y - other.w2y,
            max(0.0, self.w2y2 - other.w2y2),
        )

    @property
    def mean(self) -> float:
        """The weighted mean."""
        return self.wy / self.w if self.w > 0 else 0.0

    @property
    def effective(self) -> float:
        """How many equally weighted conversations would tell as much (Kish)."""
        return self.w * self.w / self.w2 if self.w2 > 0 else 0.0

    @property
    def variance(self) -> float:
        """The variance of the mean, conversations as clusters."""
        if self.w <= 0 or self.conversations < 2:
            return 0.0
        squares = residual_squares(self.mean, self.w2, self.w2y, self.w2y2)
        return squares / (self.w * self.w) * self.conversations / (self.conversations - 1)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return sqrt(self.variance)


def labels_to_compare(items: Iterable[ScoredItem]) -> tuple[Label, ...]:
    """The labels that are looked at: of attributes with more than one value, those of enough conversations."""
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
        is_part = FEWEST_CONVERSATIONS <= count < len(everyone)
        if is_part and by_attribute[label[0]] < MOST_VALUES:
            by_attribute[label[0]] += 1
            chosen.append(label)
    return tuple(sorted(chosen))


def sum_slices(
    items: Iterable[ScoredItem], labels: Sequence[Label], left_out: Sequence[Slice] = ()
) -> Mapping[Slice, Sums]:
    """The sums of everything, of each label and of each pair, without the scores of the slices that are left out."""
    adder = _Adder(frozenset(labels))
    conversations: dict[str, dict[frozenset[Label], list[float]]] = {}
    for item in items:
        if not any(item.labels.issuperset(each) for each in left_out):
            by_labels = conversations.setdefault(item.conversation, {})
            sums = by_labels.setdefault(item.labels, [0.0, 0.0])
            sums[0] += item.weight
            sums[1] += item.weight * item.score
    for by_labels in conversations.values():
        adder.add(by_labels)
    return adder.sums


class _Adder:
    """Adds conversations to the sums of their slices."""

    def __init__(self, labels: frozenset[Label]) -> None:
        self.sums: dict[Slice, Sums] = {EVERYTHING: Sums()}
        self._labels = labels
        self._slices_of: dict[frozenset[Label], tuple[Slice, ...]] = {}
        self._sums_of: dict[frozenset[Label], list[Sums]] = {}

    def add(self, by_labels: Mapping[frozenset[Label], Sequence[float]]) -> None:
        """Add a conversation: the sums of weights and of weighted scores of its subjects with the same labels."""
        if len(by_labels) == 1:  # as most are: then all of its slices have the same sums
            ((labels, (w, wy)),) = by_labels.items()
            w2, w2y, w2y2 = w * w, w * wy, wy * wy
            for sums in self._find_sums(labels):
                sums.conversations += 1
                sums.w += w
                sums.wy += wy
                sums.w2 += w2
                sums.w2y += w2y
                sums.w2y2 += w2y2
            return
        totals: dict[Slice, list[float]] = {}
        for labels, (w, wy) in by_labels.items():
            for find_slice in self._find_slices(labels):
                total = totals.setdefault(find_slice, [0.0, 0.0])
                total[0] += w
                total[1] += wy
        for each, (w, wy) in totals.items():
            self.sums.setdefault(each, Sums()).add(w, wy)

    def _find_sums(self, labels: frozenset[Label]) -> Sequence[Sums]:
        sums = self._sums_of.get(labels)
        if sums is None:
            slices = self._find_slices(labels)
            sums = self._sums_of[labels] = [self.sums.setdefault(slice_, Sums()) for slice_ in slices]
        return sums

    def _find_slices(self, labels: frozenset[Label]) -> tuple[Slice, ...]:
        slices = self._slices_of.get(labels)
        if slices is None:
            ordered = sorted(labels & self._labels)
            pairs = [pair for pair in combinations(ordered, 2) if pair[0][0] != pair[1][0]]
            slices = self._slices_of[labels] = (EVERYTHING, *((label,) for label in ordered), *pairs)
        return slices
