"""What a plan predicts, against days that the real sampling, judges, audits and sums make of made-up traffic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from statistics import fmean, stdev
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from collector.commands.plan.past_figures import PricedEvaluation, figures_of, with_second_phase
from collector.commands.plan.plan import priced_evaluation
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan, evaluation_of
from collector.evaluate.planned_rates.learned_figures import DayFigures
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.logs.log import StoredRecord
from collector.records.json import turn_to_json
from collector.statistics.audited_sums import AuditedSums, totals_of
from evaluators.cases import Turn
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.judge import Answer, Judge, Prompt, Verdict
from evaluators.judges.audited import Audited
from evaluators.results import Evaluation, Score

pytestmark = pytest.mark.long

MOMENT = datetime(2026, 11, 1, tzinfo=UTC)
STRATA = ("all", "error")


class Opinion(BaseModel):
    """What the judges answer; the scores are those of the turn."""


class Graded(Evaluator[Turn]):
    """The score that a turn has for its judge."""

    kind: ClassVar[str] = "graded_by_turn"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        await judge.ask(Prompt("Grade.", {"turn": case.turn_id}), Opinion)
        return Score(value=float(str(case.attributes[judge.model])))


@dataclass
class Stub:
    """A judge with a price, and a bill."""

    model: str
    usd: float
    bill: float = 0.0

    async def ask(self, *_arguments: Any, **_named: Any) -> Verdict[Opinion]:
        self.bill += self.usd
        return Verdict([Answer(Opinion(), "{}")], self.model, cost_usd=self.usd)


CHEAP, STRONG = Stub("cheap", 0.001), Stub("strong", 0.01)


def conversation(chance: random.Random, name: str) -> Iterator[Turn]:
    """One to four turns that are alike, where errors score lower and vary more."""
    mood = chance.gauss(0.0, 0.2)
    for number in range(chance.randint(1, 4)):
        error = chance.random() < 0.15
        centre, width = (0.45, 0.2) if error else (0.75, 0.08)
        strong = min(1.0, max(0.0, centre + mood + chance.gauss(0.0, width)))
        cheap = min(1.0, max(0.0, strong + chance.gauss(0.05, 0.1)))
        yield Turn(
            turn_id=f"{name}-{number}",
            conversation_id=name,
            input="How do I pay?",
            actual_output="By card or by transfer.",
            error="boom" if error else None,
            attributes={"cheap": cheap, "strong": strong},
        )


def monitor(rate: float, boost: float, share: float, cheap: Stub, strong: Stub) -> Monitor:
    judge = Audited(cheap, strong, share)
    return Monitor(
        name="all",
        assignments=(Assignment(Graded(name="graded"), judge, "v", judge_name="cheap"),),
        match={},
        rate=rate,
        strata=Strata((Boost("error", boost, failed),)),
    )


async def day(seed: int, conversations: int, watch: Monitor) -> list[Evaluation]:
    """What is judged of so many conversations, each of which comes whole."""
    chance = random.Random(seed)
    state = PartitionState(Plan((watch,), salt=f"day {seed}"), ReplayPoint(0))
    made: list[Evaluation] = []
    turns = (turn for number in range(conversations) for turn in conversation(chance, f"{seed}-{number}"))
    for offset, turn in enumerate(turns):
        record = StoredRecord(0, offset, MOMENT.timestamp(), None, turn_to_json(turn))
        made += [await judged(job) for job in await state.apply(record)]
    return made


async def judged(job: Job) -> Evaluation:
    case = job.case()
    return evaluation_of(job, case, await evaluate(job.assignment.evaluator, case, job.judge, now=lambda: MOMENT))


def days(number: int, conversations: int, watch: Monitor, first: int = 0) -> list[list[PricedEvaluation]]:
    async def run() -> list[list[PricedEvaluation]]:
        made = [await day(first + seed, conversations, watch) for seed in range(number)]
        auditors = {each.evaluator.name: each.audit_version for each in watch.assignments}
        return [[priced_evaluation(auditors, each) for each in of] for of in made]

    return asyncio.run(run())


def learnt(number: int, conversations: int, watch: Monitor) -> DayFigures:
    """The figures of so many days, told apart by their times."""
    made = days(number, conversations, watch)
    past = [
        PricedEvaluation(
            time=86_400.0 * (index + place / max(1, len(of) - 1)) * 0.9999,
            conversation=each.conversation,
            stratum=each.stratum,
            weight=each.weight,
            score=each.score,
            usd=each.usd,
            audit=each.audit,
            was_audited=each.was_audited,
        )
        for index, of in enumerate(made)
        for place, each in enumerate(of)
    ]
    figures = figures_of(past, STRATA)
    assert figures.audit_usd == pytest.approx(STRONG.usd)
    whole = with_second_phase(figures.day, figures.pairs, figures.audit_usd)
    assert whole is not None
    return whole


def truth() -> float:
    chance = random.Random(7)
    return fmean(float(str(each.attributes["strong"])) for _ in range(20_000) for each in conversation(chance, "any"))


def drawn(
    made: Sequence[Sequence[PricedEvaluation]], number: int, conversations: int
) -> Iterator[list[PricedEvaluation]]:
    """So many days of conversations that are drawn from all those of some days: they are judged independently."""
    known = [list(group) for of in made for _, group in groupby(of, key=lambda each: each.conversation)]
    judged_share, chance = len(known) / (len(made) * conversations), random.Random(3)
    for place in range(number):
        chosen = [chance.choice(known) for _ in range(conversations) if chance.random() < judged_share]
        yield [replace(each, conversation=f"{place} {copy}") for copy, group in enumerate(chosen) for each in group]


def own_mean(of: Sequence[PricedEvaluation]) -> float:
    return sum(each.weight.full * (each.score or 0.0) for each in of) / sum(each.weight.full for each in of)


def audited_mean(of: Sequence[PricedEvaluation]) -> float:
    conversations = (list(group) for _, group in groupby(of, key=lambda each: each.conversation))
    sums = AuditedSums.of(
        [
            sum(each)
            for each in zip(*(totals_of(one.weight.full, one.score or 0.0, one.audit) for one in of), strict=True)
        ]
        for of in conversations
    )
    corrected = sums.corrected()
    assert corrected is not None
    return corrected.mean


def test_errors_and_bills_of_other_rates_are_as_predicted():
    """The past had other rates and another share; what is predicted of new ones is measured on 45 days of 400
    conversations, and its error on 250 days that are drawn from these."""
    past = learnt(25, 400, monitor(0.3, 2.0, 0.2, CHEAP, STRONG))
    cheap, strong = Stub("cheap", CHEAP.usd), Stub("strong", STRONG.usd)
    rates, share = (0.2, 0.7), 0.35
    made = days(45, 400, monitor(rates[0], rates[1] / rates[0], share, cheap, strong), first=1000)
    many = list(drawn(made, 250, 400))
    audited = [audited_mean(each) for each in many]
    assert past.error(rates, share) == pytest.approx(stdev(audited), rel=0.1)
    assert fmean(map(audited_mean, made)) == pytest.approx(truth(), abs=2 * past.error(rates, share) / len(made) ** 0.5)
    assert (cheap.bill + strong.bill) / len(made) == pytest.approx(past.cost(rates, share), rel=0.03)
    own = [own_mean(each) for each in many]
    alone = DayFigures(
        subjects=past.subjects, arrived=past.arrived, usd=past.usd, squares=past.squares, products=past.products
    )
    assert alone.error(rates) == pytest.approx(stdev(own), rel=0.1)
    assert cheap.bill / len(made) == pytest.approx(alone.cost(rates), rel=0.03)
