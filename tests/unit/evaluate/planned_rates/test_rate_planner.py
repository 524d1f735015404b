"""The figures that are learnt, the rates that follow from them, and what is saved of them."""

from __future__ import annotations

import math
import operator
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from planned_traffic import EVALUATION, JOB, monitor

from collector.commands.plan.past_figures import PricedEvaluation, figures_of, with_second_phase
from collector.commands.plan.plan import priced_evaluation
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.division import divide
from collector.evaluate.budget.windows import Budget
from collector.evaluate.plan import Plan
from collector.evaluate.planned_rates.learned_figures import DAY, LearnedFigures, day_of
from collector.evaluate.planned_rates.rate_planner import LOWEST, RatePlanner
from collector.records.audits import AuditScore
from collector.statistics.bounded_sums import Weight
from evaluators.judges.audited import Audited
from evaluators.results import Retry, Sampling, Subject
from evaluators.testing import ScriptedJudge

WATCHED = monitor()
PLAN = Plan((WATCHED,))


def controller(partitions: int = 1, own: int | None = None, plan: Plan = PLAN) -> BudgetController:
    made = BudgetController(plan, partitions)
    for each in range(partitions if own is None else own):
        made.add_partition(each, 0.0, None, ())
    return made


def factor(of: BudgetController, now: float, partition: int = 0) -> float:
    rates, _ = of.decide_rates(partition, now)
    return rates.of("m").factor


def arrive(of: BudgetController, number: int, partition: int = 0) -> None:
    for _ in range(number):
        of.add_demand(partition, WATCHED, WATCHED.assignments[0], 1.0)


def test_before_any_score_the_rate_follows_from_what_comes_and_the_largest_variance() -> None:
    of = controller()
    assert of.limited
    assert factor(of, 60.0) == 1.0, "nothing came"
    arrive(of, 500)
    # 500 in 120 s are 360,000 a day; two of a conversation, of a variance of 1/4: 0.25 · 2 / 0.02² = 1,250 are enough
    assert factor(of, 120.0) == pytest.approx(1250 / 360_000, rel=0.01)
    arrive(of, 500_000)
    assert factor(of, 240.0) == LOWEST


def test_who_owns_a_part_of_the_partitions_takes_the_others_to_be_like_them() -> None:
    whole, part = controller(1), controller(4, own=1)
    arrive(whole, 400)
    arrive(part, 100)
    assert factor(part, 600.0) == pytest.approx(factor(whole, 600.0), rel=0.01)


def test_a_budget_that_leaves_less_counts() -> None:
    limited = replace(WATCHED, budget=Budget(usd_per_day=0.01))
    limited = replace(limited, assignments=(replace(limited.assignments[0], expected_usd=1.0),))
    of = controller(plan=Plan((limited,)))
    for _ in range(100):
        of.add_demand(0, limited, limited.assignments[0], 1.0)
    rates, _ = of.decide_rates(0, 600.0)
    assert rates.of("m").factor < 0.05 < factor_of_arrivals(100, 600.0)
    assert of.factor("m") == rates.of("m").factor


def factor_of_arrivals(number: int, seconds: float) -> float:
    of = controller()
    arrive(of, number)
    return factor(of, seconds)


def learnt(seconds: float = DAY, number: int = 6000) -> tuple[LearnedFigures, list[PricedEvaluation]]:
    """A past of conversations in two strata, judged at other rates in each half."""
    chance, figures = random.Random(4), LearnedFigures("v", ("all", "error"), 0.0)
    past: list[PricedEvaluation] = []
    for index in range(number):
        time, drawn, mood = seconds * index / number, chance.random(), chance.gauss(0.0, 0.2)
        figures.fade(time)
        rates = (0.3, 0.6) if index < number / 2 else (0.1, 0.3)
        for _ in range(chance.randint(1, 3)):
            stratum = int(chance.random() < 0.2)
            score = min(1.0, max(0.0, 0.7 - 0.3 * stratum + mood + chance.gauss(0.0, 0.1)))
            if drawn >= rates[stratum]:
                continue
            name = figures.strata[stratum]
            figures.learn(f"c{index}", Sampling(probability=rates[stratum], stratum=name), score, None, time)
            weight = Weight(1.0 / rates[stratum], 1.0 / rates[stratum])
            past.append(PricedEvaluation(time=time, conversation=f"c{index}", stratum=name, weight=weight, score=score))
    figures.fade(seconds)
    return figures, past


