"""What a process may spend: its part of the budget by its partitions, and what it has learnt of costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import orjson
import pytest
from evaluation_samples import scored

from collector.evaluate.budget.controller import (
    ALL_MONITORS,
    BudgetController,
    BudgetReservation,
    BudgetUsage,
    DeferredReservation,
)
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.budget.windows import HOUR, Budget
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from evaluators.cases import Turn
from evaluators.turn.exact_match import ExactMatch
from evaluators.turn.g_eval import GEval


class Named:
    def __init__(self, model: str = "dear") -> None:
        self.model = model

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
ASSIGNMENT = Assignment(GOOD, Named(), "v", expected_usd=0.01)
WATCHED = Monitor(name="m", assignments=(ASSIGNMENT,), match={}, budget=Budget(usd_per_hour=10.0, hard_cap=1.0))
JOB = Job(
    evaluation_id="e",
    monitor=WATCHED,
    assignment=ASSIGNMENT,
    case=lambda: Turn(turn_id="t"),
    replay_point=ReplayPoint(0),
    trigger_offset=0,
)


def purse_of(partitions: int, *, own: int) -> BudgetController:
    budget = BudgetController(Plan((WATCHED,)), partitions)
    for partition in range(own):
        budget.add_partition(partition, 0.0, None, ())
    return budget


def factor(budget: BudgetController, units: float, *, own: int) -> float:
    """What is left of the rates after ten minutes in which so much came to every partition."""
    for partition in range(own):
        budget.add_demand(partition, WATCHED, ASSIGNMENT, units)
    for partition in range(own):
        rates, _ = budget.decide_rates(partition, 600.0)
    return rates.of("m").factor


def test_who_owns_a_quarter_of_the_partitions_may_spend_a_quarter() -> None:
    whole = factor(purse_of(1, own=1), 3000.0, own=1)
    assert 0.002 < whole < 1.0
    assert factor(purse_of(4, own=1), 3000.0, own=1) == pytest.approx(whole / 4, rel=1e-4)
    assert factor(purse_of(4, own=4), 750.0, own=4) == pytest.approx(whole, rel=1e-4)


def test_a_process_with_all_partitions_shows_the_whole_budget() -> None:
    budget = purse_of(4, own=4)
    budget.settle(JOB, 1, 1.5, 5.0)
    assert budget.owned_partitions == 4
    assert list(budget.usages(10.0)) == [BudgetUsage("m", HOUR, 10.0, 1.5)]
    budget.remove_partition(3)
    assert budget.owned_partitions == 3


def test_where_nothing_came_nothing_is_held_back() -> None:
    budget = purse_of(1, own=1)
    rates, _ = budget.decide_rates(0, 10.0)
    assert rates.of("m").factor == 1.0


def test_a_start_judges_all_for_ten_seconds_and_then_sets_a_rate_each_minute() -> None:
    """A tenth was judged at first, and a page said 0: of a first handful of turns none."""
    budget = purse_of(1, own=1)
    assert budget.is_decision_due(0, 0.0), "with the first record, so that it is written down from where all is judged"
    rates, _ = budget.decide_rates(0, 0.0)
    assert rates.of("m").factor == budget.factor("m") == 1.0
    assert not budget.is_decision_due(0, 20.0), "nothing came"
    budget.add_demand(0, WATCHED, ASSIGNMENT, 1.0)
    assert [budget.is_decision_due(0, 29.9), budget.is_decision_due(0, 30.0)] == [False, True]
    budget.decide_rates(0, 30.0)
    assert [budget.is_decision_due(0, 89.9), budget.is_decision_due(0, 90.0)] == [False, True]


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_start_with_a_backlog_spends_a_minutes_money_before_it_sets_a_rate(partitions: int) -> None:
    """A minute of 10 USD an hour pays 16 evaluations; of 80,000 at once the next ten seconds may judge a sixth or less."""
    budget = purse_of(partitions, own=partitions)
    rates = dict.fromkeys(range(partitions), 0.0)
    judged = dict.fromkeys((0.0, 1.0), 0.0)
    for number in range(800):
        for partition in range(partitions):
            if budget.is_decision_due(partition, number / 800):
                rates[partition] = budget.decide_rates(partition, number / 800)[0].of("m").factor
            judged[float(rates[partition] == 1.0)] += rates[partition]
            budget.add_demand(partition, WATCHED, ASSIGNMENT, 1.0)
    assert 16 <= judged[1.0] <= 16 + 2 * partitions
    assert 0.0 < max(rates.values()) < 0.2
    assert judged[0.0] < 800 * partitions * 0.2


def test_a_process_that_ends_before_its_first_rate_begins_within_what_is_left() -> None:
    budget = purse_of(1, own=1)
    _, saved = budget.decide_rates(0, 0.0)
    again = BudgetController(Plan((WATCHED,)), 1)
    again.add_partition(0, 1.0, saved, [("m", 9.99, 0.5)])
    for _ in range(5):
        again.add_demand(0, WATCHED, ASSIGNMENT, 1.0)
    assert again.is_decision_due(0, 1.0), "a quarter of the even pace is left: four evaluations a minute"
    assert again.decide_rates(0, 1.0)[0].of("m").factor < 0.5


@pytest.mark.parametrize("saved", [None, {"windows": {"other": []}, "demands": []}])
def test_a_budget_that_is_set_later_starts_empty(saved: dict[str, Any] | None) -> None:
    """A restart reads back what evaluations cost before there was a budget: 8 USD, nine tenths of its hard cap."""
    budget = BudgetController(Plan((WATCHED,)), 1)
    budget.add_partition(0, 900.0, saved, [("m", 8.0, 850.0)])
    assert [usage.spent_usd for usage in budget.usages(900.0)] == [0.0]
    assert budget.used_fraction("m", 900.0) == 0.0
    for _ in range(5):
        budget.add_demand(0, WATCHED, ASSIGNMENT, 1.0)
    assert budget.decide_rates(0, 960.0)[0].of("m").factor == 1.0, "five evaluations a minute cost 3 USD an hour"


@pytest.mark.parametrize(
    "saved", [{"windows": {"other": []}, "demands": []}, {"windows": {}, "demands": [["m", "e", 1.0]]}]
)
def test_a_budget_that_is_set_later_is_saved_before_it_is_spent(saved: dict[str, Any]) -> None:
    """A kill in its first seconds lost what it had paid: nothing was saved before the next decision, a minute later."""
    budget = BudgetController(Plan((WATCHED,)), 1)
    budget.add_partition(0, 900.0, saved, ())
    assert budget.is_decision_due(0, 900.5)
    _, saved_with_it = budget.decide_rates(0, 900.5)
    assert not budget.is_decision_due(0, 901.0)
    again = BudgetController(Plan((WATCHED,)), 1)
    again.add_partition(0, 905.0, saved_with_it, [("m", 8.0, 903.0)])
    assert [usage.spent_usd for usage in again.usages(905.0)] == [8.0]


OTHER = replace(WATCHED, name="other", budget=Budget(usd_per_hour=1.0))


def minute_of(budget: BudgetController, monitors: tuple[Monitor, ...], start: float) -> dict[str, float]:
    """Four turns a second for a minute, each judged at a cent; returns what each monitor spends."""
    rates, spent = Rates(), dict.fromkeys((monitor.name for monitor in monitors), 0.0)
    for number in range(240):
        now = start + number / 4
        if budget.is_decision_due(0, now):
            rates, _ = budget.decide_rates(0, now)
        for monitor in monitors:
            budget.add_demand(0, monitor, ASSIGNMENT, 1.0)
            usd = 0.01 * rates.of(monitor.name).factor
            budget.spend_beside(monitor.name, usd, now)  # `settle` would take the fraction for the cost of a whole one
            spent[monitor.name] += usd
    return spent


@pytest.mark.parametrize("is_watched_before", [True, False])
def test_a_budget_that_is_set_later_knows_the_traffic_or_lasts_ten_seconds(is_watched_before: bool) -> None:
    """All was judged for a minute: 28 minutes' money of a budget, as only monitors with budgets had a known demand."""
    without = replace(OTHER, budget=Budget())
    before = (WATCHED, without) if is_watched_before else (WATCHED,)
    budget = BudgetController(Plan(before), 1)
    budget.add_partition(0, 0.0, None, ())
    for minute in range(3):
        minute_of(budget, before, 60.0 * minute)
    _, saved = budget.decide_rates(0, 180.0)
    again = BudgetController(Plan((WATCHED, OTHER)), 1)
    again.add_partition(0, 180.0, orjson.loads(orjson.dumps(saved)), ())
    spent = minute_of(again, (WATCHED, OTHER), 180.0)["other"]
    assert spent < (1.1 if is_watched_before else 6.0) / 60.0, "the money of a minute; of five as at a first start"


