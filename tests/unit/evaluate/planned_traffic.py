"""Made-up traffic for `sample: auto`, through the real draws, strata, controller and sums of means."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import orjson

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.rates import UNPLANNED, Rates
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.logs.log import partition_of
from collector.records.audits import AuditScore
from collector.statistics.audited_sums import SUM_NAMES, AuditedSums, growth, totals_of
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.judges.audited import Audited
from evaluators.results import Evaluation, Sampling, Score, Subject

DAY, STEP = 86_400.0, 60.0
BEGIN = 1_760_054_400.0
ERROR = 0.02
FINE, FAILED = Turn(turn_id="fine"), Turn(turn_id="failed", error="boom")


class Graded(Evaluator[Turn]):
    """Stands for a judge's evaluator; the simulation gives its scores."""

    kind: ClassVar[str] = "graded_by_simulation"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        raise NotImplementedError


class Unasked:
    """A judge that is never asked."""

    def __init__(self, model: str) -> None:
        self.model = model

    async def ask(self, *_arguments: Any, **_named: Any) -> Any:
        raise NotImplementedError


@dataclass
class DayOfMeans:
    """The truth of a day, and what the sums of the judged say of it."""

    truths: list[float] = field(default_factory=list[float])
    sums: AuditedSums = field(default_factory=AuditedSums)
    judged: int = 0

    def own(self) -> tuple[float, float]:
        """The mean of the scores and its standard error, as they are reported."""
        names = ("w", "wx", "w_w", "w_wx", "wx_wx")
        w, wy, w2, w2y, w2y2 = (self.sums.values[SUM_NAMES.index(each)] for each in names)
        mean = wy / w
        return mean, math.sqrt(max(0.0, w2y2 - 2.0 * mean * w2y + mean * mean * w2)) / w

    def audited(self) -> tuple[float, float]:
        """The mean by the audits and its standard error, as they are reported."""
        corrected = self.sums.corrected()
        assert corrected is not None
        return corrected.mean, corrected.error


def traffic(chance: random.Random, day: int, per_day: int) -> Iterator[tuple[float, str, list[tuple[Turn, float]]]]:
    """Conversations of a day with their times and names: few at night, worse then, and one to four turns that are
    alike, of which errors are worse and vary more."""
    times = sorted(_moment(chance) for _ in range(per_day))
    for number, at in enumerate(times):
        mood = chance.gauss(0.0, 0.2) - 0.1 * math.cos(2.0 * math.pi * at)
        turns: list[tuple[Turn, float]] = []
        for _ in range(chance.randint(1, 4)):
            error = chance.random() < 0.1
            centre, width = (0.4, 0.25) if error else (0.75, 0.1)
            turns.append((FAILED if error else FINE, min(1.0, max(0.0, centre + mood + chance.gauss(0.0, width)))))
        yield BEGIN + DAY * (day + at), f"{day}-{number}", turns


def _moment(chance: random.Random) -> float:
    """Parts of a day, most of them around noon."""
    while True:
        at = chance.random()
        if chance.random() < 0.55 - 0.45 * math.cos(2.0 * math.pi * at):
            return at


def monitor(share: float | None = None) -> Monitor:
    judge: Judge = Unasked("cheap")
    if share is not None:
        judge = Audited(judge, Unasked("strong"), share)
    return Monitor(
        name="m",
        assignments=(Assignment(Graded(name="graded"), judge, "v", judge_name="cheap"),),
        match={},
        standard_error=ERROR,
        strata=Strata((Boost("error", 3.0, failed),)),
    )


