"""Measures of agreement with their intervals, for a table and for metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from collector.statistics.agreement import (
    ScorePair,
    cohen_kappa,
    interval,
    kendall,
    krippendorff,
    sensitivity,
    spearman,
    specificity,
    threshold_for,
    weighted_kappa,
    youden,
)
from collector.statistics.correction import LabelledScore
from evaluators.evaluator import Evaluator

Interval = tuple[float, float] | None
Measure = Callable[[Sequence[ScorePair]], float]

_MIDDLE = 0.5
ENOUGH = 200
"""Labels from which the intervals have their nominal coverage."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """The scale of an evaluator's scores: those on the good side of `threshold`, in 0..1, pass."""

    threshold: float = 0.5
    lower_is_better: bool = False

    @classmethod
    def of(cls, evaluator: Evaluator[Any]) -> ScoreScale:
        """An evaluator's; the middle is its threshold where it has none."""
        threshold = 0.5 if evaluator.threshold is None else evaluator.threshold
        return cls(threshold, lower_is_better=evaluator.direction == "lower_is_better")

    def upward(self, pairs: Sequence[ScorePair]) -> Sequence[ScorePair]:
        """The pairs on a scale on which higher is better."""
        return [_turned(pair) for pair in pairs] if self.lower_is_better else pairs

    @property
    def bar(self) -> float:
        """The threshold on that scale."""
        return 1.0 - self.threshold if self.lower_is_better else self.threshold

    def threshold_for(self, pairs: Sequence[ScorePair], target: float) -> float | None:
        """The most lenient threshold at which what people call bad fails with at least the share `target`."""
        threshold = threshold_for(self.upward(pairs), target)
        return round(1.0 - threshold, 12) if threshold is not None and self.lower_is_better else threshold

    def fails(self, judge: float) -> bool:
        """Whether a judge's score is on the bad side of the threshold."""
        return judge > self.threshold if self.lower_is_better else judge < self.threshold

    def is_bad(self, human: float) -> bool:
        """Whether a person's score is on the bad side of the middle."""
        return human > _MIDDLE if self.lower_is_better else human < _MIDDLE

    def measures(self) -> dict[str, Measure]:
        """Every measure by its name."""
        return {
            "spearman": spearman,
            "kendall_tau_b": kendall,
            "weighted_kappa": weighted_kappa,
            "krippendorff_alpha": krippendorff,
            "cohen_kappa": partial(cohen_kappa, threshold=self.bar),
            "sensitivity": partial(sensitivity, threshold=self.bar),
            "specificity": partial(specificity, threshold=self.bar),
            "youden_j": partial(youden, threshold=self.bar),
        }


def _turned(pair: ScorePair) -> ScorePair:
    judge, human = 1.0 - pair[0], 1.0 - pair[1]
    return pair._replace(judge=judge, human=human) if isinstance(pair, LabelledScore) else (judge, human)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The measures of one segment, each with its 95 % interval."""

    segment: str
    labels: int
    measures: dict[str, tuple[float, Interval]]


def agreement(segment: str, pairs: Sequence[ScorePair], scale: ScoreScale, *, samples: int = 1000) -> Agreement:
    """All measures of one segment; `samples` is how often the bootstrap draws for the intervals."""
    upward = scale.upward(pairs)
    measures = {
        name: (measure(upward), interval(upward, measure, samples=samples))
        for name, measure in scale.measures().items()
    }
    return Agreement(segment, len(pairs), measures)
