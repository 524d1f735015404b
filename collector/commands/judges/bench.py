"""The figures of judges on labelled cases: agreement, repeatability, price, time; and which judge is enough. Pure.

The loss of a judge in a case: 0 if its verdict is people's, else 1; a label's verdict is its side of the middle. If the
evaluator has no verdicts, the loss is the distance of the two scores. Agreement is 1 less its mean. Means count a case
as often as its `weight` says, so that they are of the traffic that the cases were drawn from. All 95 % intervals are
percentile bootstraps over conversations, 1,000 resamples, with a fixed seed.

A judge is enough if it is not worse than the best one for sure by more than a margin: the upper end of the interval of
the mean difference of their losses, over the cases that both scored, is at most the margin (a test of
non-inferiority), and it scores at least 95 % of the cases. The best is the one with the least mean loss here, so its
own mean flatters it a little, which makes it harder to be enough beside it.
Of judges that agree with it in every case, too, one that is enough needs 3 / margin conversations, so with fewer cases
there is no verdict: nothing is the best or enough yet.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Literal, NamedTuple

from collector.statistics.agreement import ScoreScale

ANSWERING = 0.95
"""Share of the cases that a judge must score to be enough."""
_RESAMPLES = 1000
_SEED = 7

Choice = Literal["best", "enough", "open", "worse", "silent"]
"""best: the least loss; enough: see above; open: the cases do not decide; worse: beyond the margin for sure; silent:
scores too few."""
_FIT = ("best", "enough")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval; None where there are too few cases for one."""

    value: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One evaluation of a case by a judge: its score or why there is none, US dollars (None: unknown), seconds, and
    whether it passed.
    """

    score: float | None
    error: str | None
    cost_usd: float | None
    seconds: float
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case with people's score and one judge's attempts. `cluster` is its conversation, `weight` how many subjects of
    the traffic it stands for. If people are `divided`, half of them agree with either verdict.
    """

    case: str
    cluster: str
    human: float
    attempts: Sequence[Attempt]
    weight: float = 1.0
    divided: bool = False

    @property
    def scores(self) -> list[tuple[float, bool | None]]:
        """The scores there are, each with its verdict."""
        return [(attempt.score, attempt.passed) for attempt in self.attempts if attempt.score is not None]


class Place(NamedTuple):
    """The conversation of a case, and its weight."""

    cluster: str
    weight: float


@dataclass(frozen=True, slots=True)
class LossScale:
    """How losses are computed: by `verdicts` if the evaluator has these, whatever the labels are, so that one label
    changes no other's loss; else by the distance of scores.
    """

    scale: ScoreScale
    verdicts: bool

    def loss(self, judged: JudgedCase) -> float:
        """The mean loss of a judge's attempts at a case that it has scored."""
        if self.verdicts and judged.divided:
            return 0.5
        return fmean(self._distance(score, judged.human) for score in judged.scores)

    def _distance(self, score: tuple[float, bool | None], human: float) -> float:
        return float(self.scale.fails(*score) != self.scale.is_bad(human)) if self.verdicts else abs(score[0] - human)

    def alike(self, one: tuple[float, bool | None], other: tuple[float, bool | None]) -> float:
        """How alike two scores of one case are: 1 or 0 for verdicts, 1 less their distance else."""
        if not self.verdicts:
            return 1.0 - abs(one[0] - other[0])
        return float(self.scale.fails(*one) == self.scale.fails(*other))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFigures:
    """The results of one judge. Prices are US dollars for one evaluation, None where a price is unknown.

    `behind` is by how much its mean loss is larger than the best one's. `repeatability` is how alike the judge's scores
    of one case are; None with a single attempt.
    """

    judge: str
    model: str
    cases: int
    scored: int
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    agreement: Figure | None = None
    behind: Figure | None = None
    repeatability: Figure | None = None
    cost_usd: Figure | None = None
    seconds: float | None = None
    seconds_p95: float | None = None
    choice: Choice = "silent"


@dataclass(frozen=True, slots=True)
class Bench:
    """All judges, the one with the least loss first; and the name of the one to take. It is None if nothing was scored,
    or fewer than the `fewest` cases of a verdict. Without `verdicts`, agreement is 1 less the distance of scores.
    """

    evaluator: str
    margin: float
    figures: Sequence[JudgeFigures]
    take: str | None
    fewest: int = 0
    verdicts: bool = True


def bench(
    evaluator: str, models: Mapping[str, str], judged: Mapping[str, Sequence[JudgedCase]], scale: LossScale,
    margin: float,
) -> Bench:  # fmt: skip
    """The figures of judges by their names; `judged` has the same cases for each."""
    losses = {name: {case.case: scale.loss(case) for case in cases if case.scores} for name, cases in judged.items()}
    places = {case.case: Place(case.cluster, case.weight) for cases in judged.values() for case in cases}
    means = {name: _mean(values, places) for name, values in losses.items() if values}
    whole = [name for name in means if len(losses[name]) >= ANSWERING * len(judged[name])]
    best = min(whole or means, key=means.__getitem__, default=None)
    figures = [_figures(name, models[name], cases, scale, losses[name], places) for name, cases in judged.items()]
    compared = [_compared(judge, losses, places, best, margin) for judge in figures]
    fewest = math.ceil(3.0 / max(margin, 0.001) - 1e-9)
    if best is not None and len(losses[best]) < fewest:
        compared = [replace(each, choice="open") if each.choice in _FIT else each for each in compared]
    ordered = sorted(compared, key=lambda each: math.inf if each.agreement is None else -each.agreement.value)
    return Bench(evaluator, margin, ordered, _take(ordered), fewest, scale.verdicts)