def test_a_budget_that_is_set_later_leaves_the_rates_of_other_monitors() -> None:
    """The costs that were learnt were forgotten: at a price of 0.0037 instead of 0.01 a rate fell to 0.37 of itself."""
    budget = purse_of(1, own=1)
    budget.settle(JOB, 0, 0.0037, 1.0)
    budget.add_demand(0, WATCHED, ASSIGNMENT, 240.0)
    before, saved = budget.decide_rates(0, 60.0)
    again = BudgetController(Plan((WATCHED, OTHER)), 1)
    again.add_partition(0, 60.1, orjson.loads(orjson.dumps(saved)), ())
    assert again.is_decision_due(0, 60.2)
    assert again.decide_rates(0, 60.2)[0].of("m").factor == pytest.approx(before.of("m").factor, rel=0.01)


def test_a_new_list_price_is_expected_at_once_and_removed_evaluators_leave_the_state() -> None:
    """What was learnt at a former price counted for twenty evaluations more: ten times the price was overspent."""
    budget = purse_of(1, own=1)
    budget.settle(JOB, 0, 0.0037, 1.0)
    _, saved = budget.decide_rates(0, 60.0)
    dearer = replace(ASSIGNMENT, expected_usd=0.1)
    again = BudgetController(Plan((replace(WATCHED, assignments=(dearer,)),)), 1)
    again.add_partition(0, 60.1, orjson.loads(orjson.dumps(saved)), ())
    assert again.expected_usd(dearer, fallback=False) == 0.1
    assert "costs" not in again.saved(0)


