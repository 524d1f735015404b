"""Starts the evaluate stage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from collector.config.settings import EvaluateSettings
from collector.evaluate.budget import PERIODS
from collector.evaluate.counted import Counted
from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.fold import Bounds
from collector.evaluate.lanes import Lanes, Room
from collector.evaluate.plan import Plan
from collector.evaluate.purse import Purse
from collector.evaluate.stage import EvaluateStage
from collector.starting.process import Process
from collector.telemetry import (
    BUDGET_FACTOR,
    BUDGET_SPENT,
    BUDGET_USD,
    EVALUATIONS_IN_FLIGHT,
    EVALUATIONS_WAITING,
    HELD_BACK,
    OPEN_CONVERSATIONS,
    Telemetry,
)


def start_evaluate(process: Process, purse: Purse) -> None:
    """Follow the turns log and judge what falls due, paid from the purse."""
    settings, logs = process.config.settings.evaluate, process.logs
    letters = process.guards.letters("evaluate", logs.turns.name, logs)
    dispatcher = Dispatcher(
        logs.evaluations,
        room=Room(places=settings.concurrency, waiting=settings.waiting, bytes=settings.waiting_bytes),
        clock=process.clock,
        purse=purse,
        shed_after=settings.shed_after,
        run=process.guards.safeguards.run,
    )
    stage = EvaluateStage(
        process.plan,
        logs.evaluations,
        dispatcher,
        turns=logs.turns,
        bounds=_bounds(settings),
        grace=settings.grace,
        tally=Counted(process.telemetry, process.plan),
        purse=purse,
        clock=process.clock,
        on_bad_record=letters.take,
    )
    _show_budgets(process.telemetry, purse, process.clock)
    _show_lanes(process.telemetry, process.plan, dispatcher.lanes)
    process.telemetry.gauge(OPEN_CONVERSATIONS).set_function(lambda: stage.open_conversations)
    process.telemetry.gauge(EVALUATIONS_IN_FLIGHT).set_function(lambda: stage.jobs)
    process.tasks.before_stop(stage.stop)
    process.tasks.follow(logs.turns, "evaluate", letters.guarding(stage.open_fold))


def _bounds(settings: EvaluateSettings) -> Bounds:
    return Bounds(
        conversations=settings.open_conversations,
        bytes=settings.open_bytes,
        records=settings.carry_records,
        seconds=settings.carry_after,
        ahead=settings.carry_records,
    )


def _show_budgets(telemetry: Telemetry, purse: Purse, clock: Callable[[], float]) -> None:
    for name, limits in purse.limits.items():
        telemetry.gauge(BUDGET_FACTOR, name or "all").set_function(partial(purse.factor, name))
        telemetry.gauge(BUDGET_SPENT, name or "all").set_function(lambda name=name: purse.used(name, clock()))
        for period, usd in limits.windows():
            telemetry.gauge(BUDGET_USD, name or "all", PERIODS[period]).set(usd)


def _show_lanes(telemetry: Telemetry, plan: Plan, lanes: Lanes) -> None:
    for name in plan.judge_names:
        lane = lanes.of(name)
        telemetry.gauge(EVALUATIONS_WAITING, name or "none").set_function(partial(getattr, lane, "waiting"))
        telemetry.gauge(HELD_BACK, name or "none").set_function(partial(getattr, lane, "held_back"))
