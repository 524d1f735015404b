"""Agreement of an evaluator with people, and whether a changed one has surely gained. Pure.

Agreement is the mean of two shares: of what people pass, that which the evaluator passes, and of what they fail, that
which it fails; (sensitivity + specificity) / 2, or (Youden's J + 1) / 2. An evaluator whose verdicts say nothing has
0.5 whatever people call good and however often, so that passing more where most is good is no gain.

With b and c the weighted shares of a part (what people pass, what they fail) in which the changed evaluator is newly
right and newly wrong, the gain and the ends of its 95 % interval are

    gain = ½ Σ (b - c),    gain ∓ √ (¼ Σ d²),    d² = (b - l)² - 2 r (b - l)(u - c) + (u - c)²,

with l and u the lower limit of b and the upper one of c (for the upper end the other way round), and r, the correlation
of the two counts of a multinomial, -√ (b c / ((1 - b)(1 - c))). Limits are exact (Clopper and Pearson 1934) at the
effective number of conversations (Kish 1965), as Korn and Graubard (1998) have it; they are combined by the method of
variance estimates recovery (Newcombe 1998; Zou and Donner 2008). A conversation counts as one observation however many
labels it has, so labels in it may depend on each other in any way. A normal limit is no good: if few verdicts change,
perhaps none changes for the worse, which is no proof that none ever does.

However many candidates there are, one is chosen on the training part, and that one alone is tested on the held-out
part, once: what was best of many by chance is not better elsewhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.commands.align.reading import LabelledSubject, Parts
from collector.statistics.certificate import upper_limit

_ONE_SIDE = 0.975
"""Confidence of each limit, so that an interval has 95 %."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether an evaluator has the verdict of people on a subject, before and after a change.

    `passes` is the verdict of people, `weight` what the subject stands for.
    """

    cluster: str
    passes: bool
    before: bool
    after: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """A number with its 95 % interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Gain:
    """Agreement before and after, and the difference. `better` and `worse` count labels whose agreement changed.

    `plain` is the share of all labels that the evaluator agrees with, before and after; it may fall while agreement
    gains, where people pass nearly all or fail nearly all.
    """

    before: Share
    after: Share
    gain: Share
    plain: tuple[float, float]
    labels: int
    better: int
    worse: int

    @property
    def sure(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.gain.interval[0] > 0.0


def agreement_of(subjects: Sequence[Changed], right: Callable[[Changed], bool]) -> float | None:
    """The agreement, counting what is `right`; None if people passed all or failed all."""
    parts = _parts(subjects)
    return None if parts is None else sum(_share(part, right) for part in parts) / 2


def gain_of(subjects: Sequence[Changed]) -> Gain | None:
    """The gain of a change; None if people passed all cases or failed all."""
    parts = _parts(subjects)
    if parts is None:
        return None
    changes = [_change(part) for part in parts]
    difference = sum(value for value, _, _ in changes) / 2
    down, up = (math.hypot(*(change[end] for change in changes)) / 2 for end in (1, 2))
    return Gain(
        before=_balanced(parts, _is_right_before), after=_balanced(parts, _is_right_after),
        plain=(_share(subjects, _is_right_before), _share(subjects, _is_right_after)),
        gain=Share(difference, (max(-1.0, difference - down), min(1.0, difference + up))), labels=len(subjects),
        better=sum(_is_better(change) for change in subjects), worse=sum(_is_worse(change) for change in subjects),
    )  # fmt: skip


def _parts(subjects: Sequence[Changed]) -> tuple[Sequence[Changed], Sequence[Changed]] | None:
    passed, failed = ([change for change in subjects if change.passes is passes] for passes in (True, False))
    return (passed, failed) if passed and failed else None


def _is_right_before(change: Changed) -> bool:
    return change.before


def _is_right_after(change: Changed) -> bool:
    return change.after


def _is_better(change: Changed) -> bool:
    return change.after and not change.before


def _is_worse(change: Changed) -> bool:
    return change.before and not change.after


def _share(part: Sequence[Changed], holds: Callable[[Changed], bool]) -> float:
    return math.fsum(change.weight for change in part if holds(change)) / math.fsum(change.weight for change in part)


def _effective(part: Sequence[Changed]) -> float:
    """The number of equally heavy conversations that tell as much."""
    weights: dict[str, float] = {}
    for change in part:
        weights[change.cluster] = weights.get(change.cluster, 0.0) + change.weight
    return math.fsum(weights.values()) ** 2 / math.fsum(weight * weight for weight in weights.values())


def _limits(share: float, number: float) -> tuple[float, float]:
    return 1.0 - upper_limit((1.0 - share) * number, number, _ONE_SIDE), upper_limit(share * number, number, _ONE_SIDE)


def _change(part: Sequence[Changed]) -> tuple[float, float, float]:
    """The change of one part's share, and the distance of its interval's two ends."""
    number, better, worse = _effective(part), _share(part, _is_better), _share(part, _is_worse)
    (low_b, high_b), (low_c, high_c) = _limits(better, number), _limits(worse, number)
    correlation = -math.sqrt(better * worse / ((1.0 - better) * (1.0 - worse))) if better and worse else 0.0
    return (
        better - worse,
        _together(better - low_b, high_c - worse, correlation),
        _together(high_b - better, worse - low_c, correlation),
    )


def _together(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2.0 * correlation * one * other + other * other))


