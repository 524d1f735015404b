import itertools
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.demand import FLOOR, Demand, rate_factor
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.budget.windows import DAY, HOUR, Budget, BudgetWindow
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.sampling.draw import upstream_of
from collector.evaluate.sampling.strata import Boost, Strata, disliked, failed, having, scored_below, slower_than
from collector.logs.log import TICK, StoredRecord
from collector.records.json import turn_to_json
from evaluators.cases import Feedback, Turn
from evaluators.conversation.completeness import Completeness
from evaluators.turn.g_eval import GEval


class Named:
    def __init__(self, model: str) -> None:
        self.model = model

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
ASSIGNMENT = Assignment(GOOD, Named("dear"), "v", fallback=Named("cheap"), expected_usd=0.01)


def monitor(name: str = "m", **limits: float) -> Monitor:
    return Monitor(name=name, assignments=(ASSIGNMENT,), match={}, budget=Budget(**limits))


NUMBERS = itertools.count()


def job(of: Monitor) -> Job:
    return Job(
        evaluation_id=str(next(NUMBERS)), monitor=of, assignment=ASSIGNMENT, case=lambda: Turn(turn_id="t"), replay_point=ReplayPoint(0), trigger_offset=0
    )  # fmt: skip


def test_a_budget_accrues_is_spent_and_saves_little() -> None:
    window = BudgetWindow(HOUR, 3.6, 0.0, brake=1.1)
    assert window.allowed_per_second == pytest.approx(0.001)
    window.spend(0.9, 10.0)
    assert window.allowed_per_second == pytest.approx(0.0005), "a debt is repaid in half an hour"
    window.spend(0.9, 10.0)
    assert window.allowed_per_second == pytest.approx(0.00025), "a quarter of the pace is always allowed"
    window.accrue(HOUR)
    assert window.credit == pytest.approx(1.8), "half of an hour's may be saved"
    assert window.sum_spent(3600.0) == 1.8
    assert window.sum_spent(7200.0) == 0.0
    again = BudgetWindow(HOUR, 3.6, 0.0, brake=1.1)
    again.restore(window.to_json())
    assert again.to_json() == window.to_json()


def test_what_was_spent_is_found_again_where_a_budget_was_added_or_taken_away() -> None:
    both = Plan((monitor(usd_per_hour=1.0, usd_per_day=10.0, hard_cap=1.0),))
    budget = BudgetController(both, 1)
    budget.add_partition(0, 1e6, None, ())
    budget.settle(job(both.monitors[0]), 0, 0.5, 1e6)
    _, account = budget.decide_rates(0, 1e6 + 60)
    for limits, then, used in (
        ({"usd_per_day": 10.0}, 1e6 + 61, 0.05),
        ({"usd_per_day": 10.0}, 1e6 + 2 * DAY, 0.0),
        ({"usd_per_hour": 1.0}, 1e6 + 61, 0.5),
    ):
        changed = BudgetController(Plan((monitor(**limits, hard_cap=1.0),)), 1)
        changed.add_partition(0, 1e6 + 61, account, ())
        assert changed.used_fraction("m", then) == pytest.approx(used), limits


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_factor_is_a_share(allowed: float, demand: float) -> None:
    assert FLOOR <= rate_factor(allowed, demand) <= 1.0


@pytest.mark.parametrize(("hard_cap", "brake"), [(1.0, 1.0), (1.2, 1.1), (10.0, 1.125)])
def test_rates_are_braked_before_the_hard_cap(hard_cap: float, brake: float) -> None:
    assert Budget(usd_per_hour=1.0, hard_cap=hard_cap).brake == pytest.approx(brake)


def test_what_the_last_period_leaves_below_the_brake_is_all_that_is_allowed() -> None:
    window = BudgetWindow(HOUR, 3.6, 0.0, brake=1.1)
    for minute in range(60):
        window.accrue(60.0 * minute)
        window.spend(0.0625, 60.0 * minute)
    window.accrue(HOUR - 1.0)
    window.credit = 0.3
    assert window.allowed_per_second == pytest.approx((1.1 * 3.6 - 3.75) / 300)
    window.spend(0.2, HOUR - 1.0)
    assert window.allowed_per_second == pytest.approx(0.00025)