def test_what_is_learnt_is_what_a_plan_makes_of_the_same_past() -> None:
    figures, past = learnt()
    day, planned = day_of([figures], None), figures_of(past, figures.strata).day
    assert day is not None
    for rates in ((0.05, 0.05), (0.2, 0.6), (1.0, 1.0)):
        assert day.error(rates) == pytest.approx(planned.error(rates), rel=0.03)
    assert sum(day.subjects) == pytest.approx(sum(planned.subjects), rel=0.05)


def test_the_error_behind_a_gate_is_that_of_its_weights() -> None:
    """A gate's share counted as the planned rate: a rate of 0.3 was said to have half of the error that it has."""
    chance, figures, rate = random.Random(9), LearnedFigures("v", ("all",), 0.0), 0.3
    past: list[PricedEvaluation] = []
    for index in range(40_000):
        selected, score = index % 4 == 0, chance.random()
        own = 1.0 if selected else 0.1
        if chance.random() >= rate * own:
            continue
        sampling, time = Sampling(probability=rate).with_own_draw(own), DAY * index / 40_000
        figures.learn(f"c{index}", sampling, score, None, 0.0)
        made = replace(
            EVALUATION, subject=replace(EVALUATION.subject, conversation_id=f"c{index}"), sampling=sampling,
            score=score, ended_at=datetime.fromtimestamp(time, UTC), happened_at=None,
        )  # fmt: skip
        past.append(priced_evaluation({}, made))
    figures.fade(1.0)
    weights, scores = [each.weight.full for each in past], [each.score or 0.0 for each in past]
    mean = math.fsum(map(operator.mul, weights, scores)) / math.fsum(weights)
    squares = math.fsum((weight * (score - mean)) ** 2 for weight, score in zip(weights, scores, strict=True))
    error, planned = math.sqrt(squares) / math.fsum(weights), figures_of(past, ("all",)).day
    assert planned.error((rate,)) == pytest.approx(error, rel=0.03)
    assert sum(planned.arrived) == pytest.approx(len(past) / rate, rel=0.001), "what a whole day would judge, and pay"
    learned = day_of([figures], None, 1.0 / DAY)
    assert learned is not None
    assert learned.error((rate,)) * math.sqrt(sum(learned.subjects) / 40_000) == pytest.approx(error, rel=0.05)


def test_products_of_strata_by_hand() -> None:
    """A conversation has a turn that was judged with 1/4, and an error with 1/2: both are seen with 1/4."""
    figures = LearnedFigures("v", ("all", "error"), 0.0)
    figures.learn("c", Sampling(probability=0.25), 0.5, None, 0.0)
    figures.learn("c", Sampling(probability=0.5, stratum="error"), 1.0, None, 0.0)
    sums = dict(figures.sums)
    assert sums["nn"] == [4.0, 4.0, 4.0, 2.0]
    assert sums["yy"] == [4.0 * 0.25, 4.0 * 0.5, 4.0 * 0.5, 2.0]
    assert sums["ny"] == [4.0 * 0.5, 4.0, 4.0 * 0.5, 2.0]
    figures.fade(DAY)
    day = day_of([figures], None)
    assert day is not None
    scale = day.subjects[0] / 4.0
    assert day.products[0][1] == pytest.approx(0.25 * 4.0 * scale), "the largest variance, before 200 scores"


