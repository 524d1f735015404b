"""The mean by an expensive judge, which scores a random part of what a cheap judge scores: sums, on a stream.

Let k = 1 / sampling probability, x the cheap score, and y the expensive score of a subject that is drawn for an audit
with probability p. Each conversation has five totals,

    a = Σ k/p,  ay = Σ k/p · y,  ax = Σ k/p · x  over its audited scores,   w = Σ k,  wx = Σ k · x  over all its scores.

The sums of these over conversations (A, AY, AX, W, WX), and the sums of all fifteen products of two totals, are
counters: no term is negative, replicas add up, and the growth in a window is exact. With R_y = AY / A, R_x = AX / A,
X = WX / W,

    mean = R_y - λ (R_x - X) + Σ a ((ay - λ ax) - (R_y - λ R_x) a) / A²
    u = ((ay - R_y a) / A) - λ ((ax - R_x a) / A - (wx - X w) / W)  for each conversation
    error = √ (max(Σ u² · m / (m - 2), c) + v / m),  m = A² / Σ a²,  v = `VARIANCE_FLOOR`

λ makes Σ u² smallest, so with the cheap score the mean is never less sure than by the audits alone, up to 1 / m. This
is the power-tuned prediction-powered mean (PPI++, Angelopoulos, Duchi and Zrnic 2023) with weights and clusters, which
is the regression estimator of two-phase sampling (Särndal, Swensson and Wretman 1992, ch. 9) with Hájek's ratios and
Taylor's variance. u accounts for the overlap of audited and all scores, since it has both parts of a conversation. The
sum at the end of `mean` removes the ratio's own bias (Tin 1965), which is of order 1 / m. m is the effective number of
audited conversations (Kish). If two judges mostly agree, a few audits may see no disagreement, so that u is 0. Then c
stands for `UNSEEN` disagreements in m audits: c = UNSEEN · s / m², with s the variance of the expensive score as a
share of the largest that its mean allows.

`gain` is the worth of the cheap score: without it (λ = 0), `gain` times as many audits would be needed for the same
error. In theory it is 1 / (1 - ρ² (1 - n/N)), with ρ the correlation of both scores and n/N the audited share.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

from collector.records.audits import FEWEST_AUDITS, AuditScore
from collector.statistics.bounded_sums import VARIANCE_FLOOR, Sums, Weight
from collector.statistics.conversations import PAUSE, Conversations, fading
from collector.statistics.intervals import UNSEEN, MeanInterval, mean_interval
from evaluators.results import Sampling

TOTALS = ("a", "ay", "ax", "w", "wx")
"""The totals of a conversation, in their order."""
PRODUCTS = tuple(combinations_with_replacement(range(len(TOTALS)), 2))
SUM_NAMES = (*TOTALS, *(f"{TOTALS[one]}_{TOTALS[other]}" for one, other in PRODUCTS))
"""The names of all sums: first of the totals, then of the products of two totals, like `a_ay`."""
PEOPLE_WINDOW = 7 * 86_400.0
"""The length (s) of the window of labels that correct a mean; they correct the mean of the same window."""
LOGGED = "logged"
"""The name, beside `SUM_NAMES`, of the weight of all scores that the log has of that window, whatever their version."""
_FLAT = 1e-12
"""Below this variance, the cheap mean tells nothing."""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean by the expensive judge with its standard error.

    `power` is the λ of the module's formula, `audits` the effective number of audited conversations. Without the cheap
    judge, `gain` times as many would be needed for this error.
    """

    mean: float
    error: float
    power: float
    audits: float
    gain: float

    @property
    def interval(self) -> MeanInterval:
        """The 95 % interval of the mean."""
        return mean_interval(self.mean, self.error, self.audits)

    @property
    def worth(self) -> float:
        """The number of audits that would give the same error without the cheap judge."""
        return self.audits * self.gain


def audit_name(evaluator: str) -> str:
    """The name of an evaluator's series by audits, as in `helpful:audit`."""
    return f"{evaluator}:audit"


def scored_name(name: str) -> str:
    """The evaluator in the name of a series by audits: `helpful` for `helpful:audit`; any other name unchanged."""
    return name.removesuffix(audit_name(""))


def people_name(evaluator: str) -> str:
    """The name of an evaluator's series by people's labels, as in `helpful:people`, with or without audits."""
    return f"{scored_name(evaluator)}:people"


def audited_weight(sampling: Sampling, audit: AuditScore) -> Weight:
    """The weight of an audit: the weight of its evaluation, divided by the probability of the audit's draw."""
    weight = Weight.of(sampling)
    return Weight(weight.full / audit.probability, weight.own / audit.probability, weight.rate)


