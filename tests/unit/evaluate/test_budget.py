import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.evaluate.budget import DAY, FLOOR, HOUR, Demand, Limits, Window, factor_of
from collector.evaluate.decisions import Decision
from collector.evaluate.marks import Mark, Note
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.purse import Purse
from collector.evaluate.rates import Rates, Share
from collector.evaluate.sampling import upstream_of
from collector.evaluate.state import State
from collector.evaluate.strata import Boost, Strata, disliked, failed, having, scored_below, slower_than
from collector.logs.log import TICK, Stored
from collector.records import turn_to_json
from evaluators.cases import Feedback, Turn
from evaluators.conversational.completeness import Completeness
from evaluators.output.g_eval import GEval


class Named:
    def __init__(self, model: str) -> None:
        self.model = model

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


GOOD = GEval(name="good", evaluation_steps=["Look."], evaluation_params=["input"])
ASSIGNMENT = Assignment(GOOD, Named("dear"), "v", fallback=Named("cheap"), expected_usd=0.01)


def monitor(name: str = "m", **limits: float) -> Monitor:
    return Monitor(name=name, assignments=(ASSIGNMENT,), match={}, limits=Limits(**limits))


NUMBERS = itertools.count()


def job(of: Monitor) -> Job:
    return Job(
        evaluation_id=str(next(NUMBERS)), monitor=of, assignment=ASSIGNMENT, case=lambda: Turn(turn_id="t"), needs=Mark(0), emitted=0
    )  # fmt: skip


def test_a_budget_accrues_is_spent_and_saves_little() -> None:
    window = Window(HOUR, 3.6, 0.0)
    assert window.allowed == pytest.approx(0.001)
    window.spend(0.9, 10.0)
    assert window.allowed == pytest.approx(0.0005), "a debt is repaid in half an hour"
    window.spend(0.9, 10.0)
    assert window.allowed == pytest.approx(0.00025), "a quarter of the pace is always allowed"
    window.accrue(HOUR)
    assert window.credit == pytest.approx(1.8), "half of an hour's may be saved"
    assert window.spent(3600.0) == 1.8
    assert window.spent(7200.0) == 0.0
    again = Window(HOUR, 3.6, 0.0)
    again.restore(window.plain())
    assert again.plain() == window.plain()


def test_what_was_spent_is_found_again_where_a_budget_was_added_or_taken_away() -> None:
    both = Plan((monitor(usd_per_hour=1.0, usd_per_day=10.0, hard_cap=1.0),))
    purse = Purse(both, 1)
    purse.open(0, 1e6, None, ())
    purse.settle(job(both.monitors[0]), 0, 0.5, 1e6)
    _, account = purse.decide(0, 1e6 + 60)
    for limits, then, used in (
        ({"usd_per_day": 10.0}, 1e6 + 61, 0.05),
        ({"usd_per_day": 10.0}, 1e6 + 2 * DAY, 0.0),
        ({"usd_per_hour": 1.0}, 1e6 + 61, 0.5),
    ):
        changed = Purse(Plan((monitor(**limits, hard_cap=1.0),)), 1)
        changed.open(0, 1e6 + 61, account, ())
        assert changed.used("m", then) == pytest.approx(used), limits


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_factor_is_a_share(allowed: float, demand: float) -> None:
    assert FLOOR <= factor_of(allowed, demand) <= 1.0


@pytest.mark.parametrize(("hard_cap", "brake"), [(1.0, 1.0), (1.2, 1.1), (10.0, 1.125)])
def test_rates_are_braked_before_the_hard_cap(hard_cap: float, brake: float) -> None:
    assert Limits(usd_per_hour=1.0, hard_cap=hard_cap).brake == pytest.approx(brake)


def test_what_the_last_period_leaves_below_the_brake_is_all_that_is_allowed() -> None:
    window = Window(HOUR, 3.6, 0.0, brake=1.1)
    for minute in range(60):
        window.accrue(60.0 * minute)
        window.spend(0.0625, 60.0 * minute)
    window.accrue(HOUR - 1.0)
    window.credit = 0.3
    assert window.allowed == pytest.approx((1.1 * 3.6 - 3.75) / 300)
    window.spend(0.2, HOUR - 1.0)
    assert window.allowed == pytest.approx(0.00025)


def test_a_rate_is_decided_again_before_its_minute_is_over_where_traffic_jumps() -> None:
    watched = monitor(usd_per_hour=1.0)
    purse = Purse(Plan((watched,)), 1)
    purse.open(0, 0.0, None, ())

    def come(number: int, now: float) -> bool:
        for _ in range(number):
            purse.demand(0, watched, ASSIGNMENT, 1.0)
        return purse.due(0, now)

    for minute in range(1, 30):
        assert come(60, 60.0 * minute)
        purse.decide(0, 60.0 * minute)
    before = purse.factor("m")
    assert not come(20, 29 * 60 + 15.0), "chance alone makes 20 of 15"
    assert not come(60, 29 * 60 + 9.0), "too early to tell"
    assert come(0, 29 * 60 + 20.0)
    purse.decide(0, 29 * 60 + 20.0)
    assert purse.factor("m") < before / 3, "four times as much: it is believed at once"
    assert not come(80, 30 * 60.0), "no news"


def test_demand_follows_the_recent_past() -> None:
    demand = Demand()
    for _ in range(60):
        demand.add(2.0)
        demand.step(1.0)
    assert demand.per_second == pytest.approx(2.0)
    demand.step(600.0)
    assert demand.per_second < 0.3