def test_what_audits_leave_unexplained_is_what_a_plan_makes_of_them() -> None:
    chance, figures = random.Random(8), LearnedFigures("v", ("all",), 0.0)
    past: list[PricedEvaluation] = []
    for index in range(3000):
        score = chance.random()
        audit = AuditScore(min(1.0, max(0.0, 0.6 * score + chance.gauss(0.2, 0.15))), 0.5)
        drawn = audit if index % 2 else None
        figures.learn(f"c{index}", Sampling(probability=0.25), score, drawn, 0.0)
        past.append(
            PricedEvaluation(
                time=DAY * index / 3000, conversation=f"c{index}", stratum="all", weight=Weight(4.0, 4.0), score=score,
                usd=0.01 if drawn is None else 0.02, audit=drawn, was_audited=drawn is not None,
            )
        )  # fmt: skip
    figures.fade(1.0)
    day, planned = day_of([figures], 0.5, 1.0 / DAY), figures_of(past, ("all",))
    whole = with_second_phase(planned.day, planned.pairs, 0.01)
    assert day is not None
    assert whole is not None
    for share in (0.1, 0.5):
        assert day.error((0.3,), share) == pytest.approx(whole.error((0.3,), share), rel=0.01)
    assert day.second is not None
    assert day.second.correlation == pytest.approx(0.75, abs=0.05)


def test_halves_of_a_past_add_up_and_what_is_saved_is_what_is_known() -> None:
    figures, _ = learnt()
    plain = orjson.loads(orjson.dumps(figures.to_json()))
    again = LearnedFigures.from_json(plain)
    one, other = day_of([figures], None), day_of([again], None)
    assert one is not None
    assert other is not None
    assert other.error((0.1, 0.2)) == pytest.approx(one.error((0.1, 0.2)), rel=1e-4)
    parts = divide([{"windows": {}, "demands": [], "planned": [["m", "graded", plain]]}], 3)["planned"]
    third = LearnedFigures.from_json(parts[0][2])
    whole = day_of([third, third, third], None)
    assert whole is not None
    assert whole.error((0.1, 0.2)) == pytest.approx(one.error((0.1, 0.2)), rel=1e-4)
    assert whole.subjects == pytest.approx(one.subjects, rel=1e-4)


def test_the_past_fades() -> None:
    figures, _ = learnt()
    before = sum(dict(figures.sums)["subjects"])
    figures.fade(DAY * 3.0)
    assert sum(dict(figures.sums)["subjects"]) == pytest.approx(before / math.e)
    assert figures.scored < 1000


def test_audits_that_agree_leave_less_to_be_judged_than_those_that_do_not() -> None:
    def rate(noise: float, *, is_of_another: bool = False) -> float:
        watch = monitor(share=0.5)
        version = "another" if is_of_another else watch.assignments[0].audit_version
        of, chance = controller(plan=Plan((watch,))), random.Random(6)
        arrive(of, 20_000)
        for index in range(2000):
            score = chance.random()
            other = min(1.0, max(0.0, score + chance.gauss(0.0, noise)))
            audit = {"score": other, "probability": 0.5, "version": version} if chance.random() < 0.5 else None
            made = replace(
                EVALUATION,
                subject=Subject(conversation_id=f"c{index}"),
                score=score,
                sampling=Sampling(probability=0.1),
                details={} if audit is None else {"audit": audit},
            )
            of.learn(0, JOB, made)
        rates, _ = of.decide_rates(0, DAY)
        return rates.of("m").factor

    assert rate(0.05) < 0.7 * rate(1.0)
    assert rate(0.05, is_of_another=True) == rate(1.0, is_of_another=True), "another auditor's tell nothing of this one"


