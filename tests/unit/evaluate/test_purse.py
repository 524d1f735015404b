"""What a process may spend: its part of the budget by its partitions, and what it has learnt of costs."""

from __future__ import annotations

from typing import Any

import pytest

from collector.evaluate.budget import HOUR, Limits
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.purse import Purse, Spending
from evaluators.cases import Turn
from evaluators.output.g_eval import GEval


class Named:
    model = "dear"

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
ASSIGNMENT = Assignment(GOOD, Named(), "v", expected_usd=0.01)
WATCHED = Monitor(name="m", assignments=(ASSIGNMENT,), match={}, limits=Limits(usd_per_hour=10.0, hard_cap=1.0))
JOB = Job(
    evaluation_id="e", monitor=WATCHED, assignment=ASSIGNMENT, case=lambda: Turn(turn_id="t"), needs=Mark(0), emitted=0
)


def purse_of(partitions: int, *, own: int) -> Purse:
    purse = Purse(Plan((WATCHED,)), partitions)
    for partition in range(own):
        purse.open(partition, 0.0, None, ())
    return purse


def factor(purse: Purse, units: float, *, own: int) -> float:
    """What is left of the rates after ten minutes in which so much came to every partition."""
    for partition in range(own):
        purse.demand(partition, WATCHED, ASSIGNMENT, units)
    for partition in range(own):
        rates, _ = purse.decide(partition, 600.0)
    return rates.of("m").factor


def test_who_owns_a_quarter_of_the_partitions_may_spend_a_quarter() -> None:
    whole = factor(purse_of(1, own=1), 3000.0, own=1)
    assert 0.002 < whole < 1.0
    assert factor(purse_of(4, own=1), 3000.0, own=1) == pytest.approx(whole / 4, rel=1e-4)
    assert factor(purse_of(4, own=4), 750.0, own=4) == pytest.approx(whole, rel=1e-4)


def test_what_is_shown_of_a_budget_is_the_part_of_this_process() -> None:
    purse = purse_of(4, own=2)
    purse.settle(JOB, 1, 1.5, 5.0)
    assert list(purse.spendings(10.0)) == [Spending("m", HOUR, 5.0, 1.5)]


def test_where_nothing_came_nothing_is_held_back() -> None:
    purse = purse_of(1, own=1)
    rates, _ = purse.decide(0, 10.0)
    assert rates.of("m").factor == 1.0


def test_the_first_rate_holds_for_ten_seconds_and_each_later_one_for_a_minute() -> None:
    purse = purse_of(1, own=1)
    assert [purse.due(0, 9.9), purse.due(0, 10.0)] == [False, True]
    purse.decide(0, 10.0)
    assert [purse.due(0, 69.9), purse.due(0, 70.0)] == [False, True]


def test_what_an_evaluation_will_cost_is_learnt_from_those_before() -> None:
    purse = purse_of(1, own=1)
    assert purse.expected(ASSIGNMENT, fallback=False) == 0.01
    purse.settle(JOB, 0, 0.03, 1.0)
    assert purse.expected(ASSIGNMENT, fallback=False) == 0.03
    purse.settle(JOB, 0, 0.01, 2.0)
    assert purse.expected(ASSIGNMENT, fallback=False) == pytest.approx(0.95 * 0.03 + 0.05 * 0.01)
    purse.settle(JOB, 0, None, 3.0)
    assert purse.expected(ASSIGNMENT, fallback=False) == pytest.approx(0.029), "given up: nothing is learnt"


def test_traffic_that_stays_as_it_is_leaves_the_rates_as_they_are() -> None:
    purse = purse_of(1, own=1)
    first = factor(purse, 3000.0, own=1)  # five a second
    for minute in (11, 12, 13):
        purse.demand(0, WATCHED, ASSIGNMENT, 300.0)
        rates, _ = purse.decide(0, 60.0 * minute)
        assert rates.of("m").factor == pytest.approx(first, rel=0.1)