def test_the_hard_cap_is_not_passed_by_more_than_what_is_on_its_way() -> None:
    watched = monitor(usd_per_hour=1.0, hard_cap=1.0)
    purse = Purse(Plan((watched,)), 1)
    purse.open(0, 0.0, None, ())
    made, on_their_way = 0, []
    for n in range(1000):
        each = job(watched)
        if purse.reserve(each, float(n)):
            on_their_way.append(each)
        if len(on_their_way) > 7:
            made += 1
            purse.settle(on_their_way.pop(0), 0, 0.03, float(n))
    assert made * 0.03 <= 1.0 + 8 * 0.03
    assert made * 0.03 > 0.75


def test_partitions_share_a_budget_and_carry_their_account_along() -> None:
    watched = monitor(usd_per_hour=10.0, hard_cap=1.0)
    one, two = Purse(Plan((watched,)), 4), Purse(Plan((watched,)), 4)
    for partition, purse in enumerate((one, one, two, two)):
        purse.open(partition, 0.0, None, ())
    one.settle(job(watched), 0, 2.0, 5.0)
    assert one.used("m", 10.0) == pytest.approx(0.4)
    assert two.used("m", 10.0) == 0.0
    _, account = one.decide(0, 60.0)
    one.close(0)
    two.open(0, 61.0, account, [("m", 1.0, 60.5)])
    assert two.used("m", 70.0) == pytest.approx(3.0 / 7.5)
    assert one.used("m", 70.0) == 0.0


def test_the_budget_of_all_monitors_binds_each_of_them_and_cheaper_judges_take_over_near_its_end() -> None:
    one, two = monitor("one", usd_per_hour=100.0), monitor("two")
    purse = Purse(Plan((one, two), limits=Limits(usd_per_hour=1.0, usd_per_day=24.0, hard_cap=1.0)), 1)
    purse.open(0, 0.0, None, ())
    for each in (one, two):
        for _ in range(600):
            purse.demand(0, each, ASSIGNMENT, 1.0)
    rates, _ = purse.decide(0, 600.0)
    assert rates.of("one") == rates.of("two")
    assert rates.of("one").factor == pytest.approx((1 / 6 * 0.6 + 1) / 3600 / 0.02, rel=0.2)
    assert not rates.of("one").fallback
    purse.settle(job(two), 0, 0.95, 601.0)
    rates, _ = purse.decide(0, 660.0)
    assert rates.of("two").fallback
    assert ASSIGNMENT.evaluation_id("t") != ASSIGNMENT.evaluation_id("t", fallback=True)


async def test_what_is_decided_goes_before_what_an_earlier_owner_decided_for_the_same_record() -> None:
    earlier = Decision(at=5, rates=Rates({"m": Share(0.5)}), account={})
    now = Decision(at=5, rates=Rates({"m": Share(0.25)}), account={})
    tick = Stored(0, 5, 1.0, None, b"", TICK)
    plan = Plan((monitor(usd_per_hour=1.0),))
    owner, replay = State(plan, Mark(5), [earlier]), State(plan, Mark(5), [earlier, now])
    owner.decide(now)
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
        "m", (assignment,), {}, limits=Limits(usd_per_hour=1.0), strata=Strata((Boost("error", 4.0, failed),))
    )
    decisions = [Decision(at=0, rates=Rates({"m": Share(0.1)})), Decision(at=many, rates=Rates({"m": Share(0.3)}))]
    state = State(Plan((watched,)), Mark(0), decisions)
    position, weights = 0, []
    for error in ("boom", None):
        for number in range(many):
            of = Turn(turn_id=f"{error}{number}", conversation_id=f"c{number}", input="?", error=error)
            key = f"c{number}".encode()
            assert not await state.apply(Stored(0, position, 1000.0, key, turn_to_json(of)))
            position += 1
    for job in await state.apply(Stored(0, position, 1e6, None, b"", TICK)):
        weights.append(1.0 / job.sampling.probability)
    assert sum(weights) == pytest.approx(many, rel=0.06), "by chance it is off by 2 %, as a standard error"


def test_what_has_no_budget_keeps_its_rates_and_pays_nothing() -> None:
    purse = Purse(Plan((monitor("free"),)), 1)
    purse.open(0, 0.0, None, ())
    assert (purse.limited, purse.due(0, 1e6), purse.first().of("free").factor) == (False, False, 1.0)
    assert purse.reserve(job(monitor("free")), 0.0)


def test_notes_and_rates_come_back_as_they_were() -> None:
    rates = Rates({"m": Share(0.0123456, fallback=True), "n": Share(0.5)})
    note = Note(ledger=7, emitted=9, start=Mark(3, 1700000000.25, rates))
    assert Note.read(note.text(), 3) == note
    assert Note.read("", 0) == Note()


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
            Boost("disliked", 3.0, disliked),
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
    neutral = (Feedback(name="stars", value=0), Feedback(name="words", value="fine"), Feedback(name="up", value=True))
    assert strata.of(Turn(turn_id="t", feedback=neutral), {}) == (1.0, "all")


def test_days_and_hours() -> None:
    assert list(Limits(usd_per_hour=1.0, usd_per_day=2.0).windows()) == [(HOUR, 1.0), (DAY, 2.0)]
    assert not Limits().limited
