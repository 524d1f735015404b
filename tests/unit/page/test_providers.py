from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import get_args, get_type_hints

import pytest
from evaluation_samples import START, scored

from collector.alerting.rules.model import Severity
from collector.evaluate.budget.controller import ALL_MONITORS, BudgetController, BudgetUsage
from collector.evaluate.budget.windows import DAY, HOUR, Budget
from collector.evaluate.deferred.deferred_evaluations import WaitingRoom, WaitingRoomLimits
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.page.providers import (
    budget_views,
    criteria_of,
    deferred_view,
    drop_views,
    judge_alerts,
    traffic,
    usage_from_view,
    usages_of,
)
from collector.page.sources import AlertView, BudgetView, DeferredView, DropView, Traffic, TrafficView
from collector.page.view import OutcomeCounts, View
from collector.service.gauges import hide_open_batches, show_deferred, show_open_batches
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import (
    BREAKER_STATE,
    EVALUATIONS_DUE,
    EVALUATIONS_ENDED,
    JUDGE_PAUSED_REQUESTS,
    TURNS,
    UNMATCHED_TURNS,
)
from evaluators import ExactMatch, GEval, Turn
from evaluators.judge import NoJudge


def test_tells_what_the_process_has_counted():
    telemetry = Telemetry()
    assert (traffic(telemetry, {}), drop_views(telemetry)) == (Traffic(), [])
    telemetry.counter(TURNS, "helpdesk", "sampled").inc(3)
    telemetry.counter(TURNS, "helpdesk", "sampled_out").inc(2)
    for series, outcome, number in (
        (EVALUATIONS_DUE, "matched", 4), (EVALUATIONS_DUE, "resumed", 3), (EVALUATIONS_ENDED, "sampled_out", 2),
        (EVALUATIONS_ENDED, "reassigned", 2), (EVALUATIONS_DUE, "matched", 5), (EVALUATIONS_ENDED, "duplicate", 5),
    ):  # fmt: skip
        labels = ("helpdesk", "exact", outcome, "")[: len(series.labels)]
        telemetry.counter(series, *labels).inc(number)
    telemetry.counter(EVALUATIONS_ENDED, "helpdesk", "exact", "scored", "").inc(1)
    telemetry.counter(UNMATCHED_TURNS).inc()
    telemetry.drop("assemble", "unreadable")
    assert traffic(telemetry, {}).monitors == (
        TrafficView(
            monitor="helpdesk",
            counts={"sampled": 3, "sampled_out": 2},
            evaluations={"exact": {"waiting": 2, "sampled_out": 2, "resumed": 1, "judged_already": 5}},
        ),
        TrafficView(monitor="", counts={"unmatched": 1}),
    )
    assert drop_views(telemetry) == [DropView(stage="assemble", reason="unreadable", count=1)]


def test_no_turns_beside_evaluations_of_which_others_have_made_some():
    """The page had "188 turns matched, sampled 188" beside "scored 387" after another process had evaluated."""
    telemetry, key = Telemetry(), ("helpdesk", "exact")
    telemetry.counter(TURNS, "helpdesk", "sampled").inc(5)
    telemetry.counter(EVALUATIONS_DUE, *key, "matched").inc(5)
    for outcome, number in (("scored", 2), ("failed", 1), ("duplicate", 1)):
        telemetry.counter(EVALUATIONS_ENDED, *key, outcome, "").inc(number)
    can_have_made = OutcomeCounts(scored=3, others=Counter({("failed", "refused"): 1}))
    assert traffic(telemetry, {key: can_have_made}).monitors, "one waits: the log may have its record already"
    for more in ({key: replace(can_have_made, scored=4)}, {("gone", "exact"): OutcomeCounts(scored=1)}):
        assert traffic(telemetry, more) == Traffic(
            unknown="Another process has evaluated, too, since this one started."
        )


def test_a_judge_whose_breaker_is_open_is_an_alert():
    telemetry = Telemetry()
    for judge, state in (("good", "closed"), ("main", "open")):
        for each in ("closed", "half_open", "open"):
            telemetry.gauge(BREAKER_STATE, judge, each).set(each == state)
    telemetry.gauge(JUDGE_PAUSED_REQUESTS, "main").set(95)
    [alert] = judge_alerts(telemetry, "EvalstreamJudgeUnavailable")
    assert (alert.name, alert.severity) == ("EvalstreamJudgeUnavailable", "page")
    assert alert.summary.startswith(
        "judge main is unavailable or refuses every request: 95 requests of this process wait"
    )


PLAN = Plan(
    (
        Monitor("helpdesk", (), {}, budget=Budget(usd_per_hour=1.0, usd_per_day=10.0)),
        Monitor("search", (), {}),
    ),
    budget=Budget(usd_per_day=20.0),
)


def test_the_page_has_the_severities_of_the_rules():
    """It named one "ticket" that Prometheus and the pages of the documentation call "warning"."""
    assert {*get_args(get_type_hints(AlertView)["severity"])} - {"info"} == {*get_args(Severity)} - {"heartbeat"}