def run(
    seed: int, days: int, per_day: int, *, share: float | None = None, partitions: int = 1, restarts: bool = False
) -> list[DayOfMeans]:
    """Days of one service: partitions are two processes' from the second on, and restarts come twice a day."""
    chance, watch = random.Random(seed), monitor(share)
    plan = Plan((watch,), salt=f"{seed}")
    controllers = [BudgetController(plan, partitions) for _ in range(min(2, partitions))]
    for each in range(partitions):
        controllers[each % len(controllers)].add_partition(each, BEGIN, None, ())
    rates: list[Rates] = [Rates({"m": UNPLANNED})] * partitions
    made: list[DayOfMeans] = []
    restart_at = BEGIN + DAY / 2.0
    for day in range(days):
        of = DayOfMeans()
        for now, name, turns in traffic(chance, day, per_day):
            if restarts and now > restart_at:
                restart_at += DAY / 2.0
                controllers = _restarted(controllers, plan, partitions, now)
            partition = partition_of(name.encode(), partitions)
            controller = controllers[partition % len(controllers)]
            if controller.is_decision_due(partition, now):
                rates[partition], _ = controller.decide_rates(partition, now)
            _judge(of, controller, partition, plan, rates[partition].of("m").factor, name, turns, now, chance)
        made.append(of)
    return made


def _restarted(
    controllers: Sequence[BudgetController], plan: Plan, partitions: int, now: float
) -> list[BudgetController]:
    """New processes, with what the old ones saved as JSON; each partition is another one's now."""
    made = [BudgetController(plan, partitions) for _ in controllers]
    for each in range(partitions):
        saved = orjson.loads(orjson.dumps(controllers[each % len(controllers)].saved(each)))
        made[each % len(made)].add_partition(each, now, saved, ())
    return made


def _judge(
    of: DayOfMeans,
    controller: BudgetController,
    partition: int,
    plan: Plan,
    factor: float,
    name: str,
    turns: Sequence[tuple[Turn, float]],
    now: float,
    chance: random.Random,
) -> None:
    (watch,) = plan.monitors
    (assignment,) = watch.assignments
    drawn, totals = plan.draw(assignment, name), (0.0,) * 5
    for turn, score in turns:
        of.truths.append(score)
        boost, stratum = watch.strata.of(turn, {})
        controller.add_demand(partition, watch, assignment, watch.probability(assignment, 1.0, boost))
        probability = watch.probability(assignment, factor, boost)
        noisy = min(1.0, max(0.0, score + chance.gauss(0.05, 0.1)))
        share = assignment.judge.share if isinstance(assignment.judge, Audited) else None
        is_audited = share is not None and chance.random() < share
        if drawn >= probability:
            continue
        of.judged += 1
        audit = AuditScore(score, share) if is_audited and share is not None else None
        cheap = score if share is None else noisy
        totals = tuple(map(float.__add__, totals, totals_of(1.0 / probability, cheap, audit)))
        controller.learn(partition, JOB, _evaluation(name, cheap, probability, stratum, audit, now))
    of.sums += growth((0.0,) * 5, totals)


MOMENT = datetime(2026, 11, 1, tzinfo=UTC)
EVALUATION = Evaluation(
    evaluation_id="e", subject=Subject(conversation_id="c"), scope="turn", monitor="m", evaluator="graded",
    evaluator_version="v", outcome="scored", score=0.5, sampling=Sampling(), started_at=MOMENT, ended_at=MOMENT,
)  # fmt: skip
JOB = Job(
    evaluation_id="e", monitor=monitor(), assignment=monitor().assignments[0], case=lambda: FINE,
    replay_point=ReplayPoint(0), trigger_offset=0,
)  # fmt: skip


def _evaluation(
    name: str, score: float, probability: float, stratum: str, audit: AuditScore | None, now: float
) -> Evaluation:
    details: dict[str, Any] = {}
    if audit is not None:
        details["audit"] = {"score": audit.score, "probability": audit.probability}
    return replace(
        EVALUATION,
        subject=Subject(conversation_id=name),
        score=score,
        sampling=Sampling(probability=probability, stratum=stratum),
        details=details,
        ended_at=datetime.fromtimestamp(now, UTC),
    )
