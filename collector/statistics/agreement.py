"""Measures of agreement between a judge's scores and people's. Plain functions over equally long sequences.

Each function names the source of its formula.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

ScorePair = tuple[float, float]
"""A judge's score and a person's, both on 0..1."""


def spearman(pairs: Sequence[ScorePair]) -> float:
    """Spearman's rank correlation (1904), ties at their mean rank; NaN if one side is constant."""
    return pearson(_ranks([judge for judge, _ in pairs]), _ranks([human for _, human in pairs]))


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Pearson's product-moment correlation; NaN if one side is constant."""
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    covariance = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = math.fsum((x - mean_x) ** 2 for x in xs) * math.fsum((y - mean_y) ** 2 for y in ys)
    return covariance / math.sqrt(spread) if spread > 0 else math.nan


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]


def kendall(pairs: Sequence[ScorePair]) -> float:
    """Kendall's tau-b (1945); NaN if one side is constant. O(n log n) comparisons (Knight 1966)."""
    ordered = sorted(pairs)
    total = len(pairs) * (len(pairs) - 1) // 2
    ties_judge, ties_human = (_tied(Counter(side)) for side in zip(*pairs, strict=True))
    discordant, seen = 0, list[float]()
    for _, human in ordered:  # within a tie of the judge people's scores rise, so they count as no inversion
        discordant += len(seen) - bisect_right(seen, human)
        insort(seen, human)
    concordant = total - ties_judge - ties_human + _tied(Counter(pairs)) - discordant
    scale = math.sqrt((total - ties_judge) * (total - ties_human))
    return (concordant - discordant) / scale if scale else math.nan


def _tied(counts: Counter[float] | Counter[ScorePair]) -> int:
    return sum(count * (count - 1) // 2 for count in counts.values())


def weighted_kappa(pairs: Sequence[ScorePair], levels: int = 5) -> float:
    """Cohen's kappa (1968) with quadratic weights, scores put into equally wide levels; NaN without any spread."""
    rated = [(_level(judge, levels), _level(human, levels)) for judge, human in pairs]
    observed = sum((judge - human) ** 2 for judge, human in rated) / len(rated)
    judges, humans = Counter(judge for judge, _ in rated), Counter(human for _, human in rated)
    chance = sum((j - h) ** 2 * m * n for j, m in judges.items() for h, n in humans.items()) / len(rated) ** 2
    return 1 - observed / chance if chance else math.nan


def _level(score: float, levels: int) -> int:
    return round(score * (levels - 1))


def cohen_kappa(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """Cohen's kappa (1960) of verdicts: judges pass from `threshold` on, people from `bar` on; NaN without spread."""
    verdicts = [(judge >= threshold, human >= bar) for judge, human in pairs]
    n = len(verdicts)
    judges, humans = sum(judge for judge, _ in verdicts) / n, sum(human for _, human in verdicts) / n
    chance = judges * humans + (1 - judges) * (1 - humans)
    observed = sum(judge == human for judge, human in verdicts) / n
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


def krippendorff(pairs: Sequence[ScorePair]) -> float:
    """Krippendorff's alpha (1970) for interval data and two raters without gaps; NaN without any spread."""
    pooled = [score for pair in pairs for score in pair]
    n = len(pooled)
    within = 2 * math.fsum((judge - human) ** 2 for judge, human in pairs) / n
    mean = math.fsum(pooled) / n
    between = 2 * n * math.fsum((score - mean) ** 2 for score in pooled) / (n * (n - 1))
    return 1 - within / between if between else math.nan


def sensitivity(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """The judge's pass rate on answers that people call good, at or above `bar` (Yerushalmy 1947); NaN without any."""
    return _share([judge >= threshold for judge, human in pairs if human >= bar])


def specificity(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """The judge's failure rate on answers that people call bad, below `bar` (Yerushalmy 1947); NaN without any."""
    return _share([judge < threshold for judge, human in pairs if human < bar])


def youden(pairs: Sequence[ScorePair], threshold: float, bar: float = 0.5) -> float:
    """Sensitivity + specificity - 1 (Youden 1950): 0 is a judge without information; NaN without both kinds."""
    return sensitivity(pairs, threshold, bar) + specificity(pairs, threshold, bar) - 1.0


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else math.nan


def threshold_for(pairs: Sequence[ScorePair], target: float, bar: float = 0.5) -> float | None:
    """The lowest threshold whose specificity is at least `target`; None if there is none."""
    for threshold in sorted({judge for judge, _ in pairs}):
        if specificity(pairs, threshold, bar) >= target:
            return threshold
    return None


def interval(
    pairs: Sequence[ScorePair], measure: Callable[[Sequence[ScorePair]], float], *, samples: int = 1000, seed: int = 0
) -> tuple[float, float] | None:
    """The percentile bootstrap's 95 % interval (Efron and Tibshirani 1993) of a measure.

    None if the measure has no value in most resamples; those without one (one side constant) are omitted.
    """
    chance = Random(seed)
    resampled = sorted(
        value for _ in range(samples) if not math.isnan(value := measure(chance.choices(pairs, k=len(pairs))))
    )
    if len(resampled) < samples / 2:
        return None
    return resampled[int(0.025 * len(resampled))], resampled[min(len(resampled) - 1, int(0.975 * len(resampled)))]