def test_budgets_are_those_of_all_partitions():
    purse = BudgetController(PLAN, partitions=1)
    purse.add_partition(0, 900.0, None, ())
    purse.add_partition(0, 1000.0, purse.saved(0), [("helpdesk", 0.2, 900.0), ("search", 0.5, 900.0)])
    assert budget_views(purse.usages(1000.0)) == [
        BudgetView(monitor="helpdesk", period="hour", limit_usd=1.0, spent_usd=0.2),
        BudgetView(monitor="helpdesk", period="day", limit_usd=10.0, spent_usd=0.2),
        BudgetView(monitor=None, period="day", limit_usd=20.0, spent_usd=0.7),
    ]


@pytest.mark.parametrize(
    ("own", "of", "shared", "spent"),
    [
        (0, 1, False, None), (1, 2, False, None), (0, 2, True, None),  # a start: partitions are not read back yet
        (1, 2, True, 0.25), (2, 2, True, 0.0), (1, 1, False, 0.0),
    ],
)  # fmt: skip
def test_what_was_spent_before_a_budget_is_never_its_spending_while_its_state_is_read_back(
    own: int, of: int, *, shared: bool, spent: float | None
) -> None:
    """The page showed $14.29 of $6 for the first seconds of a process: all that live scores had cost in the hour."""
    view, now, plan = View([]), START.timestamp(), Plan((Monitor("helpdesk", (), {}, budget=Budget(usd_per_hour=6.0)),))
    before = START - timedelta(seconds=60)
    view.add_evaluation(scored(1, monitor="helpdesk", cost_usd=0.25, started_at=before, ended_at=before), 0, 1, 1.0)
    budgets = BudgetController(plan, of)
    for partition in range(own):
        budgets.add_partition(partition, now, None, ())
    assert list(usages_of(budgets, plan, view, now, alone=not shared)) == [BudgetUsage("helpdesk", HOUR, 6.0, spent)]
    assert list(usages_of(None, plan, view, now, alone=not shared)) == [BudgetUsage("helpdesk", HOUR, 6.0, 0.25)]


def test_where_others_judge_what_was_spent_is_seen_in_the_evaluations():
    view = View([])
    for number, (monitor, ago) in enumerate((("helpdesk", 60), ("helpdesk", 7200), ("search", 60)), 1):
        ended = START - timedelta(seconds=ago)
        view.add_evaluation(
            scored(number, monitor=monitor, cost_usd=0.25, started_at=ended, ended_at=ended), 0, number, 1.0
        )
    assert list(usage_from_view(PLAN, view, START.timestamp())) == [
        BudgetUsage("helpdesk", HOUR, 1.0, 0.25),
        BudgetUsage("helpdesk", DAY, 10.0, 0.5),
        BudgetUsage(ALL_MONITORS, DAY, 20.0, 0.75),
    ]


def test_what_an_evaluator_judges_by_is_the_configurations_word_or_its_kinds() -> None:
    wanted = {"name": "x", "evaluation_params": ["actual_output"]}
    assert criteria_of(GEval(**wanted, criteria="Does it help?")) == "Does it help?"
    assert criteria_of(GEval(**wanted, evaluation_steps=["Read.", "Rate."])) == "Read. Rate."
    assert criteria_of(ExactMatch(name="exact")) == "1 if the answer equals the expected output, else 0."


EXACT = Assignment(ExactMatch(name="exact"), NoJudge(), "v")
WAITING = Job(
    evaluation_id="",
    monitor=Monitor(name="m", assignments=(EXACT,), match={}),
    assignment=EXACT,
    case=lambda: Turn(turn_id="t"),
    replay_point=ReplayPoint(0),
    trigger_offset=0,
)


def test_what_waits_for_batches() -> None:
    telemetry = Telemetry()
    assert deferred_view(telemetry) is None, "no monitor's evaluations may wait"
    room = WaitingRoom(WaitingRoomLimits(evaluations=10, bytes=1000))
    show_deferred(telemetry, room, lambda: 100.0)
    assert deferred_view(telemetry) == DeferredView(gathering=0, submitted=0, oldest=0.0, batches=0)
    jobs = [replace(WAITING, evaluation_id=name, triggered_at=when) for name, when in (("a", 40.0), ("b", 90.0))]
    room.enter(jobs, 10)
    room.move(jobs[:1], "submitted")
    show_open_batches(telemetry, ["main", "dear"], {"main": 2, "dear": 3}.__getitem__, lambda _judge: False)
    assert deferred_view(telemetry) == DeferredView(gathering=1, submitted=1, oldest=60.0, batches=5)
    room.leave(jobs[:1])
    hide_open_batches(telemetry, ["main", "dear"])
    assert deferred_view(telemetry) == DeferredView(gathering=1, submitted=0, oldest=10.0, batches=0)
    show_deferred(telemetry, None, lambda: 100.0)
    assert deferred_view(telemetry) is None