def test_a_rate_is_decided_again_before_its_minute_is_over_where_traffic_jumps() -> None:
    watched = monitor(usd_per_hour=1.0)
    budget = BudgetController(Plan((watched,)), 1)
    budget.add_partition(0, 0.0, None, ())

    def come(number: int, now: float) -> bool:
        for _ in range(number):
            budget.add_demand(0, watched, ASSIGNMENT, 1.0)
        return budget.is_decision_due(0, now)

    for minute in range(1, 30):
        assert come(60, 60.0 * minute)
        budget.decide_rates(0, 60.0 * minute)
    before = budget.factor("m")
    assert not come(20, 29 * 60 + 15.0), "chance alone makes 20 of 15"
    assert not come(60, 29 * 60 + 9.0), "too early to tell"
    assert come(0, 29 * 60 + 20.0)
    budget.decide_rates(0, 29 * 60 + 20.0)
    assert budget.factor("m") < before / 3, "four times as much: it is believed at once"
    assert not come(80, 30 * 60.0), "no news"


def _after_a_stop(seconds: float) -> tuple[float, float]:
    """The factor before a stop of an owner whose traffic is 2 a second, and ten seconds after it, the backlog read."""
    watched = monitor(usd_per_hour=30.0)
    budget = BudgetController(Plan((watched,)), 1)
    budget.add_partition(0, 0.0, None, ())
    rates = Rates()
    for second in range(1, 1800):
        budget.add_demand(0, watched, ASSIGNMENT, 2.0)
        if budget.is_decision_due(0, float(second), float(second)):
            rates, _ = budget.decide_rates(0, float(second))
    before, since = budget.factor("m"), 1800.0 + seconds
    assert 0.3 < before < 0.9
    again = BudgetController(Plan((watched,)), 1)
    again.add_partition(0, since, budget.saved(0), (), rates)
    for tenth in range(1, 101):
        now = since + tenth / 10
        for _ in range(10):
            again.add_demand(0, watched, ASSIGNMENT, 2.0 * (seconds + 10.0) / 1000)
        if again.is_decision_due(0, now, min(now, 1800.0 + (seconds + 10.0) * tenth / 100)):
            again.decide_rates(0, now)
    return before, again.factor("m")


def test_what_came_during_a_stop_is_not_taken_for_a_rush() -> None:
    """A reload of 20 seconds cut the rate to a third, and a minute without a judge to a tenth, for many minutes."""
    for seconds in (20.0, 100.0, 500.0):
        before, after = _after_a_stop(seconds)
        assert after == pytest.approx(before, rel=0.2), seconds
    before, after = _after_a_stop(36_000.0)
    assert after < before / 20, "ten hours at once would reach the hard cap"


def test_what_a_day_saves_is_spent_in_six_hours_and_its_debt_is_repaid_in_three() -> None:
    window = BudgetWindow(DAY, 86.4, 0.0, brake=1.1)
    window.accrue(6 * HOUR)
    assert window.credit == pytest.approx(21.6)
    assert window.allowed_per_second == pytest.approx(0.001 + 0.001)
    window.spend(21.6 + 5.4, 6 * HOUR)
    assert window.allowed_per_second == pytest.approx(0.001 - 0.0005)


def test_time_that_runs_backwards_changes_no_credit() -> None:
    window = BudgetWindow(HOUR, 3.6, 100.0, brake=1.1)
    window.accrue(50.0)
    assert window.credit == 0.0
    window.accrue(200.0)
    assert window.credit == pytest.approx(0.1)


def test_what_was_spent_counts_for_a_period_and_up_to_one_sixtieth_more() -> None:
    window = BudgetWindow(HOUR, 3.6, 0.0, brake=1.1)
    for cost, now in ((1.0, 59.0), (2.0, 60.0), (4.0, 119.0)):
        window.spend(cost, now)
    assert [window.sum_spent(now) for now in (119.0, 3659.0, 3660.0, 3719.0, 3720.0)] == [7.0, 7.0, 6.0, 6.0, 0.0]


def test_unless_configured_the_hard_cap_is_a_fifth_above_the_budget_and_fallbacks_take_over_a_tenth_below_it() -> None:
    assert (Budget().hard_cap, Budget().fallback_at) == (1.2, 0.9)


def test_the_estimate_of_demand_keeps_four_fifths_a_minute() -> None:
    demand = Demand()
    demand.add(120.0)
    demand.update(60.0)
    assert demand.per_second == 2.0, "the first is believed"
    demand.add(60.0)
    demand.update(60.0)
    assert demand.per_second == pytest.approx(0.8 * 2.0 + 0.2 * 1.0)
    demand.update(120.0)
    assert demand.per_second == pytest.approx(0.64 * 1.8)
    before = demand.per_second
    demand.add(1.0)
    demand.update(0.0)
    assert demand.per_second == before, "no time has passed"
    demand.add(59.0)
    demand.update(60.0)
    assert demand.per_second == pytest.approx(0.8 * before + 0.2 * 1.0), "and nothing was forgotten for that"