def _figures(
    name: str, model: str, cases: Sequence[JudgedCase], scale: LossScale, losses: Mapping[str, float],
    places: Mapping[str, Place],
) -> JudgeFigures:  # fmt: skip
    attempts = [attempt for case in cases for attempt in case.attempts]
    alike = {
        case.case: fmean(scale.alike(first, other) for n, first in enumerate(case.scores) for other in case.scores[:n])
        for case in cases
        if len(case.scores) > 1
    }
    costs = {case.case: fmean(attempt.cost_usd or 0.0 for attempt in case.attempts) for case in cases if case.attempts}
    priced = any(attempt.cost_usd is not None for attempt in attempts)
    times = sorted(attempt.seconds for attempt in attempts if attempt.score is not None)
    return JudgeFigures(
        judge=name, model=model, cases=len(cases), scored=len(losses),
        failures=dict(Counter(attempt.error for attempt in attempts if attempt.error is not None)),
        agreement=mean_figure({case: 1.0 - loss for case, loss in losses.items()}, places, (0.0, 1.0)),
        repeatability=mean_figure(alike, places, (0.0, 1.0)), cost_usd=mean_figure(costs, places) if priced else None,
        seconds=median(times) if times else None,
        seconds_p95=times[min(len(times) - 1, math.ceil(0.95 * len(times)) - 1)] if times else None,
    )  # fmt: skip


def _compared(
    judge_figures: JudgeFigures, losses: Mapping[str, Mapping[str, float]], places: Mapping[str, Place],
    best: str | None, margin: float,
) -> JudgeFigures:  # fmt: skip
    """The figures with the judge's place beside the best one."""
    if best is None or not losses[judge_figures.judge]:
        return judge_figures
    if judge_figures.judge == best:
        return replace(judge_figures, behind=Figure(0.0, (0.0, 0.0)), choice="best")
    both = losses[judge_figures.judge].keys() & losses[best].keys()
    behind = mean_figure(
        {case: losses[judge_figures.judge][case] - losses[best][case] for case in both}, places, (-1.0, 1.0)
    )
    if judge_figures.scored < ANSWERING * judge_figures.cases:
        return replace(judge_figures, behind=behind, choice="silent")
    return replace(judge_figures, behind=behind, choice=_choice(behind, margin))


def _choice(behind: Figure | None, margin: float) -> Choice:
    if behind is None or behind.interval is None:
        return "open"
    lowest, highest = behind.interval
    if highest <= margin:
        return "enough"
    return "worse" if lowest > margin else "open"


def _take(figures: Sequence[JudgeFigures]) -> str | None:
    """The cheapest of the best and those that are enough; the fastest of these where no price is known."""
    fit = [judge for judge in figures if judge.choice in _FIT]
    if not fit:
        return None
    if all(judge.cost_usd is not None for judge in fit):
        return min(fit, key=lambda each: each.cost_usd.value if each.cost_usd else math.inf).judge
    if all(judge.cost_usd is None for judge in fit):
        return min(fit, key=lambda each: math.inf if each.seconds is None else each.seconds).judge
    # Unpriced beside priced: nothing says which is cheaper.
    return next(judge.judge for judge in fit if judge.choice == "best")


def mean_figure(
    values: Mapping[str, float], places: Mapping[str, Place], bounds: tuple[float, float] | None = None
) -> Figure | None:
    """The weighted mean of values by case, with the interval of a bootstrap over their clusters; None without values.

    If all values are the same, there is nothing to resample. With `bounds`, between which values lie, the interval then
    reaches 3 / n further: what was never seen in n may happen as often (Hanley and Lippman-Hand 1983). n is the
    effective number of clusters (Kish).
    """
    if not values:
        return None
    sums: dict[str, tuple[float, float]] = {}
    for case, value in sorted(values.items()):  # in one order, so that the seed draws the same clusters
        place = places[case]
        total, weight = sums.get(place.cluster, (0.0, 0.0))
        sums[place.cluster] = (total + place.weight * value, weight + place.weight)
    mean = _mean(values, places)
    if len(sums) < 2:
        return Figure(mean)
    if min(values.values()) == max(values.values()):
        weights = [weight for _, weight in sums.values()]
        unseen = 3.0 * math.fsum(weight * weight for weight in weights) / math.fsum(weights) ** 2
        lowest, highest = bounds or (mean, mean)
        return Figure(mean, (max(lowest, mean - unseen), min(highest, mean + unseen)))
    return Figure(mean, _interval(list(sums.values())))


def _mean(values: Mapping[str, float], places: Mapping[str, Place]) -> float:
    return _ratio([(places[case].weight * value, places[case].weight) for case, value in values.items()])


def _interval(sums: Sequence[tuple[float, float]]) -> tuple[float, float]:
    chance = random.Random(_SEED)
    means = sorted(_ratio(chance.choices(sums, k=len(sums))) for _ in range(_RESAMPLES))
    return means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES)]


def _ratio(sums: Sequence[tuple[float, float]]) -> float:
    return math.fsum(total for total, _ in sums) / math.fsum(weight for _, weight in sums)
