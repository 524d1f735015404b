"""A certificate: the true failure rate of the traffic is below a bound, by an imperfect judge and a few labels.

People's verdicts are taken as the truth. The judge's verdicts divide the traffic into two parts, those it fails and
those it passes, with shares q that are known from all its scores. Labels, drawn at random with known probabilities,
tell how much of each part people fail. With r the weighted rate of failures among a part's labels and U its upper
limit,

    rate = Σ q r,    upper = rate + √ (Σ q² (U - r)² + z² v (r_fails - r_passes)²)

where v is the variance of q. U is the exact binomial limit (Clopper and Pearson 1934) at the effective number of
labelled conversations (Korn and Graubard 1998). That number is below the count, as unequal weights tell less and labels
of one conversation may all be alike. The parts' limits are combined by the method of variance estimates recovery (Zou
and Donner 2008). The rate is certified if `upper`, at 95 % on one side, is below the bound. A normal limit would not
do: with a rate of a few percent and a hundred labels, the failures are too few to show their own spread. Dividing by
the judge's sensitivity + specificity - 1 (Rogan and Gladen 1978) would not do either, since a weak judge makes that
arbitrarily uncertain. A weak judge widens this limit at most to the labels' own, and never makes it wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.statistics.conversations import by_conversation

CONFIDENCE = 0.95
"""The one-sided confidence of the upper limit: a rate at the bound is certified in at most one case of twenty."""
_Z = 1.644854
_STEPS = 200
_TINY = 1e-300
_ENOUGH = 1e-14


class VerdictPair(NamedTuple):
    """Whether the judge fails a subject, whether a person does, and the subject's weight."""

    judge_fails: bool
    human_fails: bool
    weight: float = 1.0
    conversation: str = ""


class JudgedVerdict(NamedTuple):
    """Whether the judge fails a subject, and the subject's weight."""

    fails: bool
    weight: float = 1.0
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The estimate of the true failure rate. `judged` is the rate by the judge alone, `labels` the number of labels."""

    bound: float
    rate: float
    upper: float
    judged: float
    labels: int

    @property
    def certified(self) -> bool:
        """Whether the rate is certified to be below the bound."""
        return self.upper < self.bound


def certify(labels: Sequence[VerdictPair], judged: Sequence[JudgedVerdict], bound: float) -> Certificate:
    """The certificate by labels that were drawn at random; at least one label and one judged verdict are needed."""
    total = math.fsum(verdict.weight for verdict in judged)
    failing = math.fsum(verdict.weight for verdict in judged if verdict.fails) / total
    residuals = (sum(one.weight * (one.fails - failing) for one in each) for each in by_conversation(judged))
    variance = math.fsum(residual**2 for residual in residuals) / total**2
    parts = [_part([pair for pair in labels if pair.judge_fails is fails]) for fails in (True, False)]
    shares = (failing, 1.0 - failing)
    rate = math.fsum(share * part_rate for share, (part_rate, _) in zip(shares, parts, strict=True))
    squares = math.fsum((share * (limit - part)) ** 2 for share, (part, limit) in zip(shares, parts, strict=True))
    squares += _Z**2 * variance * (parts[0][0] - parts[1][0]) ** 2
    return Certificate(bound, rate, min(1.0, rate + math.sqrt(squares)), failing, len(labels))


def _part(labels: Sequence[VerdictPair]) -> tuple[float, float]:
    """The weighted rate of failures, and its upper limit, which is 1 without labels."""
    if not labels:
        return 0.5, 1.0
    total = math.fsum(pair.weight for pair in labels)
    rate = math.fsum(pair.weight for pair in labels if pair.human_fails) / total
    number = total**2 / math.fsum(sum(pair.weight for pair in each) ** 2 for each in by_conversation(labels))
    return rate, upper_limit(rate * number, number)


def upper_limit(failures: float, number: float, confidence: float = CONFIDENCE) -> float:
    """The upper limit of the rate of `failures` among `number`; neither needs to be a whole number."""
    if failures >= number - _ENOUGH:
        return 1.0
    low, high = failures / number, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if high - low < _ENOUGH:
            break
        if incomplete_beta(failures + 1.0, number - failures, middle) < confidence:
            low = middle
        else:
            high = middle
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 1964, 26.5.8)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / (a * _fraction(a, b, x))


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1 / (1 + d2 / (1 + …)), from its beginning on (Lentz 1976)."""
    value = c = 1.0
    d = 0.0
    for number in range(1, _STEPS * 5):
        half, odd = divmod(number, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + number - 1) * (a + number))
        else:
            term = half * (b - half) * x / ((a + number - 1) * (a + number))
        d = 1.0 / ((1.0 + term * d) or _TINY)
        c = (1.0 + term / c) or _TINY
        value *= c * d
        if abs(c * d - 1.0) < _ENOUGH:
            break
    return value
