"""Comparison of two evaluations of the same subjects. Plain arithmetic.

Means are weighted by 1 / sampling probability, as everywhere, so they are the traffic's means. The difference is taken
pair by pair and its error over conversations (Taylor linearisation): what two judges have in common, the same easy and
hard cases, does not enter it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from collector.calibration.labels import HumanLabel
from collector.statistics.agreement import spearman
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class EvaluationPair:
    """The old evaluation of a subject and the new one; both have a score. `label` is people's, where it counts."""

    old: Evaluation
    new: Evaluation
    label: HumanLabel | None = None

    @property
    def difference(self) -> float:
        """New score less old score."""
        return (self.new.score or 0.0) - (self.old.score or 0.0)

    @property
    def weight(self) -> float:
        """How many subjects of the traffic it stands for: 1 / the probability to be judged, and labelled if it is.

        `old`'s and the labelled version's draws nest: the rarer counts.
        """
        judged = 1.0 / self.old.sampling.probability
        return judged if self.label is None else max(judged, self.label.weight) / (self.label.probability or 1.0)


@dataclass(frozen=True, slots=True)
class MeanChange:
    """A mean before and after. `interval` is the difference's 95 % interval, None for fewer than two conversations."""

    old: float
    new: float
    difference: float
    interval: tuple[float, float] | None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The old mean, the new one, the difference and its interval, as tables show them."""
        bounds = "–" if self.interval is None else f"{self.interval[0]:+z.3f} … {self.interval[1]:+z.3f}"
        return f"{self.old:.3f}", f"{self.new:.3f}", f"{self.difference:+z.3f}", bounds

    def __str__(self) -> str:
        return "{} → {} ({}, 95 % interval {})".format(*self.cells)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one evaluator's pairs.

    Of the `decided` pairs both sides have a verdict. `passing` is the share of these that passes, None without any; so
    are `same_verdict` (the share on which both verdicts agree), `to_fail` and `to_pass` (how many pairs flipped).
    `rank_correlation` is Spearman's, NaN where one side is constant.
    """

    pairs: int
    conversations: int
    mean: MeanChange
    decided: int
    passing: MeanChange | None
    same_verdict: float | None
    to_fail: int | None
    to_pass: int | None
    rank_correlation: float
    weighted: bool
    worst: tuple[EvaluationPair, ...]


def compare(pairs: Sequence[EvaluationPair], *, worst: int = 5) -> Comparison | None:
    """Compare pairs; None without any. The result has the `worst` pairs that differ most."""
    if not pairs:
        return None
    decided = [pair for pair in pairs if None not in (pair.old.passed, pair.new.passed)]
    verdicts = [(bool(pair.old.passed), bool(pair.new.passed)) for pair in decided]
    differing = (pair for pair in pairs if pair.difference)
    furthest = sorted(differing, key=lambda pair: (-abs(pair.difference), pair.old.evaluation_id))  # ties, too
    return Comparison(
        pairs=len(pairs),
        conversations=len({pair.old.subject.conversation_id for pair in pairs}),
        mean=change(pairs, [(pair.old.score or 0.0, pair.new.score or 0.0) for pair in pairs]),
        decided=len(decided),
        passing=change(decided, verdicts) if decided else None,
        same_verdict=change(decided, [(old == new, 0.0) for old, new in verdicts]).old if decided else None,
        to_fail=sum(old and not new for old, new in verdicts) if decided else None,
        to_pass=sum(new and not old for old, new in verdicts) if decided else None,
        rank_correlation=spearman([(pair.old.score or 0.0, pair.new.score or 0.0) for pair in pairs]),
        weighted=len({pair.weight for pair in pairs}) > 1,
        worst=tuple(furthest[:worst]),
    )


def change(pairs: Sequence[EvaluationPair], values: Sequence[tuple[float, float]]) -> MeanChange:
    """The weighted means of two values per pair, and their difference with its interval."""
    weights = [pair.weight for pair in pairs]
    total = math.fsum(weights)
    old = math.fsum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / total
    new = math.fsum(weight * value for weight, (_, value) in zip(weights, values, strict=True)) / total
    difference = new - old
    residuals: dict[str, float] = {}
    for pair, (before, after) in zip(pairs, values, strict=True):
        key = pair.old.subject.conversation_id
        residuals[key] = residuals.get(key, 0.0) + pair.weight * (after - before - difference)
    number = len(residuals)
    if number < 2:
        return MeanChange(old, new, difference, None)
    error = math.sqrt(math.fsum(residual * residual for residual in residuals.values()) * number / (number - 1)) / total
    reach = t975(number - 1) * error
    return MeanChange(old, new, difference, (max(-1.0, difference - reach), min(1.0, difference + reach)))


def t975(freedom: int) -> float:
    """The 97.5 % point of Student's distribution with `freedom` degrees of freedom, within 0.2 %.

    One and two in closed form, else Abramowitz and Stegun 26.7.5.
    """
    if freedom == 1:
        return math.tan(math.pi * 0.475)
    if freedom == 2:
        return 0.95 * math.sqrt(2.0 / (4 * 0.975 * 0.025))
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )  # fmt: skip
    return sum(term / freedom**power for power, term in enumerate(terms))