def _balanced(parts: Sequence[Sequence[Changed]], right: Callable[[Changed], bool]) -> Share:
    shares = [_share(part, right) for part in parts]
    limits = [_limits(share, _effective(part)) for share, part in zip(shares, parts, strict=True)]
    down = math.hypot(*(share - low for share, (low, _) in zip(shares, limits, strict=True))) / 2
    up = math.hypot(*(high - share for share, (_, high) in zip(shares, limits, strict=True))) / 2
    value = sum(shares) / 2
    return Share(value, (max(0.0, value - down), min(1.0, value + up)))


ANSWERING = 0.95
"""The share of the labels scored by the evaluator that a candidate must score, too."""

Verdicts = Mapping[str, bool]
"""Whether an evaluator passes a subject, by the label's name; without those that it could not score."""


@dataclass(frozen=True, slots=True)
class TrainingTrial:
    """A candidate on the training part: agreement before and after, and the share of the labels that it scored.

    Without an interval: that of the best of several would be too narrow. None where people have passed all, say.
    """

    before: float | None
    after: float | None
    answered: float

    @property
    def gain(self) -> float:
        """By how much it agrees more; 0 where it cannot be chosen."""
        if self.before is None or self.after is None or self.answered < ANSWERING:
            return 0.0
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class HoldoutTest:
    """The chosen candidate on the held-out part: its gain, None where there is none to compute, and what it scored."""

    gain: Gain | None
    answered: float

    @property
    def gained(self) -> bool:
        """Whether it surely has."""
        return self.gain is not None and self.answered >= ANSWERING and self.gain.sure


def compared(
    part: Sequence[LabelledSubject], before: Verdicts, after: Verdicts | None = None, *, weighted: bool = False
) -> list[Changed]:
    """The labels that have both verdicts, and whether people agree. Without weights each label counts alike.

    Without `after`, an evaluator is assumed that agrees with people everywhere.
    """
    return [
        Changed(
            subject.conversation,
            subject.passes,
            before[subject.name] is subject.passes,
            after is None or after[subject.name] is subject.passes,
            subject.weight if weighted else 1.0,
        )
        for subject in part
        if subject.name in before and (after is None or subject.name in after)
    ]


def training_trial(part: Sequence[LabelledSubject], before: Verdicts, after: Verdicts) -> TrainingTrial:
    """A candidate's verdicts on the training part beside the present evaluator's; each label counts alike."""
    changes = compared(part, before, after)
    old, new = (agreement_of(changes, right) for right in (_is_right_before, _is_right_after))
    return TrainingTrial(old, new, _answered(part, before, after))


def _answered(part: Sequence[LabelledSubject], before: Verdicts, after: Verdicts) -> float:
    scored = [subject for subject in part if subject.name in before]
    return sum(subject.name in after for subject in scored) / len(scored) if scored else 0.0


def chosen(trials: Sequence[TrainingTrial]) -> int | None:
    """The place of the candidate that gained most on the training part; None where none did. The first of equals."""
    best = max(range(len(trials)), key=lambda each: trials[each].gain, default=None)
    return best if best is not None and trials[best].gain > 0.0 else None


def holdout_test(parts: Parts, before: Verdicts, after: Verdicts) -> HoldoutTest:
    """The one test of the chosen candidate."""
    changes = compared(parts.holdout, before, after, weighted=parts.at_random)
    return HoldoutTest(gain_of(changes), _answered(parts.holdout, before, after))


def can_show_a_gain(parts: Parts, before: Verdicts) -> bool:
    """Whether an evaluator that agrees with people everywhere would have gained for sure on what is held out."""
    best = gain_of(compared(parts.holdout, before, weighted=parts.at_random))
    return best is not None and best.sure
