"""Agreement of chosen with expected labels: precision, recall, F1 and the confusion matrix; and of two sets of
verdicts.

Formulas: precision = TP / (TP + FP), recall = TP / (TP + FN), F1 = 2 TP / (2 TP + FP + FN), by label; macro F1 is their
mean over the labels that are expected or chosen.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts by expected and chosen label; they may be weighted. `not_labels` counts expected outputs that are none."""

    counts: Mapping[tuple[str, str], float]
    not_labels: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def labels(self) -> list[str]:
        """Every label that is expected or chosen."""
        return sorted({label for pair in self.counts for label in pair})

    @property
    def accuracy(self) -> float:
        """The share of cases whose label was expected."""
        right = sum(count for (expected, chosen), count in self.counts.items() if expected == chosen)
        return right / sum(self.counts.values())

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1."""
        labels = self.labels
        return sum(self.ratios(label)[2] or 0.0 for label in labels) / len(labels)

    def ratios(self, label: str) -> tuple[float | None, float | None, float | None]:
        """Precision, recall and F1 of a label; None without a case."""
        right = self.counts.get((label, label), 0)
        chosen = sum(count for (_, other), count in self.counts.items() if other == label)
        expected = sum(count for (other, _), count in self.counts.items() if other == label)
        return _share(right, chosen), _share(right, expected), _share(2 * right, chosen + expected)

    def as_json(self) -> dict[str, object]:
        """All figures, as JSON."""
        names = ("precision", "recall", "f1")
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "left_out": sum(self.not_labels.values()),
            "labels": {label: dict(zip(names, self.ratios(label), strict=True)) for label in self.labels},
            "confusion": [
                {"expected": expected, "chosen": chosen, "count": count}
                for (expected, chosen), count in sorted(self.counts.items())
            ],
        }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def confusions(
    evaluations: Iterable[Evaluation], labels: Mapping[str, Collection[str]], expected: Mapping[str, str]
) -> Iterator[tuple[str, Confusion]]:
    """The confusion matrix of each evaluator that chose among labels for cases with an expected one.

    `labels` has the labels of each evaluator, `expected` the expected outputs of turns by id. A case counts if its
    expected output is one of the labels; other expected outputs are counted apart.
    """
    counts: dict[str, Counter[tuple[str, str]]] = {}
    others: dict[str, Counter[str]] = {}
    for evaluation in evaluations:
        wanted = expected.get(evaluation.subject.turn_id or "", "").strip()
        if evaluation.label is None or not wanted:
            continue
        if wanted in labels.get(evaluation.evaluator, ()):
            counts.setdefault(evaluation.evaluator, Counter())[wanted, evaluation.label] += 1
        else:
            others.setdefault(evaluation.evaluator, Counter())[wanted] += 1
    yield from ((name, Confusion(pairs, others.get(name, {}))) for name, pairs in counts.items())


class Bounded(NamedTuple):
    """A measure with its 95 % interval; NaN if it has no value."""

    value: float
    low: float
    high: float


UNKNOWN = Bounded(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class VerdictAgreement:
    """The agreement of a judge's verdicts with people's. `number` is the effective number of labelled conversations.

    `share` is the share of equal verdicts, `kappa` the agreement beyond chance (Cohen 1960). `youden` is sensitivity +
    specificity - 1: the share of good answers that pass minus the share of bad answers that pass. `verdicts` counts
    people's and the judge's verdicts, "good" and "bad", weighted to add up to `number`.
    """

    number: float
    share: Bounded
    kappa: Bounded
    youden: Bounded
    verdicts: Confusion
    sensitivity: Bounded = UNKNOWN
    specificity: Bounded = UNKNOWN

    def measures(self) -> dict[str, Bounded]:
        """Every measure by its name."""
        return {"share": self.share, "kappa": self.kappa, "youden_j": self.youden}

    def by_name(self) -> dict[str, Bounded]:
        """Every measure by the name that it has in `calibrate`, where sides have one each."""
        names = ("equal_verdicts", "cohen_kappa", "sensitivity", "specificity", "youden_j")
        return dict(zip(names, (self.share, self.kappa, self.sensitivity, self.specificity, self.youden), strict=True))
