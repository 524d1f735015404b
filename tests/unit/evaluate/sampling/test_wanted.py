"""Which conversations no monitor can want: those above every rate that can come, and none where content decides."""

from __future__ import annotations

from typing import Any

import pytest

from collector.evaluate.budget.rates import RateReduction
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.service.assembly_builder import can_be_wanted, why_all_are_wanted
from evaluators.conversation.completeness import Completeness
from evaluators.judge import NoJudge
from evaluators.turn.exact_match import ExactMatch

KEYS = [f"sess-{number}" for number in range(3000)]


def use(rate: float | None = None, **more: Any) -> Assignment:
    return Assignment(ExactMatch(name="same"), NoJudge(), "v", rate=rate, **more)


def watching(*uses: Assignment, **more: Any) -> Monitor:
    return Monitor(**{"name": "m", "assignments": uses or (use(),), "match": {}, "rate": 0.1} | more)


def wanted(*monitors: Monitor) -> set[str]:
    return {key for key in KEYS if can_be_wanted(key, Plan(monitors))}


def test_it_is_the_sample_of_the_highest_rate() -> None:
    plan = Plan((watching(),))
    assert wanted(watching()) == {key for key in KEYS if plan.draw(use(), key) < 0.1}
    assert wanted(watching()) == wanted(watching(), watching(rate=0.05))
    assert wanted(watching()) < wanted(watching(), watching(rate=0.2)), "a higher rate includes the lower one"
    other_draw = wanted(watching(use(0.05, salt="other"), use()))
    assert wanted(watching()) < other_draw
    assert 300 < len(other_draw) < 600
    assert wanted() == wanted(watching(rate=0.0)) == set()
    talks = watching(Assignment(Completeness(name="solved"), NoJudge(), "v"))
    assert wanted(talks) == wanted(watching()), "of conversations as of turns"


@pytest.mark.parametrize("factor", [1.0, 0.7, 0.01])
def test_no_reduction_selects_another(factor: float) -> None:
    monitor, plan = watching(use(), use(0.2)), Plan((watching(use(), use(0.2)),))
    reduced = RateReduction(factor)
    for key in KEYS[:500]:
        for each in monitor.assignments:
            if plan.draw(each, key) < monitor.probability(each, reduced.factor, 1.0):
                assert can_be_wanted(key, plan)


@pytest.mark.parametrize(
    ("monitor", "reason"),
    [
        (watching(match={"attributes.tier": frozenset({"gold"})}), "monitor m reads a field of each turn (match)"),
        (watching(strata=Strata((Boost("error", 4.0, failed),))), "monitor m judges some turns more often by what they contain (boost)"),
        (watching(agent_runs=True), "monitor m watches the runs of agents inside turns"),
        (watching(rate=1.0, standard_error=0.02), "the rate of monitor m is planned and may come to 1 (sample: auto)"),
        (watching(use(1.0)), "monitor m evaluates every turn by same"),
    ],
)  # fmt: skip
def test_everything_may_be_wanted_where_content_decides(monitor: Monitor, reason: str) -> None:
    assert wanted(watching(name="other"), monitor) == set(KEYS)
    assert why_all_are_wanted(Plan((watching(name="other"), monitor))) == reason
    assert why_all_are_wanted(Plan((watching(name="other"),))) is None
