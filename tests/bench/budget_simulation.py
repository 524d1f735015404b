"""A day of traffic under a budget, 400 times, through the real sampling and controller: `python tests/bench/budget_simulation.py`.

6 to 54 turns a minute with three bursts of four times as much; quality falls under load; 4 % of the turns are errors,
worse, and boosted. Shown are the bias of the weighted mean of the day, how often its 95 % interval covers the truth,
the money spent, and beside it what forgetting the weights does. With `split` the traffic goes over 8 partitions of three
processes, each of which holds its own share of the budget: `python tests/bench/budget_simulation.py 200 split`.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.rates import FULL_RATES, Rates
from collector.evaluate.budget.windows import Budget
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.logs.log import partition_of
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.results import Score

MINUTES = 1440
EVALUATIONS_PER_HOUR = 240
USD = 0.004
LIMITS = Budget(usd_per_hour=EVALUATIONS_PER_HOUR * USD, hard_cap=1.25)
BEGIN = 1_760_000_400.0  # a full hour


class Graded(Evaluator[Turn]):
    """Stands for a judge's evaluator; the simulation gives its scores."""

    kind: ClassVar[str] = "graded"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        raise NotImplementedError


class Named:
    """A judge that is never asked."""

    model = "m"

    async def ask(self, *_arguments: Any, **_named: Any) -> Any:
        raise NotImplementedError


FINE = Turn(turn_id="fine")
FAILED = Turn(turn_id="failed", error="boom")


@dataclass(frozen=True)
class Day:
    """What came of one simulated day; money as a share of the budget."""

    bias: float
    covered: bool
    unweighted_bias: float
    unweighted_covered: bool
    spent: float
    worst_hour: float
    refused: int
    judged: int


def load(chance: random.Random) -> list[float]:
    per_minute = [30 * (1 + 0.8 * math.sin(2 * math.pi * (minute / MINUTES - 0.25))) for minute in range(MINUTES)]
    for _ in range(3):
        start = chance.randrange(MINUTES - 60)
        for minute in range(start, start + 40):
            per_minute[minute] *= 4
    return per_minute


def poisson(chance: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


class Sums:
    """Sums of w, wy, w², w²y, w²y²: the mean and its error, as the exporters give them."""

    def __init__(self) -> None:
        self.w = self.wy = self.w2 = self.w2y = self.w2y2 = 0.0

    def add(self, w: float, y: float) -> None:
        self.w += w
        self.wy += w * y
        self.w2 += w * w
        self.w2y += w * w * y
        self.w2y2 += w * w * y * y

    def interval(self) -> tuple[float, float]:
        mean = self.wy / self.w
        return mean, 1.96 * math.sqrt(max(0.0, self.w2y2 - 2 * mean * self.w2y + mean * mean * self.w2)) / self.w


def day(seed: int, partitions: int = 1, processes: int = 1) -> Day:
    chance = random.Random(seed)
    assignment = Assignment(Graded(name="graded"), Named(), "v", expected_usd=USD * 1.5)
    strata = Strata((Boost("error", 4.0, failed),))
    monitor = Monitor(name="m", assignments=(assignment,), match={}, budget=LIMITS, strata=strata)
    plan = Plan((monitor,), salt=f"day {seed}")
    purses = [BudgetController(plan, partitions) for _ in range(processes)]
    for each in range(partitions):
        purses[each % processes].add_partition(each, BEGIN, None, ())
    rates: list[Rates] = [FULL_RATES] * partitions
    weighted, plain = Sums(), Sums()
    truth, count, spent, refused = 0.0, 0, [0.0] * 24, 0
    for minute, mean in enumerate(load(chance)):
        quality = 0.85 - 0.12 * min(2.0, mean / 60) / 2 - 0.03 * (minute % 60 > 40)
        arrivals = poisson(chance, mean)
        for number in range(arrivals):
            now = BEGIN + 60.0 * (minute + number / arrivals)
            partition = partition_of(f"{minute}-{number}".encode(), partitions)
            purse = purses[partition % processes]
            if purse.is_decision_due(partition, now):
                rates[partition], _ = purse.decide_rates(partition, now)
            turn = FAILED if chance.random() < 0.04 else FINE
            score = min(1.0, max(0.0, quality - 0.35 * (turn is FAILED) + 0.25 * chance.gauss(0, 1)))
            truth += score
            count += 1
            boost, _ = monitor.strata.of(turn, {})
            purse.add_demand(partition, monitor, assignment, monitor.probability(assignment, 1.0, boost))
            probability = monitor.probability(assignment, rates[partition].of("m").factor, boost)
            if plan.draw(assignment, f"{minute}-{number}") >= probability:
                continue
            job = Job(
                evaluation_id=f"{minute}-{number}", monitor=monitor, assignment=assignment, case=lambda: FINE,
                replay_point=ReplayPoint(0), trigger_offset=0,
            )  # fmt: skip
            if not purse.reserve(job, now):
                refused += 1
                continue
            usd = USD * chance.lognormvariate(-0.045, 0.3)
            purse.settle(job, partition, usd, now)
            spent[minute // 60] += usd
            weighted.add(1 / probability, score)
            plain.add(1.0, score)
    mean, half = weighted.interval()
    plain_mean, plain_half = plain.interval()
    budget = EVALUATIONS_PER_HOUR * USD
    return Day(
        mean - truth / count,
        abs(mean - truth / count) <= half,
        plain_mean - truth / count,
        abs(plain_mean - truth / count) <= plain_half,
        sum(spent) / (24 * budget),
        max(spent) / budget,
        refused,
        round(plain.w),
    )


def report(days: Sequence[Day], *, split: bool) -> None:
    share = lambda flags: sum(flags) / len(days)  # noqa: E731
    mean = statistics.fmean
    print(f"{len(days)} days of about {mean(d.judged for d in days):,.0f} evaluations")
    print(
        f"weighted    bias {mean(d.bias for d in days):+.4f}  95 % interval covers in {share([d.covered for d in days]):.1%}"
    )
    print(
        f"unweighted  bias {mean(d.unweighted_bias for d in days):+.4f}  95 % interval covers in {share([d.unweighted_covered for d in days]):.1%}"
    )
    spent = [d.spent for d in days]
    print(f"spent a day {mean(spent):.4f} of the budget (from {min(spent):.4f} to {max(spent):.4f})")
    worst = sorted(d.worst_hour for d in days)
    print(
        f"worst hour  {mean(worst):.3f} of the budget (95 % of days below {worst[int(0.95 * len(worst))]:.3f}, at most {worst[-1]:.3f})"
    )
    print(f"refused at the hard cap: {sum(d.refused for d in days)} of {sum(d.judged + d.refused for d in days):,}")
    assert abs(mean(d.bias for d in days)) < 0.005
    assert 0.93 <= share([d.covered for d in days]) <= 0.97
    assert all(each <= 1.02 and (split or each >= 0.98) for each in spent)
    assert worst[-1] <= (1.2 if split else 1.15)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    split = "split" in sys.argv
    simulate = partial(day, partitions=8, processes=3) if split else day
    with ProcessPoolExecutor() as pool:
        report(list(pool.map(simulate, range(runs), chunksize=5)), split=split)


if __name__ == "__main__":
    main()