@dataclass(frozen=True, slots=True)
class AuditedSums:
    """The twenty sums over conversations, or their growth, in the order of `SUM_NAMES`."""

    values: tuple[float, ...] = (0.0,) * len(SUM_NAMES)

    def __add__(self, other: "AuditedSums") -> "AuditedSums":
        return AuditedSums(tuple(map(float.__add__, self.values, other.values)))

    @classmethod
    def of(cls, conversations: Iterable[Sequence[float]]) -> "AuditedSums":
        """The sums of whole conversations, each with its five totals."""
        return sum((growth((0.0,) * len(TOTALS), conversation) for conversation in conversations), cls())

    @property
    def audits(self) -> float:
        """The effective number of audited conversations; 0 without any."""
        sums = dict(zip(SUM_NAMES, self.values, strict=True))
        return sums["a"] ** 2 / sums["a_a"] if sums["a_a"] else 0.0

    def corrected(self, *, fewest: float = FEWEST_AUDITS) -> CorrectedMean | None:
        """The mean by the expensive judge; None with fewer effective audits than `fewest`, which is above 2."""
        audits = self.audits
        if audits < max(fewest, 2.0) or audits <= 2.0:
            return None
        s = dict(zip(SUM_NAMES, self.values, strict=True))
        r_y, r_x, x = s["ay"] / s["a"], s["ax"] / s["a"], s["wx"] / s["w"]
        alone = _product(s, ("ay", r_y, "a"), ("ay", r_y, "a")) / s["a"] ** 2
        shared = (
            _product(s, ("ay", r_y, "a"), ("ax", r_x, "a")) / s["a"] ** 2
            - _product(s, ("ay", r_y, "a"), ("wx", x, "w")) / s["a"] / s["w"]
        )
        spread = (
            _product(s, ("ax", r_x, "a"), ("ax", r_x, "a")) / s["a"] ** 2
            - 2.0 * _product(s, ("ax", r_x, "a"), ("wx", x, "w")) / s["a"] / s["w"]
            + _product(s, ("wx", x, "w"), ("wx", x, "w")) / s["w"] ** 2
        )
        power = shared / spread if spread > _FLAT else 0.0
        ratio = r_y - power * r_x
        bias = (s["a_ay"] - power * s["a_ax"] - ratio * s["a_a"]) / s["a"] ** 2
        squares, floor = max(0.0, alone - power * shared), VARIANCE_FLOOR / audits
        unseen = UNSEEN * max(0.0, alone) / (audits * (r_y * (1.0 - r_y) + _FLAT))
        return CorrectedMean(
            mean=ratio + power * x + bias, error=math.sqrt(max(squares * audits / (audits - 2.0), unseen) + floor),
            power=power, audits=audits, gain=(max(0.0, alone) + floor) / (squares + floor),
        )  # fmt: skip


def sums_of_scores(sums: Sums) -> AuditedSums:
    """The sums of scores without audits."""
    known = {"w": sums.w, "wx": sums.wy, "w_w": sums.w2, "w_wx": sums.w2y, "wx_wx": sums.w2y2}
    return AuditedSums(tuple(known.get(name, 0.0) for name in SUM_NAMES))


def corrected_by_people(labels: AuditedSums, by_audits: CorrectedMean) -> CorrectedMean | None:
    """The mean by audits, corrected by labels that people gave to a random part of the audited subjects.

    λ is computed as if the mean by audits had no error. Then the covariance of that mean with its labelled part cancels
    in Var(R_y - λ R_x) + λ² error². None with too few labels.
    """
    people = (labels + sums_of_scores(Sums(1.0, by_audits.mean, 1.0, by_audits.mean, by_audits.mean**2))).corrected()
    if people is None:
        return None
    floor, base = VARIANCE_FLOOR / people.audits, (people.power * by_audits.error) ** 2
    variance = (people.error**2 - floor) * (people.audits - 2.0) / people.audits + floor
    return replace(people, error=math.sqrt(people.error**2 + base), gain=people.gain * variance / (variance + base))


Residual = tuple[str, float, str]
"""A total minus a factor times another total: `("ay", mean, "a")` is ay - mean · a."""


def _product(sums: Mapping[str, float], one: Residual, other: Residual) -> float:
    """The sum over conversations of the product of two residuals."""
    return (
        _sum_of(sums, one[0], other[0])
        - other[1] * _sum_of(sums, one[0], other[2])
        - one[1] * _sum_of(sums, one[2], other[0])
        + one[1] * other[1] * _sum_of(sums, one[2], other[2])
    )


def _sum_of(sums: Mapping[str, float], one: str, other: str) -> float:
    return sums[product_name(one, other)]


def product_name(one: str, other: str) -> str:
    """The name of the sum of products of two totals, given in any order."""
    return "_".join(sorted((one, other), key=TOTALS.index))


def growth(before: Sequence[float], more: Sequence[float]) -> AuditedSums:
    """The growth of the sums when a conversation's totals grow from `before` by `more`; none of it is negative."""
    return AuditedSums((*more, *_products(before, more)))


def _products(before: Sequence[float], more: Sequence[float]) -> Iterator[float]:
    for one, other in PRODUCTS:
        yield before[one] * more[other] + before[other] * more[one] + more[one] * more[other]


def totals_of(weight: float, score: float, audit: AuditScore | None) -> tuple[float, ...]:
    """The amount that a cheap score of this weight adds to the totals of its conversation."""
    audited = weight / audit.probability if audit is not None else 0.0
    return audited, audited * (0.0 if audit is None else audit.score), audited * score, weight, weight * score


@dataclass(slots=True)
class _Totals:
    values: tuple[float, ...] = (0.0,) * len(TOTALS)


class AuditedClusters:
    """The sums of the scores of recent conversations, by series, as in `collector.statistics.conversations`."""

    def __init__(self, *, capacity: int = 100_000, pause: float = PAUSE) -> None:
        self._totals = Conversations(_Totals, capacity=capacity, pause=pause)

    def __len__(self) -> int:
        return len(self._totals)

    def add(self, key: Hashable, *, weight: float, score: float, audit: AuditScore | None, time: float) -> AuditedSums:
        """Add a cheap score in [0, 1] of the conversation `key`, made at `time` (s), with its audit if it has one."""
        (of, passed), more = self._totals.visit(key, time), totals_of(weight, score, audit)
        left = fading(passed)
        before = tuple(left * total for total in of.values)
        of.values = tuple(map(float.__add__, before, more))
        return growth(before, more)
