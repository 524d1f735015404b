"""Measures of agreement between a judge's scores and people's, with their intervals. Plain functions over pairs.

Each function names the source of its formula. A label that was drawn with a probability counts 1 / probability times,
so a measure describes the traffic and not the labelled part; a plain pair counts once. Intervals resample whole
conversations, because labels of one conversation are not independent.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from collector.statistics.confusion import UNKNOWN, Bounded, Confusion, VerdictAgreement
from collector.statistics.conversations import by_conversation
from collector.statistics.correction import LabelledScore
from collector.statistics.intervals import share_interval
from evaluators.evaluator import Evaluator
from evaluators.results import Evaluation

ScorePair = tuple[float, float] | LabelledScore
"""A judge's score and a person's, both on 0..1; a `LabelledScore` also has its weight."""


FEWEST = 10
"""The fewest labels for a measure, and the fewest labelled conversations for its interval."""


def _weight(pair: ScorePair) -> float:
    return pair.weight if isinstance(pair, LabelledScore) else 1.0


def spearman(pairs: Sequence[ScorePair]) -> float:
    """Spearman's rank correlation (1904), ties at their mean rank; NaN if one side is constant."""
    weights = list(map(_weight, pairs))
    return pearson(_ranks([pair[0] for pair in pairs], weights), _ranks([pair[1] for pair in pairs], weights), weights)


def pearson(xs: Sequence[float], ys: Sequence[float], weights: Sequence[float]) -> float:
    """Pearson's product-moment correlation; NaN if one side is constant."""
    mean_x, mean_y = fmean(xs, weights), fmean(ys, weights)
    rows = list(zip(xs, ys, weights, strict=True))
    covariance = math.fsum(w * (x - mean_x) * (y - mean_y) for x, y, w in rows)
    spread = math.fsum(w * (x - mean_x) ** 2 for x, _, w in rows) * math.fsum(w * (y - mean_y) ** 2 for _, y, w in rows)
    # rounding may give a constant side a spread above 0, and so a correlation of 0 where there is none
    return covariance / math.sqrt(spread) if spread > 0 and min(xs) < max(xs) and min(ys) < max(ys) else math.nan


def _ranks(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    ranks, below = dict[float, float](), 0.0
    for value, weight in sorted(_summed(zip(values, weights, strict=True)).items()):
        ranks[value] = below + weight / 2.0
        below += weight
    return [ranks[value] for value in values]


def _summed(weighted: Iterable[tuple[float, float]]) -> dict[float, float]:
    sums = defaultdict[float, float](float)
    for value, weight in weighted:
        sums[value] += weight
    return sums


def kendall(pairs: Sequence[ScorePair]) -> float:
    """Kendall's tau-b (1945); NaN if one side is constant. Two labels weigh the product of their weights."""
    cells = defaultdict[tuple[float, float], float](float)
    for pair in pairs:
        cells[pair[0], pair[1]] += _weight(pair)
    itself = math.fsum(_weight(pair) ** 2 for pair in pairs)  # no label is compared with itself
    judges, people = (_summed((cell[side], weight) for cell, weight in cells.items()) for side in (0, 1))
    total, both, *ties = (
        (math.fsum(weight**2 for weight in weights) - itself) / 2.0
        for weights in ((sum(cells.values()),), cells.values(), judges.values(), people.values())
    )
    discordant, seen = 0.0, _WeightsByValue(people)
    for _, row in groupby(sorted(cells.items()), key=lambda cell: cell[0][0]):
        level = [(human, weight) for (_, human), weight in row]
        discordant += math.fsum(weight * seen.above(human) for human, weight in level)
        for human, weight in level:
            seen.add(human, weight)
    concordant = total - ties[0] - ties[1] + both - discordant
    scale = (total - ties[0]) * (total - ties[1])
    return (concordant - discordant) / math.sqrt(scale) if scale > _FLAT * total**2 else math.nan


_FLAT = 1e-12


class _WeightsByValue:
    """Weights by value. The sum of the weights of larger values takes O(log n) (Fenwick 1994)."""

    def __init__(self, values: Iterable[float]) -> None:
        self._places = {value: place for place, value in enumerate(sorted(values, reverse=True), 1)}
        self._sums = [0.0] * (len(self._places) + 1)

    def add(self, value: float, weight: float) -> None:
        place = self._places[value]
        while place < len(self._sums):
            self._sums[place] += weight
            place += place & -place

    def above(self, value: float) -> float:
        place, total = self._places[value] - 1, 0.0
        while place:
            total += self._sums[place]
            place &= place - 1
        return total


def weighted_kappa(pairs: Sequence[ScorePair]) -> float:
    """Cohen's kappa (1968) with quadratic weights, on the unrounded scores; NaN without any spread.

    For evenly spaced levels it equals the kappa of the levels. The mean squared difference by chance is the sum of both
    variances and the squared difference of the means.
    """
    judges, people, weights = _columns(pairs)
    means = fmean(judges, weights), fmean(people, weights)
    observed = fmean([(judge - human) ** 2 for judge, human in zip(judges, people, strict=True)], weights)
    spreads = (
        fmean([(score - mean) ** 2 for score in side], weights)
        for side, mean in zip((judges, people), means, strict=True)
    )
    chance = sum(spreads) + (means[0] - means[1]) ** 2
    return 1.0 - observed / chance if chance > _FLAT else math.nan


def _columns(pairs: Sequence[ScorePair]) -> tuple[list[float], list[float], list[float]]:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], list(map(_weight, pairs))


