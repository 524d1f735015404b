"""Measures of agreement between a judge's scores and people's, with their intervals. Plain functions over pairs.

Each function names the source of its formula. A label that was drawn with a probability counts 1 / probability times,
so a measure describes the traffic and not the labelled part; a plain pair counts once. Intervals resample whole
conversations, because labels of one conversation are not independent.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from random import Random
from typing import Any

from collector.statistics.conversations import by_conversation
from collector.statistics.correction import LabelledScore
from collector.statistics.intervals import share_interval
from evaluators.evaluator import Evaluator

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
    mean_x, mean_y = _mean(xs, weights), _mean(ys, weights)
    rows = list(zip(xs, ys, weights, strict=True))
    covariance = math.fsum(w * (x - mean_x) * (y - mean_y) for x, y, w in rows)
    spread = math.fsum(w * (x - mean_x) ** 2 for x, _, w in rows) * math.fsum(w * (y - mean_y) ** 2 for _, y, w in rows)
    return covariance / math.sqrt(spread) if spread > 0 else math.nan


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(w * value for value, w in zip(values, weights, strict=True)) / math.fsum(weights)


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
    means = _mean(judges, weights), _mean(people, weights)
    observed = _mean([(judge - human) ** 2 for judge, human in zip(judges, people, strict=True)], weights)
    spreads = (
        _mean([(score - mean) ** 2 for score in side], weights)
        for side, mean in zip((judges, people), means, strict=True)
    )
    chance = sum(spreads) + (means[0] - means[1]) ** 2
    return 1.0 - observed / chance if chance > _FLAT else math.nan


def _columns(pairs: Sequence[ScorePair]) -> tuple[list[float], list[float], list[float]]:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], list(map(_weight, pairs))


def cohen_kappa(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """Cohen's kappa (1960) of verdicts: judges pass from `threshold` on, people from `bar` on; NaN without spread."""
    judge = _share(pairs, lambda pair: pair[0] >= threshold)
    human = _share(pairs, lambda pair: pair[1] >= bar)
    observed = equal_verdicts(pairs, threshold, bar)
    chance = judge * human + (1 - judge) * (1 - human)
    return (observed - chance) / (1 - chance) if chance < 1 - _FLAT else math.nan


def krippendorff(pairs: Sequence[ScorePair]) -> float:
    """Krippendorff's alpha (1970) for interval data and two raters without gaps; NaN without any spread."""
    judges, people, weights = _columns(pairs)
    within = _mean([(judge - human) ** 2 for judge, human in zip(judges, people, strict=True)], weights)
    pooled, twice = [*judges, *people], [*weights, *weights]
    mean = _mean(pooled, twice)
    number = 2.0 * math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights)  # Kish
    between = 2.0 * _mean([(score - mean) ** 2 for score in pooled], twice) * number / (number - 1.0)
    return 1.0 - within / between if between > _FLAT else math.nan


