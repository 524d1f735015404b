from __future__ import annotations

from datetime import timedelta

from evaluation_samples import START, scored

from collector.evaluate.budget import DAY, HOUR, Limits
from collector.evaluate.plan import Monitor, Plan
from collector.evaluate.purse import ALL, Purse, Spending
from collector.page.sources import Budget, DeadLetters, Traffic
from collector.page.view import View
from collector.page.wiring import budgets_of, sources_of, spendings_seen
from collector.telemetry import TURNS, Telemetry


def test_tells_what_the_process_has_counted():
    telemetry = Telemetry()
    sources = sources_of(telemetry)
    assert (sources.traffic(), sources.dead_letters()) == ([], [])
    telemetry.counter(TURNS, "helpdesk", "sampled").inc(3)
    telemetry.counter(TURNS, "helpdesk", "sampled_out").inc(2)
    telemetry.counter(TURNS, "", "unmatched").inc()
    telemetry.drop("assemble", "unreadable")
    assert sources.traffic() == [
        Traffic(monitor="helpdesk", counts={"sampled": 3, "sampled_out": 2}),
        Traffic(monitor="", counts={"unmatched": 1}),
    ]
    assert sources.dead_letters() == [DeadLetters(stage="assemble", reason="unreadable", count=1)]


PLAN = Plan(
    (
        Monitor("helpdesk", (), {}, limits=Limits(usd_per_hour=1.0, usd_per_day=10.0)),
        Monitor("search", (), {}),
    ),
    limits=Limits(usd_per_day=20.0),
)


def test_budgets_are_those_of_the_partitions_that_this_process_has():
    purse = Purse(PLAN, partitions=4)
    purse.open(2, 1000.0, None, [("helpdesk", 0.2, 900.0), ("search", 0.5, 900.0)])
    assert budgets_of(purse.spendings(1000.0)) == [
        Budget(monitor="helpdesk", period="hour", limit_usd=0.25, spent_usd=0.2),
        Budget(monitor="helpdesk", period="day", limit_usd=2.5, spent_usd=0.2),
        Budget(monitor=None, period="day", limit_usd=5.0, spent_usd=0.7),
    ]


def test_where_others_judge_what_was_spent_is_seen_in_the_evaluations():
    view = View([])
    for number, (monitor, ago) in enumerate((("helpdesk", 60), ("helpdesk", 7200), ("search", 60)), 1):
        ended = START - timedelta(seconds=ago)
        view.add_evaluation(
            scored(number, monitor=monitor, cost_usd=0.25, started_at=ended, ended_at=ended), 0, number, 1.0
        )
    assert list(spendings_seen(PLAN, view, START.timestamp())) == [
        Spending("helpdesk", HOUR, 1.0, 0.25),
        Spending("helpdesk", DAY, 10.0, 0.5),
        Spending(ALL, DAY, 20.0, 0.75),
    ]