def krippendorff(pairs: Sequence[ScorePair]) -> float:
    """Krippendorff's alpha (1970) for interval data and two raters without gaps; NaN without any spread."""
    judges, people, weights = _columns(pairs)
    within = fmean([(judge - human) ** 2 for judge, human in zip(judges, people, strict=True)], weights)
    pooled, twice = [*judges, *people], [*weights, *weights]
    mean = fmean(pooled, twice)
    number = 2.0 * math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights)  # Kish
    between = 2.0 * fmean([(score - mean) ** 2 for score in pooled], twice) * number / (number - 1.0)
    return 1.0 - within / between if between > _FLAT else math.nan


def specificity(pairs: Sequence[ScorePair], threshold: float) -> float:
    """The judge's failure rate on answers that people call bad (Yerushalmy 1947); NaN without any."""
    bad = [pair for pair in pairs if pair[1] < MIDDLE]
    total = sum(map(_weight, bad))
    return sum(_weight(pair) for pair in bad if pair[0] < threshold) / total if total else math.nan


def threshold_for(pairs: Sequence[ScorePair], target: float) -> float | None:
    """The middle of the thresholds with a specificity of at least `target` that fail the fewest good pairs, and of
    these the most bad ones; None if there are none.
    """
    scores = sorted({pair[0] for pair in pairs})
    highest = {*scores[-1:], *(pair[0] for pair in pairs if pair[1] >= MIDDLE)}  # a higher one fails a good pair more
    for below, score in pairwise(scores):
        if score in highest and specificity(pairs, score) >= target:
            middle = (below + score) / 2.0
            return short if below < (short := round(middle, 3)) <= score else middle
    return None


def interval(
    pairs: Sequence[ScorePair], measure: Callable[[Sequence[ScorePair]], float], *, samples: int = 1000, seed: int = 0
) -> tuple[float, float] | None:
    """The percentile bootstrap's 95 % interval (Efron and Tibshirani 1993) of a measure; it draws conversations.

    None with fewer than `FEWEST` conversations, or if the measure has no value in most resamples. Resamples without a
    value (one side constant) are left out. None also if all resamples are equal, since that proves nothing.
    """
    chance, conversations = Random(seed), by_conversation(pairs)
    if len(conversations) < FEWEST:
        return None
    choices = (chance.choices(conversations, k=len(conversations)) for _ in range(samples))
    values = (measure([pair for conversation in choice for pair in conversation]) for choice in choices)
    resampled = sorted(value for value in values if not math.isnan(value))
    if len(resampled) < samples / 2:
        return None
    low, high = resampled[int(0.025 * len(resampled))], resampled[min(len(resampled) - 1, int(0.975 * len(resampled)))]
    return (low, high) if high - low > _FLAT else None