@pytest.mark.parametrize(
    ("number", "units", "jumped"), [(16, 1.0, False), (17, 1.0, True), (16, 0.5, False), (17, 0.5, True)]
)
def test_a_jump_is_more_than_three_standard_deviations_above_what_was_expected(
    number: int, units: float, jumped: bool
) -> None:
    """Sixteen subjects, each judged with probability p, are 16p; their standard deviation is 4p, and 4p was expected."""
    demand = Demand()
    assert not demand.has_jumped(1.0), "nothing is known yet"
    demand.per_second = units / 4.0
    for _ in range(number):
        demand.add(units)
    assert demand.has_jumped(16.0) is jumped
    demand.update(16.0)
    if jumped:
        assert demand.per_second == number * units / 16.0, "believed at once"
    assert not demand.has_jumped(4.0), "a jump is told from new traffic alone"


@pytest.mark.parametrize(
    ("allowed", "demand", "factor"),
    [
        (1.0, 1.0, 1.0),
        (2.0, 1.0, 1.0),
        (1.0, 2.0, 0.5),
        (1.0, 3.0, 0.333333),
        (0.123456789, 10.0, 0.0123457),
        (1.0, 1e6, 0.002),
    ],
)
def test_the_factor_is_what_is_allowed_of_what_is_asked_for_to_six_digits(
    allowed: float, demand: float, factor: float
) -> None:
    assert rate_factor(allowed, demand) == factor


def test_demand_follows_the_recent_past() -> None:
    demand = Demand()
    for _ in range(60):
        demand.add(2.0)
        demand.update(1.0)
    assert demand.per_second == pytest.approx(2.0)
    demand.update(600.0)
    assert demand.per_second < 0.3


def test_the_hard_cap_is_not_passed_by_more_than_what_is_on_its_way() -> None:
    watched = monitor(usd_per_hour=1.0, hard_cap=1.0)
    budget = BudgetController(Plan((watched,)), 1)
    budget.add_partition(0, 0.0, None, ())
    made, on_their_way = 0, []
    for n in range(1000):
        each = job(watched)
        if budget.reserve(each, float(n)):
            on_their_way.append(each)
        if len(on_their_way) > 7:
            made += 1
            budget.settle(on_their_way.pop(0), 0, 0.03, float(n))
    assert made * 0.03 <= 1.0 + 8 * 0.03
    assert made * 0.03 > 0.75


def test_partitions_share_a_budget_and_carry_their_account_along() -> None:
    watched = monitor(usd_per_hour=10.0, hard_cap=1.0)
    one, two = BudgetController(Plan((watched,)), 4), BudgetController(Plan((watched,)), 4)
    for partition, budget in enumerate((one, one, two, two)):
        budget.add_partition(partition, 0.0, None, ())
    one.settle(job(watched), 0, 2.0, 5.0)
    assert one.used_fraction("m", 10.0) == pytest.approx(0.4)
    assert two.used_fraction("m", 10.0) == 0.0
    _, account = one.decide_rates(0, 60.0)
    one.remove_partition(0)
    two.add_partition(0, 61.0, account, [("m", 1.0, 60.5)])
    assert two.used_fraction("m", 70.0) == pytest.approx(3.0 / 7.5)
    assert one.used_fraction("m", 70.0) == 0.0


def test_the_budget_of_all_monitors_binds_each_of_them_and_cheaper_judges_take_over_near_its_end() -> None:
    one, two = monitor("one", usd_per_hour=100.0), monitor("two")
    budget = BudgetController(Plan((one, two), budget=Budget(usd_per_hour=1.0, usd_per_day=24.0, hard_cap=1.0)), 1)
    budget.add_partition(0, 0.0, None, ())
    for each in (one, two):
        for _ in range(600):
            budget.add_demand(0, each, ASSIGNMENT, 1.0)
    rates, _ = budget.decide_rates(0, 600.0)
    assert rates.of("one") == rates.of("two")
    assert rates.of("one").factor == pytest.approx((1 / 6 * 0.6 + 1) / 3600 / 0.02, rel=0.2)
    assert not rates.of("one").fallback
    budget.settle(job(two), 0, 0.95, 601.0)
    rates, _ = budget.decide_rates(0, 660.0)
    assert rates.of("two").fallback
    assert ASSIGNMENT.evaluation_id("t") != ASSIGNMENT.evaluation_id("t", fallback=True)


async def test_what_is_decided_goes_before_what_an_earlier_owner_decided_for_the_same_record() -> None:
    earlier = ControlRecord(offset=5, rates=Rates({"m": RateReduction(0.5)}), budget={})
    now = ControlRecord(offset=5, rates=Rates({"m": RateReduction(0.25)}), budget={})
    tick = StoredRecord(0, 5, 1.0, None, b"", TICK)
    plan = Plan((monitor(usd_per_hour=1.0),))
    owner, replay = (
        PartitionState(plan, ReplayPoint(5), [earlier]),
        PartitionState(plan, ReplayPoint(5), [earlier, now]),
    )
    owner.apply_control(now)
    await owner.apply(tick)
    await replay.apply(tick)
    assert owner.rates == replay.rates == now.rates