def test_what_is_no_score_of_this_definition_teaches_nothing() -> None:
    planner = RatePlanner(PLAN, 1)
    planner.add_partition(0, 0.0)
    others: list[dict[str, Any]] = [
        {"score": None, "outcome": "failed"},
        {"evaluator_version": "w"},
        {"evaluator": "other"},
        {"monitor": "other"},
    ]
    for each in others:
        planner.learn(0, JOB, replace(EVALUATION, **each))
    planner.learn(0, replace(JOB, happened_at=EVALUATION.ended_at), EVALUATION)
    planner.learn(0, replace(JOB, retry=Retry(attempt=2, reason="failed")), EVALUATION)
    planner.learn(1, JOB, EVALUATION)
    assert planner.saved(0)[0][2]["scored"] == 0.0
    planner.learn(0, JOB, EVALUATION)
    assert planner.saved(0)[0][2]["scored"] == 1.0


def test_another_definition_or_another_boost_begins_again() -> None:
    planner = RatePlanner(PLAN, 1)
    planner.add_partition(0, 0.0)
    planner.learn(0, JOB, EVALUATION)
    saved = orjson.loads(orjson.dumps(planner.saved(0)))

    def scored(plan: Plan) -> float:
        other = RatePlanner(plan, 1)
        other.add_partition(0, 0.0, saved)
        return other.saved(0)[0][2]["scored"]

    assert scored(PLAN) == 1.0
    newer = replace(WATCHED, assignments=(replace(WATCHED.assignments[0], version="w"),))
    assert scored(Plan((newer,))) == 0.0
    assert scored(Plan((replace(WATCHED, strata=type(WATCHED.strata)()),))) == 0.0


def test_audits_of_a_former_auditor_are_forgotten_and_nothing_else_is() -> None:
    def audited(model: str) -> Plan:
        [assignment] = WATCHED.assignments
        judge = Audited(assignment.judge, ScriptedJudge({}, model=model), 0.5)
        return Plan((replace(WATCHED, assignments=(replace(assignment, judge=judge),)),))

    def taken_over(plan: Plan, saved: Any) -> Any:
        planner = RatePlanner(plan, 1)
        planner.add_partition(0, 0.0, orjson.loads(orjson.dumps(saved)))
        planner.learn(0, JOB, replace(EVALUATION, details={"audit": {"score": 0.5, "probability": 0.5}}))
        return planner.saved(0)

    saved = taken_over(audited("strong"), ())
    [[_, _, alike]], [[_, _, other]] = (taken_over(audited(model), saved) for model in ("strong", "other"))
    assert (other["scored"], alike["scored"]) == (2.0, 2.0)
    assert other["pairs"]["w"] == alike["pairs"]["w"] / 2
    earlier = [[*names, {key: value for key, value in plain.items() if key != "auditor"}] for *names, plain in saved]
    [[_, _, of_earlier]] = taken_over(audited("other"), earlier)
    assert of_earlier["pairs"] == alike["pairs"], "an earlier release did not note who audits"
    both = [["m", "graded", alike], ["m", "graded", {**other, "time": other["time"] + 1.0}]]
    divided = divide([{"windows": {}, "demands": [], "planned": [each]} for each in both], 1)["planned"]
    assert [each[2]["pairs"] for each in divided] == [other["pairs"]]


def test_a_conversation_is_one_cluster_while_it_lasts_and_few_are_remembered() -> None:
    figures = LearnedFigures("v", ("all",), 0.0)
    for time in (0.0, 0.0, 43_200.0, 200_000.0):  # half a day later what was before counts e times less
        figures.learn("c", Sampling(), 1.0, AuditScore(1.0, 0.5), time)
    assert dict(figures.sums)["nn"] == [pytest.approx(4.0 + (1.0 + 2.0 * 2.0 * math.exp(-1.0)) + 1.0)]
    for number in range(25_000):
        figures.learn(f"{number}", Sampling(), 1.0, None, 200_000.0)
    assert len(figures) == 20_000
    figures.learn("new", Sampling(), 1.0, None, 290_000.0)
    assert len(figures) == 1