Interval = tuple[float, float] | None
Measure = Callable[[Sequence[ScorePair]], float]

MIDDLE = 0.5
ENOUGH = 200
"""The fewest labels with which the intervals have their nominal coverage."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """The scale of an evaluator's scores, 0..1. Those on the good side of `threshold` pass. Without one, labels decide
    if it is `by_label`, else nothing does. `labels` say more than pass and fail; each has whether it passes.
    """

    threshold: float | None = None
    lower_is_better: bool = False
    by_label: bool = False
    labels: Mapping[str, bool | None] = field(default_factory=dict[str, bool | None])

    @classmethod
    def of(cls, evaluator: Evaluator[Any]) -> "ScoreScale":
        """The scale of an evaluator."""
        by_label, verdicts = evaluator.threshold is None and evaluator.has_verdicts, evaluator.label_verdicts
        labels = {name: verdicts.get(name) for name in evaluator.label_names}
        return cls(evaluator.threshold, evaluator.direction == "lower_is_better", by_label, labels)

    def upward(self, pairs: Sequence[ScorePair]) -> Sequence[ScorePair]:
        """The pairs, turned so that higher is better."""
        return [_turned(pair) for pair in pairs] if self.lower_is_better else pairs

    def threshold_for(self, pairs: Sequence[ScorePair], target: float) -> float | None:
        """The most lenient threshold, see above, that fails at least the share `target` of what people call bad."""
        threshold = threshold_for(_verdicts(self.upward(pairs)), target)
        return round(1.0 - threshold, 12) if threshold is not None and self.lower_is_better else threshold

    def fails(self, judge: float, passed: bool | None = None) -> bool:
        """Whether a judge's score is on the bad side of the threshold; without one, whether its label is."""
        if self.threshold is None:
            return self.by_label and passed is False
        return judge > self.threshold if self.lower_is_better else judge < self.threshold

    def decides(self, passed: bool | None) -> bool:
        """Whether a score has a verdict: without a threshold, one whose label has no rule for passing has none."""
        return self.threshold is not None or (self.by_label and passed is not None)

    def of_now(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with its verdict by the present threshold or label, which may have changed; that of a label
        which is not there any more stays.
        """
        rule = self.labels.get(evaluation.label or "", evaluation.passed) if self.by_label else None
        passed = not self.fails(evaluation.score, rule) if evaluation.score is not None and self.decides(rule) else None
        if passed == evaluation.passed:
            return evaluation
        is_own = bool(self.labels) or evaluation.label not in (None, "pass", "fail")
        label = evaluation.label if is_own else {True: "pass", False: "fail", None: None}[passed]
        return replace(evaluation, passed=passed, label=label)

    def passes(self, evaluation: Evaluation) -> bool:
        """Whether a scored evaluation passes: by its verdict, else by its score."""
        return not self.fails(evaluation.score or 0.0) if evaluation.passed is None else evaluation.passed

    def is_bad(self, human: float) -> bool:
        """Whether a person's score is on the bad side of the middle."""
        return human > MIDDLE if self.lower_is_better else human < MIDDLE


def _verdicts(pairs: Iterable[ScorePair]) -> list[ScorePair]:
    return [one for pair in pairs for one in (pair.verdicts() if isinstance(pair, LabelledScore) else (pair,))]


OF_SCORES: Mapping[str, Measure] = {
    "spearman": spearman,
    "kendall_tau_b": kendall,
    "weighted_kappa": weighted_kappa,
    "krippendorff_alpha": krippendorff,
}
"""Measures of scores; all others are of verdicts."""


def _turned(pair: ScorePair) -> ScorePair:
    judge, human = 1.0 - pair[0], 1.0 - pair[1]
    return pair._replace(judge=judge, human=human) if isinstance(pair, LabelledScore) else (judge, human)


@dataclass(frozen=True, slots=True)
class Agreement:
    """One segment's measures, each with its 95 % interval."""

    segment: str
    labels: int
    measures: dict[str, tuple[float, Interval]]


def agreement(segment: str, pairs: Sequence[ScorePair], scale: ScoreScale, *, samples: int = 1000) -> Agreement:
    """All measures of one segment; `samples` is the number of bootstrap resamples for the intervals of scores.

    Measures of verdicts have the intervals of `verdict_agreement`, as on the page and in metrics.
    """
    upward = scale.upward(pairs)
    measures: dict[str, tuple[float, Interval]] = {
        name: (measure(upward), interval(upward, measure, samples=samples)) for name, measure in OF_SCORES.items()
    }
    decided = [pair for pair in pairs if scale.decides(getattr(pair, "passed", None))]
    enough = len(by_conversation(decided)) >= FEWEST
    for name, (value, low, high) in verdict_agreement(decided, scale).by_name().items():
        measures[name] = value, (low, high) if enough and not math.isnan(value) else None
    return Agreement(segment, len(pairs), measures)


def verdict_agreement(pairs: Iterable[ScorePair], scale: ScoreScale) -> VerdictAgreement:
    """The agreement of verdicts, of pairs that have one; without pairs, no measure has a value.

    Shares have Wilson's interval (1927) at the effective number of conversations (Kish 1965), which exists even without
    a disagreement; the intervals of kappa and of sensitivity + specificity - 1 are combined from those of these shares
    (Zou and Donner 2008).
    """
    verdicts = [
        _Verdicts(conversation, not scale.fails(one[0], passed), not scale.is_bad(one[1]), _weight(one))
        for place, pair in enumerate(pairs)
        for conversation, passed in [(getattr(pair, "conversation", "") or place, getattr(pair, "passed", None))]
        for one in (_verdicts([pair]) if scale.decides(passed) else ())
    ]
    share = _bounded(verdicts, lambda each: each.judge == each.human)
    judge = _bounded(verdicts, lambda each: each.judge).value
    human = _bounded(verdicts, lambda each: each.human).value
    chance = judge * human + (1.0 - judge) * (1.0 - human)
    good, bad = ([verdict for verdict in verdicts if verdict.human is of] for of in (True, False))
    passed, failed = _bounded(good, lambda each: each.judge), _bounded(bad, lambda each: not each.judge)
    youden = passed.value + failed.value - 1.0
    below = math.hypot(passed.value - passed.low, failed.value - failed.low)
    above = math.hypot(passed.high - passed.value, failed.high - failed.value)
    kappa = Bounded(*((each - chance) / (1.0 - chance) if chance < 1.0 - _FLAT else math.nan for each in share))
    youden_j = Bounded(youden, youden - below, youden + above)
    return VerdictAgreement(_effective(verdicts), share, kappa, youden_j, _confusion(verdicts), passed, failed)


class _Verdicts(NamedTuple):
    """Whether the judge and people find an answer good, and its weight."""

    conversation: Hashable
    judge: bool
    human: bool
    weight: float


def _confusion(verdicts: Sequence[_Verdicts]) -> Confusion:
    counts = defaultdict[tuple[str, str], float](float)
    each = _effective(verdicts) / (math.fsum(verdict.weight for verdict in verdicts) or 1.0)
    for verdict in verdicts:
        counts["good" if verdict.human else "bad", "good" if verdict.judge else "bad"] += each * verdict.weight
    return Confusion(counts)


def _effective(verdicts: Sequence[_Verdicts]) -> float:
    """How many equally weighted conversations would tell as much."""
    weights = defaultdict[Hashable, float](float)
    for verdict in verdicts:
        weights[verdict.conversation] += verdict.weight
    squares = math.fsum(weight**2 for weight in weights.values())
    return math.fsum(weights.values()) ** 2 / squares if squares else 0.0


def _bounded(verdicts: Sequence[_Verdicts], of: Callable[[_Verdicts], bool]) -> Bounded:
    """The weighted share of verdicts, with its interval."""
    number = _effective(verdicts)
    if not number:
        return UNKNOWN
    total = math.fsum(verdict.weight for verdict in verdicts)
    share = math.fsum(verdict.weight for verdict in verdicts if of(verdict)) / total
    return Bounded(share, *share_interval(share, number))