def equal_verdicts(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """The share of answers on which judge and people agree, good or bad."""
    return _share(pairs, lambda pair: (pair[0] >= threshold) == (pair[1] >= bar))


def sensitivity(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """The judge's pass rate on answers that people call good, at or above `bar` (Yerushalmy 1947); NaN without any."""
    return _share([pair for pair in pairs if pair[1] >= bar], lambda pair: pair[0] >= threshold)


def specificity(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """The judge's failure rate on answers that people call bad, below `bar` (Yerushalmy 1947); NaN without any."""
    return _share([pair for pair in pairs if pair[1] < bar], lambda pair: pair[0] < threshold)


def youden(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """Sensitivity + specificity - 1 (Youden 1950): 0 is a judge without information; NaN without both kinds."""
    return sensitivity(pairs, threshold, bar) + specificity(pairs, threshold, bar) - 1.0


def _share(pairs: Sequence[ScorePair], is_hit: Callable[[ScorePair], bool]) -> float:
    total = sum(map(_weight, pairs))
    return sum(_weight(pair) for pair in pairs if is_hit(pair)) / total if total else math.nan


def threshold_for(pairs: Sequence[ScorePair], target: float, bar: float = 0.5) -> float | None:
    """The lowest threshold whose specificity is at least `target`; None if there is none."""
    for threshold in sorted({pair[0] for pair in pairs}):
        if specificity(pairs, threshold, bar) >= target:
            return threshold
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


def share_bounds(pairs: Sequence[ScorePair], share: float) -> tuple[float, float] | None:
    """The 95 % interval of a share of pairs at their effective number of conversations (Kish 1965; Wilson 1927).

    None with fewer than `FEWEST` conversations.
    """
    weights = [math.fsum(map(_weight, conversation)) for conversation in by_conversation(pairs)]
    if len(weights) < FEWEST:
        return None
    return share_interval(share, math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights))


Interval = tuple[float, float] | None
Measure = Callable[[Sequence[ScorePair]], float]

MIDDLE = 0.5
ENOUGH = 200
"""The fewest labels with which the intervals have their nominal coverage."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """The scale of an evaluator's scores. Scores on the good side of `threshold`, in 0..1, pass."""

    threshold: float = 0.5
    lower_is_better: bool = False

    @classmethod
    def of(cls, evaluator: Evaluator[Any]) -> "ScoreScale":
        """The scale of an evaluator; without a threshold of its own, the middle of 0..1 is taken."""
        threshold = 0.5 if evaluator.threshold is None else evaluator.threshold
        return cls(threshold, lower_is_better=evaluator.direction == "lower_is_better")

    def upward(self, pairs: Sequence[ScorePair]) -> Sequence[ScorePair]:
        """The pairs, turned so that higher is better."""
        return [_turned(pair) for pair in pairs] if self.lower_is_better else pairs

    @property
    def bar(self) -> float:
        """The threshold on the turned scale."""
        return 1.0 - self.threshold if self.lower_is_better else self.threshold

    def threshold_for(self, pairs: Sequence[ScorePair], target: float) -> float | None:
        """The most lenient threshold at which at least the share `target` of the answers that people call bad fails."""
        threshold = threshold_for(_verdicts(self.upward(pairs)), target)
        return round(1.0 - threshold, 12) if threshold is not None and self.lower_is_better else threshold

    def fails(self, judge: float) -> bool:
        """Whether a judge's score is on the bad side of the threshold."""
        return judge > self.threshold if self.lower_is_better else judge < self.threshold

    def is_bad(self, human: float) -> bool:
        """Whether a person's score is on the bad side of the middle."""
        return human > MIDDLE if self.lower_is_better else human < MIDDLE

    def measures(self) -> dict[str, Measure]:
        """Every measure by its name."""
        return {
            "spearman": spearman,
            "kendall_tau_b": kendall,
            "weighted_kappa": weighted_kappa,
            "krippendorff_alpha": krippendorff,
            "equal_verdicts": partial(equal_verdicts, threshold=self.bar),
            "cohen_kappa": partial(cohen_kappa, threshold=self.bar),
            "sensitivity": partial(sensitivity, threshold=self.bar),
            "specificity": partial(specificity, threshold=self.bar),
            "youden_j": partial(youden, threshold=self.bar),
        }


def _verdicts(pairs: Iterable[ScorePair]) -> list[ScorePair]:
    return [one for pair in pairs for one in (pair.verdicts() if isinstance(pair, LabelledScore) else (pair,))]


_OF_SCORES = {"spearman", "kendall_tau_b", "weighted_kappa", "krippendorff_alpha"}


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
    """All measures of one segment; `samples` is the number of bootstrap resamples for the intervals.

    A share of 0 or 1 is the same in all resamples, so it gets Wilson's interval.
    """
    upward = scale.upward(pairs)
    divided = _verdicts(upward)
    good, bad = ([pair for pair in divided if (pair[1] >= MIDDLE) is verdict] for verdict in (True, False))
    parts = {"equal_verdicts": divided, "sensitivity": good, "specificity": bad}
    measures = dict[str, tuple[float, Interval]]()
    for name, measure in scale.measures().items():
        of = upward if name in _OF_SCORES else divided
        value, bounds = measure(of), interval(of, measure, samples=samples)
        if bounds is None and name in parts:
            bounds = share_bounds(parts[name], value)
        measures[name] = value, bounds
    return Agreement(segment, len(pairs), measures)