async def test_weights_of_conversations_add_up_where_rates_rise_after_a_boosted_turn() -> None:
    """The boosted turn comes under a low rate, another under a higher one: some conversations are taken in by the second
    turn alone, and do not know of the first."""
    many = 3000
    solved = Completeness(name="solved")
    assignment = Assignment(solved, Named("m"), solved.version)
    watched = Monitor(
        "m", (assignment,), {}, budget=Budget(usd_per_hour=1.0), strata=Strata((Boost("error", 4.0, failed),))
    )
    decisions = [
        ControlRecord(offset=0, rates=Rates({"m": RateReduction(0.1)})),
        ControlRecord(offset=many, rates=Rates({"m": RateReduction(0.3)})),
    ]
    state = PartitionState(Plan((watched,)), ReplayPoint(0), decisions)
    position, weights = 0, []
    for error in ("boom", None):
        for number in range(many):
            of = Turn(turn_id=f"{error}{number}", conversation_id=f"c{number}", input="?", error=error)
            key = f"c{number}".encode()
            assert not await state.apply(StoredRecord(0, position, 1000.0, key, turn_to_json(of)))
            position += 1
    for job in await state.apply(StoredRecord(0, position, 1e6, None, b"", TICK)):
        weights.append(1.0 / job.sampling.probability)
    assert sum(weights) == pytest.approx(many, rel=0.06), "by chance it is off by 2 %, as a standard error"


def test_what_has_no_budget_keeps_its_rates_and_pays_nothing() -> None:
    budget = BudgetController(Plan((monitor("free"),)), 1)
    budget.add_partition(0, 0.0, None, ())
    assert (budget.limited, budget.is_decision_due(0, 1e6)) == (False, False)
    assert budget.reserve(job(monitor("free")), 0.0)


def test_notes_and_rates_come_back_as_they_were() -> None:
    rates = Rates({"m": RateReduction(0.0123456, fallback=True), "n": RateReduction(0.5)})
    note = CommitMetadata(ledger_offset=7, done_below=9, replay_point=ReplayPoint(3, 1700000000.25, rates))
    assert CommitMetadata.from_json(note.to_json(), 3) == note
    assert CommitMetadata.from_json("", 0) == CommitMetadata()


@pytest.mark.parametrize(
    ("state", "probability"),
    [
        ("ot=th:8", 0.5), ("x=y,ot=rv:abcdef;th:c", 0.25), ("ot=th:0", 1.0), ("ot=rv:1", None), ("x=th:8", None),
        ("ot=th:zz", None), ("", None), (None, None),
        ("ot=th:fff", 2**-12), ("ot=th:ffff", None), ("ot=th:ffffffffffffff", None),
    ],
)  # fmt: skip
def test_what_samplers_before_us_let_through(state: str | None, probability: float | None) -> None:
    assert upstream_of(state) == probability


def test_the_strongest_boost_wins() -> None:
    strata = Strata(
        (
            Boost("error", 4.0, failed),
            Boost("disliked", 3.0, partial(disliked, {})),
            Boost("slow", 2.0, slower_than(10.0)),
            Boost("low_score", 2.5, scored_below("words", 0.5)),
            Boost("service", 1.5, having(lambda turn: turn.service or "", ["a"])),
        )
    )
    down = (Feedback(name="thumbs", value=False),)
    assert strata.of(Turn(turn_id="t"), {}) == (1.0, "all")
    assert strata.of(Turn(turn_id="t", service="a"), {"words": 0.9}) == (1.5, "service")
    assert strata.of(Turn(turn_id="t", service="a"), {"words": 0.1}) == (2.5, "low_score")
    assert strata.of(Turn(turn_id="t", feedback=down), {"words": 0.1}) == (3.0, "disliked")
    assert strata.of(Turn(turn_id="t", feedback=down, error="boom"), {}) == (4.0, "error")
    assert strata.strongest == 4.0
    neutral = (Feedback(name="stars", value=2), Feedback(name="words", value="fine"), Feedback(name="up", value=True))
    assert strata.of(Turn(turn_id="t", feedback=neutral), {}) == (1.0, "all")


def test_days_and_hours() -> None:
    assert list(Budget(usd_per_hour=1.0, usd_per_day=2.0).windows()) == [(HOUR, 1.0), (DAY, 2.0)]
    assert (HOUR, DAY) == (3600.0, 86400.0)
    assert not Budget().limited
    assert Budget(usd_per_hour=1.0).limited
    assert Budget(usd_per_day=1.0).limited