def test_the_traffic_of_removed_evaluators_leaves_the_state() -> None:
    """Each monitor or evaluator that was ever in use stayed in it, and one that came back began with its old traffic."""
    budget = BudgetController(Plan((WATCHED, OTHER)), 1)
    budget.add_partition(0, 0.0, None, ())
    for monitor in (WATCHED, OTHER):
        budget.add_demand(0, monitor, ASSIGNMENT, 60.0)
    _, saved = budget.decide_rates(0, 60.0)
    again = BudgetController(Plan((WATCHED,)), 1)
    again.add_partition(0, 60.1, saved, ())
    assert again.saved(0)["demands"] == [["m", "good", 1.0]]


@pytest.mark.parametrize("kept", [(WATCHED,), (replace(WATCHED, budget=Budget()),)], ids=["one of two", "the only"])
def test_a_budget_that_was_removed_and_is_added_again_starts_empty(kept: tuple[Monitor, ...]) -> None:
    budget = BudgetController(Plan((WATCHED, OTHER)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.settle(replace(JOB, monitor=OTHER), 0, 0.5, 1.0)
    _, saved = budget.decide_rates(0, 60.0)
    between = BudgetController(Plan(kept), 1)
    between.add_partition(0, 61.0, saved, ())
    assert between.is_decision_due(0, 61.5), "with the first record, so that the removal is written down"
    _, saved = between.decide_rates(0, 61.5)
    again = BudgetController(Plan((WATCHED, OTHER)), 1)
    again.add_partition(0, 90.0, saved, [("other", 0.3, 80.0)])
    assert [again.used_fraction(name, 90.0) for name in ("m", "other")] == [0.0, 0.0]


def test_that_a_monitor_has_a_fixed_sample_now_is_written_down_once() -> None:
    """The planned rate of before stayed the last in the log, so that a run over the past drew later traffic by it."""
    fixed = replace(WATCHED, budget=Budget())
    planned = BudgetController(Plan((replace(fixed, standard_error=0.02),)), 1)
    planned.add_partition(0, 0.0, None, ())
    rates, saved = planned.decide_rates(0, 60.0)
    now = BudgetController(Plan((fixed,)), 1)
    now.add_partition(0, 61.0, saved, (), rates)
    assert now.is_decision_due(0, 61.5)
    rates, _ = now.decide_rates(0, 61.5)
    assert (rates, now.is_decision_due(0, 999.0)) == (Rates(), False)


def test_a_batch_in_a_moment_is_no_jump() -> None:
    """A new budget decides at once: ten turns of another monitor in 50 ms are not 200 a second."""
    budget = BudgetController(Plan((WATCHED, OTHER)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
    budget.decide_rates(0, 60.0)
    for monitor in (WATCHED, OTHER):
        for _ in range(20):
            budget.add_demand(0, monitor, ASSIGNMENT, 1.0)
    assert budget.is_decision_due(0, 60.05), "of the other monitor more than a minute's money came"
    assert budget.decide_rates(0, 60.05)[0].of("m").factor > 0.25


def test_a_monitor_whose_first_money_is_spent_ends_the_first_seconds_of_no_other() -> None:
    """Three turns were taken for the traffic of ten seconds: then all of a monitor was judged for as long again."""
    budget = BudgetController(Plan((WATCHED, OTHER)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.decide_rates(0, 0.0)
    budget.add_demand(0, OTHER, ASSIGNMENT, 0.5)
    budget.add_demand(0, WATCHED, ASSIGNMENT, 17.0)
    assert budget.is_decision_due(0, 0.1)
    assert budget.decide_rates(0, 0.1)[0].of("other").factor == 1.0
    assert not budget.is_decision_due(0, 0.2)
    budget.add_demand(0, OTHER, ASSIGNMENT, 200.0)
    assert budget.is_decision_due(0, 0.3), "more than its minute's money"
    assert budget.decide_rates(0, 0.3)[0].of("other").factor < 0.01


def test_a_partition_that_gets_its_first_traffic_late_is_not_taken_for_all_that_are_silent() -> None:
    """The silent ones were taken to get as much: six times the traffic, so for a minute 0.043 was judged."""
    budget = purse_of(12, own=12)
    for start in range(0, 300, 60):
        budget.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
        before = budget.decide_rates(0, start + 60.0)[0].of("m").factor
    for _ in range(5):
        budget.add_demand(1, WATCHED, ASSIGNMENT, 1.0)
    budget.is_decision_due(1, 310.0)
    budget.add_demand(1, WATCHED, ASSIGNMENT, 1.0)
    assert budget.is_decision_due(1, 320.0)
    after = budget.decide_rates(1, 320.0)[0].of("m").factor
    assert before / 2 < after < before


def test_the_demand_of_all_monitors_is_summed_once_for_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 monitors with a budget of all, each summed that of all others: 0.8 s for a partition each minute."""
    monitors = tuple(replace(WATCHED, name=f"m{number}") for number in range(50))
    budget = BudgetController(Plan(monitors, budget=Budget(usd_per_hour=10.0, usd_per_day=100.0)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.decide_rates(0, 0.0)
    expected, asked = budget.expected_usd, list[bool]()

    def counted(assignment: Assignment, fallback: bool) -> float:
        asked.append(fallback)
        return expected(assignment, fallback)

    monkeypatch.setattr(budget, "expected_usd", counted)
    for monitor in monitors:
        budget.add_demand(0, monitor, ASSIGNMENT, 60.0)
    rates, _ = budget.decide_rates(0, 60.0)
    assert len(asked) <= 4 * len(monitors), "for each budget and judge"
    assert {rates.of(monitor.name).factor for monitor in monitors} == {rates.of("m0").factor}
    assert 0.0 < rates.of("m0").factor < 0.1


def test_the_first_minutes_money_is_counted_at_the_price_of_the_judge_and_not_of_its_fallback() -> None:
    both = replace(ASSIGNMENT, fallback=Named("cheap"), fallback_version="v2")
    watched = replace(WATCHED, assignments=(both,))
    budget = BudgetController(Plan((watched,)), 2)
    for partition in (0, 1):
        budget.add_partition(partition, 0.0, None, ())
        budget.decide_rates(partition, 0.0)
    cheap = replace(JOB, monitor=watched, assignment=both, fallback=True)
    budget.settle(cheap, 1, 1e-6, 1.0)
    budget.add_demand(0, watched, both, 7.0)
    assert not budget.is_decision_due(0, 1.0)
    budget.add_demand(0, watched, both, 10.0)
    assert budget.is_decision_due(0, 1.0)


def test_what_is_shown_of_a_partition_is_what_it_goes_on_with() -> None:
    """A restart showed 1 for one scrape."""
    budget = purse_of(1, own=0)
    assert math.isnan(budget.factor("m"))
    budget.add_partition(0, 0.0, None, (), Rates({"m": RateReduction(0.25), "gone": RateReduction(0.1)}))
    assert (budget.factor("m"), budget.factor(ALL_MONITORS)) == (0.25, 0.25)


def test_what_an_evaluation_will_cost_is_learnt_from_those_before() -> None:
    budget = purse_of(1, own=1)
    assert budget.expected_usd(ASSIGNMENT, fallback=False) == 0.01
    budget.settle(JOB, 0, 0.03, 1.0)
    assert budget.expected_usd(ASSIGNMENT, fallback=False) == 0.03
    budget.settle(JOB, 0, 0.01, 2.0)
    assert budget.expected_usd(ASSIGNMENT, fallback=False) == pytest.approx(0.95 * 0.03 + 0.05 * 0.01)
    budget.settle(JOB, 0, None, 3.0)
    assert budget.expected_usd(ASSIGNMENT, fallback=False) == pytest.approx(0.029), "given up: nothing is learnt"


def test_traffic_that_stays_as_it_is_leaves_the_rates_as_they_are() -> None:
    budget = purse_of(1, own=1)
    first = factor(budget, 3000.0, own=1)  # five a second
    for minute in (11, 12, 13):
        budget.add_demand(0, WATCHED, ASSIGNMENT, 300.0)
        rates, _ = budget.decide_rates(0, 60.0 * minute)
        assert rates.of("m").factor == pytest.approx(first, rel=0.1)


def test_a_rate_is_what_the_budget_allows_of_what_judging_everything_would_cost() -> None:
    """Ten US dollars an hour and a minute's credit, for one evaluation a second at a cent."""
    budget = purse_of(1, own=1)
    budget.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
    rates, saved = budget.decide_rates(0, 60.0)
    assert rates.of("m").factor == pytest.approx((10.0 + 10.0 / 60.0) / 3600.0 / 0.01, rel=1e-5)
    assert saved["demands"] == [["m", "good", 1.0]]


def test_of_several_budgets_the_tightest_binds() -> None:
    """24 a day is as much as 1 an hour, but spends its savings six times as slowly."""
    one, two = replace(WATCHED, name="one"), replace(WATCHED, name="two", budget=Budget())
    plan = Plan((one, two), budget=Budget(usd_per_hour=1.0, usd_per_day=24.0, hard_cap=1.0))
    budget = BudgetController(plan, 1)
    budget.add_partition(0, 0.0, None, ())
    assert budget.factor(ALL_MONITORS) == 1.0, "nothing is decided yet, and nothing held back"
    budget.add_demand(0, one, ASSIGNMENT, 600.0)
    budget.add_demand(0, two, ASSIGNMENT, 1200.0)
    rates, _ = budget.decide_rates(0, 600.0)
    expected = pytest.approx((1.0 + (1.0 / 6.0) / 6.0) / 3600.0 / 0.03, rel=1e-5)
    assert (rates.of("one").factor, rates.of("two").factor) == (expected, expected)
    assert (budget.factor("one"), budget.factor(ALL_MONITORS), budget.factor("unknown")) == (expected, expected, 1.0)


def test_the_factor_that_is_reported_is_the_lowest() -> None:
    dear = replace(WATCHED, name="dear")
    budget = BudgetController(Plan((WATCHED, dear)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
    budget.add_demand(0, dear, ASSIGNMENT, 120.0)
    budget.decide_rates(0, 60.0)
    assert budget.factor("dear") == pytest.approx(budget.factor("m") / 2.0, rel=1e-5)
    assert budget.factor(ALL_MONITORS) == budget.factor("dear")


def test_fallback_judges_take_over_at_their_share_of_the_hard_cap() -> None:
    for spent, fallback in ((8.99, False), (9.0, True)):
        budget = purse_of(1, own=1)
        budget.settle(JOB, 0, spent, 1.0)
        rates, _ = budget.decide_rates(0, 60.0)
        assert rates.of("m").fallback is fallback


def test_what_is_reserved_counts_as_spent_until_it_is_settled() -> None:
    budget = purse_of(1, own=1)
    budget.settle(JOB, 0, 4.0, 1.0)  # an evaluation is now expected to cost 4
    assert budget.used_fraction("m", 2.0) == 0.4
    assert budget.reserve(replace(JOB, evaluation_id="first"), 2.0)
    assert budget.used_fraction("m", 2.0) == 0.8
    assert budget.reserve(replace(JOB, evaluation_id="second"), 2.0)
    assert not budget.reserve(replace(JOB, evaluation_id="third"), 2.0)
    budget.settle(replace(JOB, evaluation_id="second"), 0, None, 3.0)
    assert budget.used_fraction("m", 3.0) == 0.8, "it was not made"
    budget.settle(replace(JOB, evaluation_id="first"), 0, 6.0, 3.0)
    assert budget.used_fraction("m", 3.0) == 1.0
    assert not budget.reserve(replace(JOB, evaluation_id="fourth"), 3.0), "at the hard cap"


def test_a_reservation_of_one_monitor_is_one_of_all_and_not_of_another() -> None:
    other = replace(WATCHED, name="other")
    budget = BudgetController(Plan((WATCHED, other), budget=Budget(usd_per_hour=10.0, hard_cap=1.0)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.settle(JOB, 0, 10.0, 1.0)
    budget.settle(replace(JOB, monitor=other), 0, 0.0, 1.0)
    assert [budget.used_fraction(name, 2.0) for name in ("m", "other", ALL_MONITORS)] == [1.0, 0.0, 1.0]
    assert not budget.reserve(replace(JOB, monitor=other), 2.0), "its own budget is whole, that of all is spent"
    later = 2.0 + 2 * HOUR
    assert budget.reserve(replace(JOB, monitor=other), later)
    assert budget.used_fraction("m", later) == 0.0
    assert budget.used_fraction("other", later) == budget.used_fraction(ALL_MONITORS, later) > 0.9


def test_evaluators_without_a_judge_cost_nothing() -> None:
    free = replace(ASSIGNMENT, evaluator=ExactMatch(name="exact"))
    watched = replace(WATCHED, assignments=(free,))
    budget = BudgetController(Plan((watched,)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.add_demand(0, watched, free, 1e6)
    rates, saved = budget.decide_rates(0, 60.0)
    assert (rates.of("m").factor, saved["demands"]) == (1.0, [])
    budget.settle(JOB, 0, 10.0, 61.0)
    assert not budget.reserve(JOB, 62.0)
    assert budget.reserve(replace(JOB, assignment=free), 62.0)


def test_a_process_without_partitions_has_nothing_to_spend() -> None:
    budget = purse_of(4, own=0)
    assert not budget.reserve(JOB, 1.0)
    budget.settle(JOB, 0, 1.0, 1.0)
    assert [each.spent_usd for each in budget.usages(2.0)] == [0.0]
    assert budget.used_fraction("m", 2.0) == 0.0, "the metric said that it was at the hard cap"


def test_a_restored_partition_decides_every_minute_as_it_did_before() -> None:
    budget = purse_of(1, own=1)
    budget.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
    rates, saved = budget.decide_rates(0, 60.0)
    again = BudgetController(Plan((WATCHED,)), 1)
    again.add_partition(0, 60.0, saved, ())
    assert [again.is_decision_due(0, now) for now in (70.0, 119.9, 120.0)] == [False, False, True]
    again.add_demand(0, WATCHED, ASSIGNMENT, 60.0)
    then, _ = again.decide_rates(0, 120.0)
    assert then.of("m").factor == pytest.approx((10.0 + 20.0 / 60.0) / 3600.0 / 0.01, rel=1e-5)
    assert rates.of("m").factor < then.of("m").factor


def test_a_canary_is_reserved_beside_its_job() -> None:
    budget = purse_of(1, own=1)
    budget.settle(JOB, 0, 1.0, 1.0)
    own = BudgetReservation(budget, JOB, 0, lambda: 5.0)
    canary = own.for_canary()
    assert own.reserve()
    assert canary.reserve()
    assert budget.used_fraction("m", 5.0) == pytest.approx(0.3), "one dollar spent, two reserved"
    canary.settle(1.0)
    own.settle(None)
    assert budget.used_fraction("m", 5.0) == pytest.approx(0.2)


def test_a_jump_of_one_evaluators_traffic_is_enough() -> None:
    other = replace(ASSIGNMENT, evaluator=GOOD.model_copy(update={"name": "other"}))
    budget = purse_of(1, own=1)
    for each in (ASSIGNMENT, other):
        budget.add_demand(0, WATCHED, each, 60.0)
    budget.decide_rates(0, 60.0)
    assert not budget.is_decision_due(0, 75.0)
    for _ in range(60):
        budget.add_demand(0, WATCHED, other, 1.0)
    assert budget.is_decision_due(0, 75.0)


def test_a_fallback_takes_over_within_seconds_of_its_share_of_the_cap() -> None:
    """It was decided once a minute only: a burst had spent the rest by then."""
    both = replace(ASSIGNMENT, fallback=Named(), fallback_version="v2")
    watched = replace(WATCHED, assignments=(both,))
    budget = BudgetController(Plan((watched,)), 1)
    budget.add_partition(0, 0.0, None, ())
    budget.add_demand(0, watched, both, 1.0)
    budget.decide_rates(0, 10.0)
    budget.settle(JOB, 0, 8.9, 15.0)
    assert not budget.is_decision_due(0, 25.0)
    budget.settle(JOB, 0, 0.2, 16.0)
    assert [budget.is_decision_due(0, 19.9), budget.is_decision_due(0, 20.0)] == [False, True]
    assert budget.decide_rates(0, 20.0)[0].of("m").fallback
    assert not budget.is_decision_due(0, 40.0), "it has taken over"


def test_without_a_fallback_a_rate_holds_for_its_minute() -> None:
    budget = purse_of(1, own=1)
    budget.add_demand(0, WATCHED, ASSIGNMENT, 1.0)
    budget.decide_rates(0, 10.0)
    budget.settle(JOB, 0, 9.9, 15.0)
    assert not budget.is_decision_due(0, 25.0)


def deferred(budget: BudgetController, name: str, *, granted: bool = False) -> DeferredReservation:
    assignment = replace(ASSIGNMENT, deferred=True, expected_usd=1.0)
    job = replace(JOB, evaluation_id=name, assignment=assignment)
    return DeferredReservation(BudgetReservation(budget, job, 0, lambda: 5.0), granted=granted)


def budget_of(**limits: float) -> BudgetController:
    budget = BudgetController(Plan((replace(WATCHED, budget=Budget(hard_cap=1.0, **limits)),)), 1)
    budget.add_partition(0, 0.0, None, ())
    return budget


def test_what_waits_for_hours_is_reserved_in_the_budget_of_the_day_alone() -> None:
    budget = budget_of(usd_per_hour=2.0, usd_per_day=3.0)
    waiting = [deferred(budget, f"d{n}") for n in range(4)]
    assert [each.reserve() for each in waiting] == [True, True, True, False]
    assert not waiting[3].is_below_cap(), "nothing is freed soon"
    assert all(each.reserve() for each in waiting[:3]), "what was granted is granted when it runs again"
    waiting[0].settle(None)
    assert not waiting[3].reserve(), "a run that rests has not ended"
    waiting[0].settle(0.25)
    waiting[0].release()
    assert budget.used_fraction("m", 5.0) == pytest.approx((0.25 + 2.0) / 3.0)
    for each in waiting:
        each.release()
    assert budget.used_fraction("m", 5.0) == pytest.approx(0.25 / 2.0)
    assert waiting[3].reserve()


def test_the_hour_has_room_while_much_waits() -> None:
    budget = budget_of(usd_per_hour=2.0)
    assert all(deferred(budget, f"d{n}").reserve() for n in range(100))
    assert budget.reserve(JOB, 5.0)


def test_what_was_sent_before_a_restart_is_not_refused() -> None:
    budget = budget_of(usd_per_day=1.0)
    assert deferred(budget, "full").reserve()
    resumed = deferred(budget, "sent", granted=True)
    assert resumed.reserve()
    assert budget.used_fraction("m", 5.0) == pytest.approx(2.0)


def test_a_deferred_evaluation_has_no_canary_and_a_cost_of_its_own() -> None:
    budget = budget_of(usd_per_day=10.0)
    waiting = deferred(budget, "d")
    assert waiting.reserve()
    assert not waiting.for_canary().reserve()
    waiting.settle(0.5)
    waiting.release()
    assert budget.expected_usd(replace(ASSIGNMENT, deferred=True, expected_usd=1.0), fallback=False) == 0.5
    assert budget.expected_usd(ASSIGNMENT, fallback=False) == 0.01


def test_a_verdict_that_two_monitors_ask_for_is_demanded_once() -> None:
    """Both judge all turns: the first pays, and the second repeats; by the end the budget is nearly that of one."""
    shared = replace(ASSIGNMENT, sharers=("", "n"))
    first = Monitor(name="m", assignments=(shared,), match={})
    other = replace(first, name="n", assignments=(replace(shared, monitor="n"),))
    budget = BudgetController(Plan((first, other), budget=Budget(usd_per_hour=10.0, hard_cap=1.0)), 1)
    budget.add_partition(0, 0.0, None, ())
    for number in range(400):
        for monitor in (first, other):
            job = replace(JOB, monitor=monitor, assignment=monitor.assignments[0])
            budget.learn(0, job, scored(number, shares=None if monitor is first else "e"))
    for monitor in (first, other):
        budget.add_demand(0, monitor, monitor.assignments[0], 3000.0)
    alone = BudgetController(Plan((first,), budget=Budget(usd_per_hour=10.0, hard_cap=1.0)), 1)
    alone.add_partition(0, 0.0, None, ())
    alone.add_demand(0, first, first.assignments[0], 3000.0)
    both, one = (each.decide_rates(0, 600.0)[0].of("m").factor for each in (budget, alone))
    assert both == pytest.approx(one, rel=0.01)


def test_a_cost_beside_the_traffic_is_borne_by_all_partitions_and_uses_the_budget_up() -> None:
    budget = purse_of(4, own=2)
    budget.spend_beside("m", 4.0, 0.0)
    assert list(budget.usages(0.0)) == [BudgetUsage("m", HOUR, 10.0, pytest.approx(4.0))]
    assert not budget.is_used_up("m", 0.0)
    budget.spend_beside("m", 1.0, 0.0)
    assert budget.is_used_up("m", 0.0)
    assert not budget.is_used_up("another", 0.0)


def test_a_cost_beside_the_traffic_before_a_partition_comes_is_borne_by_the_first() -> None:
    """A golden set is asked as the service starts, while the logs are still being read."""
    budget = purse_of(4, own=0)
    budget.spend_beside("m", 1.0, 0.0)
    for partition in range(2):
        budget.add_partition(partition, 0.0, None, ())
    assert list(budget.usages(0.0)) == [BudgetUsage("m", HOUR, 10.0, pytest.approx(1.0))]
