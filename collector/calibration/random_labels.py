"""The evidence of randomly drawn labels on a judge: how far its verdicts agree with people's, and the mean by them.

All of it is weighted by 1 / the probability to be judged and labelled, and conversations are clusters. Shares have
Wilson's interval (1927) at the effective number of conversations (Kish), which is there without a disagreement, too;
the intervals of kappa and of sensitivity + specificity - 1 are made of theirs (Zou and Donner 2008). The mean by people
is that of `collector.statistics.audited_sums`, with people as who audits.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from collector.calibration.labels import HumanLabel
from collector.records.audits import FEWEST_AUDITS
from collector.statistics.agreement import ScoreScale
from collector.statistics.audited_sums import SUM_NAMES, TOTALS, AuditedSums, growth
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.confusion import Bounded, Confusion, VerdictAgreement
from collector.statistics.intervals import Z, share_interval

WEAKEST = 0.2
"""Sensitivity + specificity - 1 below which a judge tells too little of what people would say to be corrected."""
DRIFT_ERRORS = 4.0
"""Standard errors by which newer labels differ from older ones where the judge, or people, have changed."""
_LARGEST_SHARE = 0.5

Withheld = Literal["", "few", "weak", "drift"]
"""Why there is no corrected mean: too few labels, a judge that says little, or one that has changed; "" if there is."""


def random_labels(labels: Iterable[HumanLabel]) -> list[HumanLabel]:
    """The labels of what was drawn, the oldest first."""
    return sorted((label for label in labels if label.probability is not None), key=lambda each: each.at)


def verdict_agreement(labels: Sequence[HumanLabel], scale: ScoreScale) -> VerdictAgreement:
    """The agreement by labels that were drawn; with none of them, no measure has a value."""
    verdicts = [
        _Verdicts(cluster, not scale.fails(label.judge), not scale.is_bad(label.human), label.weighted().weight)
        for cluster, label in _by_conversation(labels)
    ]
    share = _share(verdicts, lambda each: each.judge == each.human)
    judge, human = _share(verdicts, lambda each: each.judge), _share(verdicts, lambda each: each.human)
    chance = judge.value * human.value + (1.0 - judge.value) * (1.0 - human.value)
    good, bad = ([verdict for verdict in verdicts if verdict.human is of] for of in (True, False))
    passed, failed = _share(good, lambda each: each.judge), _share(bad, lambda each: not each.judge)
    return VerdictAgreement(
        _effective(verdicts),
        share,
        Bounded(*((each - chance) / (1.0 - chance) if chance < 1.0 else math.nan for each in share)),
        Bounded(
            passed.value + failed.value - 1.0,
            passed.value + failed.value - 1.0 - math.hypot(passed.value - passed.low, failed.value - failed.low),
            passed.value + failed.value - 1.0 + math.hypot(passed.high - passed.value, failed.high - failed.value),
        ),
        _confusion(verdicts),
    )


def _confusion(verdicts: Sequence["_Verdicts"]) -> Confusion:
    counts = defaultdict[tuple[str, str], float](float)
    each = _effective(verdicts) / (math.fsum(verdict.weight for verdict in verdicts) or 1.0)
    for verdict in verdicts:
        counts["good" if verdict.human else "bad", "good" if verdict.judge else "bad"] += each * verdict.weight
    return Confusion(counts)


class _Verdicts(NamedTuple):
    """Whether the judge and people find an answer good, and what it stands for."""

    conversation: str
    judge: bool
    human: bool
    weight: float


def _by_conversation(labels: Iterable[HumanLabel]) -> Iterator[tuple[str, HumanLabel]]:
    """The labels with their conversations; what has none, out of a file, is one of its own."""
    for number, label in enumerate(labels):
        yield label.conversation or f"\0{number}", label


def _effective(verdicts: Sequence[_Verdicts]) -> float:
    """How many equally weighted conversations would tell as much."""
    weights = defaultdict[str, float](float)
    for verdict in verdicts:
        weights[verdict.conversation] += verdict.weight
    squares = math.fsum(weight**2 for weight in weights.values())
    return math.fsum(weights.values()) ** 2 / squares if squares else 0.0


def _share(verdicts: Sequence[_Verdicts], of: Callable[[_Verdicts], bool]) -> Bounded:
    """The weighted share of verdicts, with its interval."""
    number = _effective(verdicts)
    if not number:
        return Bounded(math.nan, math.nan, math.nan)
    share = math.fsum(verdict.weight for verdict in verdicts if of(verdict)) / math.fsum(
        verdict.weight for verdict in verdicts
    )
    return Bounded(share, *share_interval(share, number))


def people_sums(labels: Iterable[HumanLabel], *, of_scores: bool = True) -> AuditedSums:
    """The sums of labels that were drawn, for the mean by people; those of all scores are added to them.

    `of_scores`: what is labelled is among the scores, with its weight; else products with them are left out, as where
    the mean by audits is corrected. Squares are larger by 1 / (1 - a / A)², as few conversations with large weights
    hide how far off they are (HC3, MacKinnon and White 1985).
    """
    conversations = defaultdict[str, list[float]](lambda: [0.0] * len(TOTALS))
    for cluster, label in _by_conversation(labels):
        weight, own = label.weighted().weight, label.weight if of_scores else 0.0
        more = (weight, weight * label.human, weight * label.judge, own, own * label.judge)
        conversations[cluster] = list(map(float.__add__, conversations[cluster], more))
    total = math.fsum(conversation[0] for conversation in conversations.values())
    sums = AuditedSums()
    for label in conversations.values():
        grown = growth((0.0,) * len(TOTALS), label).values
        larger = (1.0 - min(_LARGEST_SHARE, label[0] / total)) ** -2
        squares = (larger * value for value in grown[len(TOTALS) :])
        sums += AuditedSums((*grown[: len(TOTALS)], *squares))
    return AuditedSums(tuple(value if "a" in name else 0.0 for name, value in zip(SUM_NAMES, sums.values, strict=True)))


def withheld(labels: Sequence[HumanLabel], scale: ScoreScale) -> Withheld:
    """Why labels that were drawn, the oldest first, correct no mean; "" if they do."""
    if people_sums(labels).audits < FEWEST_AUDITS:
        return "few"
    youden = verdict_agreement(labels, scale).youden
    if youden.value < WEAKEST:
        return "weak"
    return "drift" if _drifts(labels, scale) else ""


def _drifts(labels: Sequence[HumanLabel], scale: ScoreScale) -> bool:
    """Whether the newer half of the labels differs from the older one: in people less judge, or in Youden's J."""
    halves = labels[: len(labels) // 2], labels[len(labels) // 2 :]
    (older, error), (newer, other) = map(_difference, halves)
    if abs(newer - older) > DRIFT_ERRORS * math.hypot(error, other):
        return True
    before, after = (verdict_agreement(half, scale).youden for half in halves)
    width = math.hypot(after.high - after.low, before.high - before.low) / (2.0 * Z)
    return abs(after.value - before.value) > DRIFT_ERRORS * width


def _difference(labels: Sequence[HumanLabel]) -> tuple[float, float]:
    """The weighted mean of people's scores less the judge's, and its standard error."""
    conversations = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    for cluster, label in _by_conversation(labels):
        weight = label.weighted().weight
        conversations[cluster][0] += weight
        conversations[cluster][1] += weight * (label.human - label.judge)
    total = math.fsum(weight for weight, _ in conversations.values())
    mean = math.fsum(less for _, less in conversations.values()) / total
    squares = math.fsum((less - mean * weight) ** 2 for weight, less in conversations.values()) / total**2
    number = total**2 / math.fsum(weight**2 for weight, _ in conversations.values())
    return mean, math.sqrt(squares * number / max(1.0, number - 1.0) + VARIANCE_FLOOR / number)
