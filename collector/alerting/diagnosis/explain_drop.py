"""Finds the slices that explain a drop: those that surely fell, and more than the rest of the traffic, beyond chance.

A slice is a value of an attribute, or a pair of values. The difference between its change and the change of the rest is
compared with its error. The error rate is divided over all tested slices (Bonferroni), half of it for single values,
half for pairs, and over the steps. The surest slice is taken out, and the rest is tested again, so that a slice is not
named only because it overlaps with another. A slice that did not fall is never named, although it looks bad beside
others that recovered from an earlier incident. A pair is named only if it fell more than each of its values did without
it; otherwise the value is named. So a new value is named with another if neither fell without the other. Within a named
pair, a third value is looked for in the same way, with its own small error rate.

If a value took over nearly all traffic when scores fell, there is no rest to compare with. Such a value is the first
candidate, but only a candidate: other changes at the same time cannot be told apart from it. Values that changed
together are one candidate.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist

from collector.alerting.diagnosis.slices import (
    EVERYTHING,
    FEWEST_CONVERSATIONS,
    Label,
    ScoredItem,
    Slice,
    SliceSums,
    labels_to_compare,
    members,
    sum_of,
    sum_slices,
)
from collector.statistics.bias import as_normal
from collector.wording import plural

Items = Sequence[ScoredItem]
_Pair = tuple[SliceSums, SliceSums]
"""The sums before and after."""

ERROR_RATE = 0.02
"""The chance, over all slices and steps, that a slice is named although none fell more than the rest."""
_THIRD = 0.005
"""The chance that a third value is named with a pair although none fell more than the rest of the pair."""
_STEPS = (0.5, 0.25, 0.25)
"""The share of the error rate of each step; one slice is found in each."""
_ALONE = 0.5
"""The share of the error rate for single values; the rest is for pairs."""
_LEAST_VARIANCE = 0.0025
"""The least variance of a conversation's mean: few equal scores prove nothing."""
MOST_OF_IT, LITTLE_OF_IT = 0.9, 0.1
"""A value has taken over if it has at least the first share of the traffic since a fall, and at most the second
before."""
_HYSTERESIS = 0.15
"""A value that has been named is named until its shares are beyond those limits by this much."""
SURE = 3.0
"""Standard errors beyond which a change is real. A 95 % interval has two, and one of twenty leaves it by chance."""
_EARLIER_ERRORS = 2.0
"""An older value explains the fall only if its scores were this many standard errors below the others before."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDrop:
    """A slice that fell, and more than the rest: the traffic that is in no named slice.

    All figures leave out the slices `without`, which were named before and overlap with this one; shares are of all
    traffic. `mean_before` is None if the slice had too few scores before; then `change` is that from all scores before.
    `explained` is the part of the whole mean's change that would be missing if the slice had changed like the rest
    (below 0 where scores fell).
    """

    slice: Slice
    without: tuple[Slice, ...]
    mean_before: float | None
    mean: float
    error: float
    change: float
    share_before: float
    share: float
    conversations: int
    explained: float = 0.0

    @property
    def text(self) -> str:
        """The slice as `region=eu and language=de, without model=m-1`."""
        return in_words(self.slice) + "".join(f", without {in_words(each)}" for each in self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropExplanation:
    """The explanation of a change of the mean: slices, surest first; or none."""

    before: SliceSums
    after: SliceSums
    drops: tuple[SliceDrop, ...]
    values: int
    pairs: int
    attributes: tuple[str, ...] = ()
    """The names of the attributes whose values were tested."""
    move: WholeMove | None = None
    """The values that took over the whole traffic as the mean fell: the first candidate."""

    @property
    def none_named(self) -> str:
        """A sentence for the case that no slice is named: which attributes were tested, and which ones could not be."""
        unseen = (
            f"Only declared attributes, and parts of at least {FEWEST_CONVERSATIONS} conversations, can be compared."
        )
        if not self.looked_at:
            return f"No part of the traffic could be compared with the rest. {unseen}"
        return (
            f"None of {', '.join(self.attributes)} ({plural(self.looked_at, 'value or pair', 'values and pairs')}, "
            f"{plural(self.after.conversations, 'conversation')}) fell surely more than the rest. {unseen}"
        )

    @property
    def change(self) -> float:
        """The change of the mean."""
        return self.after.mean - self.before.mean

    @property
    def error(self) -> float:
        """The standard error of the change."""
        return sqrt(self.before.variance + self.after.variance)

    @property
    def looked_at(self) -> int:
        """The number of slices that were tested."""
        return self.values + self.pairs


def explain_drop(
    before: Items, after: Items, *, lower_is_better: bool = False, error_rate: float = ERROR_RATE, moved: Slice = ()
) -> DropExplanation:
    """Find the slices that from `before` to `after` got worse, and by more than the rest. `moved` are the values that
    were named as having taken over when it was looked for last.
    """
    labels, sign = labels_to_compare(after), -1.0 if lower_is_better else 1.0
    named: list[SliceDrop] = []
    left_out: list[Slice] = []
    rest, wholes = (before, after), (sum_of(before), sum_of(after))
    values = pairs = 0
    for step, share in enumerate(_STEPS):
        comparison = _Comparison(sum_slices(rest[0], labels), sum_slices(rest[1], labels), sign)
        if step == 0:
            values, pairs = comparison.count(1), comparison.count(2)
        rates = error_rate * share * _ALONE, error_rate * share * (1.0 - _ALONE)
        surest = comparison.surest({1: _limit(rates[0], values), 2: _limit(rates[1], pairs)})
        if surest is None:
            break
        part = _narrow(surest, rest, sign)
        overlapping = tuple(each for each in left_out if members(after, (*part, *each)))
        own = sum_of(members(rest[0], part)), sum_of(members(rest[1], part))
        named.append(_drop_of(part, overlapping, comparison.compared(part)[0], own, wholes))
        # with a new value, all of the others' traffic: what is left has the same mix before and after
        left_out.append(comparison.known(part) or part)
        rest = members(before, EVERYTHING, left_out), members(after, EVERYTHING, left_out)
    return DropExplanation(
        before=wholes[0],
        after=wholes[1],
        drops=_explained(named, after, rest),
        values=values,
        pairs=pairs,
        attributes=tuple(sorted({name for name, _ in labels})),
        move=whole_move(before, after, wholes, sign=sign, error_rate=error_rate, moved=moved),
    )


def _narrow(part: Slice, windows: tuple[Items, Items], sign: float) -> Slice:
    """A pair with the third value that explains its fall, if there is one."""
    if len(part) < 2:
        return part
    before, after = (members(items, part) for items in windows)
    labels = [label for label in labels_to_compare(after) if label not in part]
    within = _Comparison(sum_slices(before, labels), sum_slices(after, labels), sign)
    third = within.surest({1: _limit(_THIRD, within.count(1))}) or ()
    return tuple(sorted((*part, *third)))


def _drop_of(part: Slice, without: tuple[Slice, ...], compared: SliceSums, own: _Pair, wholes: _Pair) -> SliceDrop:
    """A named slice with its `own` sums before and after; `compared` are those before that it is compared with."""
    mean_before = own[0].mean if _is_large(own[0]) else None
    return SliceDrop(
        slice=part,
        without=without,
        mean_before=mean_before,
        mean=own[1].mean,
        error=own[1].error,
        change=own[1].mean - (compared.mean if mean_before is None else mean_before),
        share_before=own[0].sums.w / max(wholes[0].sums.w, 1e-12),
        share=own[1].sums.w / wholes[1].sums.w,
        conversations=own[1].conversations,
    )


def _explained(named: Sequence[SliceDrop], after: Items, rest: tuple[Items, Items]) -> tuple[SliceDrop, ...]:
    """The drops with what each explains, beside the `rest` that no slice has been named of."""
    rest_before, rest_after = sum_of(rest[0]), sum_of(rest[1])
    if not _is_large(rest_after):  # all of it shares a value with a new one, and has been left out
        rest_after = sum_of(members(after, EVERYTHING, [drop.slice for drop in named]))
    change = rest_after.mean - rest_before.mean
    return tuple(replace(drop, explained=drop.share * (drop.change - change)) for drop in named)


def _is_large(sums: SliceSums) -> bool:
    return sums.conversations >= FEWEST_CONVERSATIONS and sums.effective >= FEWEST_CONVERSATIONS / 2


class _Comparison:
    """The slices of two windows; `sign` is -1 where lower scores are better."""

    def __init__(self, before: Mapping[Slice, SliceSums], after: Mapping[Slice, SliceSums], sign: float) -> None:
        self.before = before
        self.after = after
        self.sign = sign
        self._candidates = [
            each
            for each, sums in after.items()
            if each and _is_large(sums) and _is_large(after[EVERYTHING].without(sums))
        ]
        whole = (before[EVERYTHING], after[EVERYTHING])
        self._spread = max(_LEAST_VARIANCE, *(sums.variance * sums.effective for sums in whole))

    def count(self, size: int) -> int:
        return sum(len(candidate) == size for candidate in self._candidates)

    def surest(self, limits: Mapping[int, float]) -> Slice | None:
        """The slice that fell most surely, of the sizes with a limit; None if none fell beyond chance."""
        sure = {
            part: z
            for part in self._candidates
            if len(part) in limits
            and (z := self._z(part, EVERYTHING)) > limits[len(part)]
            and self._fell(part)
            and (len(part) == 1 or all(self._z(part, (label,)) > limits[2] for label in part))
        }
        # a pair that fell more than its values did without it explains the fall of the values
        return max(sure, key=lambda each: (len(each), sure[each]), default=None)

    def _fell(self, part: Slice) -> bool:
        before, after = self.compared(part)[0], self.after[part]
        return self.sign * (before.mean - after.mean) > SURE * _error(before, after)

    def _z(self, part: Slice, whole: Slice) -> float:
        """By how many standard errors a part of a slice changed for the worse, beyond the rest of it."""
        after, rest_after = self.after[part], self.after[whole].without(self.after[part])
        before, rest_before = self.compared(part, whole)
        if not (_is_large(rest_after) and _is_large(rest_before)):
            return 0.0
        difference = (after.mean - before.mean) - (rest_after.mean - rest_before.mean)
        sums = (after, before, rest_after, rest_before)
        # at least that of as many conversations of all traffic: few equal scores are no certainty
        variance = sum(max(each.variance, self._spread / each.effective) for each in sums)
        return as_normal(-self.sign * difference / sqrt(variance), min(each.effective for each in sums) - 1.0)

    def known(self, part: Slice) -> Slice:
        """The values of a slice that are not new."""
        return tuple(label for label in part if _is_large(self.before.get((label,), SliceSums())))

    def compared(self, part: Slice, whole: Slice = EVERYTHING) -> tuple[SliceSums, SliceSums]:
        """The part and the rest before; if the part is new, everything before for both.

        A value that is new says nothing of before, so a part with other values is compared by these alone.
        """
        if known := self.known(part):
            part, whole = known, tuple(label for label in whole if label in known)
        of_whole = self.before.get(whole, SliceSums())
        of_part = self.before.get(part, SliceSums())
        if part != whole and _is_large(of_part):
            return of_part, of_whole.without(of_part)
        return of_whole, of_whole


def _limit(error_rate: float, slices: int) -> float:
    return NormalDist().inv_cdf(1.0 - error_rate / max(1, slices))


def in_words(of: Slice) -> str:
    """A slice as `model=m-1 and language=de`."""
    return " and ".join(f"{name}={value}" for name, value in of)


def whole_move(
    before: Items, after: Items, wholes: _Pair, *, sign: float, error_rate: float, moved: Slice
) -> WholeMove | None:
    """The values that took over as scores got worse beyond chance; None without any.

    `wholes` are the sums of both windows, and `sign` is -1 where lower scores are better. A value that is in `moved`
    is named from smaller shares on: else one near a limit would come and go within an alert.
    """
    if min(sums.conversations for sums in wholes) < FEWEST_CONVERSATIONS:
        return None
    shares, earlier_shares = _shares(after), _shares(before)
    errors = sign * (wholes[0].mean - wholes[1].mean) / _error(*wholes)
    if errors <= _limit(error_rate, len({name for name, _ in shares})):
        return None
    values = tuple(
        label
        for label, share in sorted(shares.items())
        for more in [_HYSTERESIS * (label in moved)]
        if share >= MOST_OF_IT - more and earlier_shares.get(label, 0.0) <= LITTLE_OF_IT + more
        if _was_bad(label, before, sign)
    )
    if not values:
        return None
    largest = {label[0]: label for label in sorted(earlier_shares, key=earlier_shares.__getitem__)}
    first = min(item.time for item in (*before, *after) if item.labels.intersection(values))
    return WholeMove(values, tuple(largest[name] for name, _ in values if name in largest), first)


def _was_bad(label: Label, before: Items, sign: float) -> bool:
    """Whether a value's scores were below the others before the fall; True if there were too few to tell."""
    own, rest = sum_of(members(before, (label,))), sum_of(members(before, EVERYTHING, [(label,)]))
    is_rare = own.conversations < FEWEST_CONVERSATIONS
    return is_rare or sign * (rest.mean - own.mean) > _EARLIER_ERRORS * _error(own, rest)


def _error(*sums: SliceSums) -> float:
    return sqrt(sum(max(each.variance, _LEAST_VARIANCE / each.effective) for each in sums))


def _shares(items: Items) -> Mapping[Label, float]:
    """The share of the weight that each label has."""
    weights: dict[Label, float] = defaultdict(float)
    for item in items:
        for label in item.labels:
            weights[label] += item.weight
    total = sum(item.weight for item in items)
    return {label: weight / total for label, weight in weights.items()}
