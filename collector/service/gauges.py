"""The gauges of the stages' state, read whenever /metrics is scraped. Counters are counted where things happen."""

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib.metadata import version
from typing import get_args

from collector.alerting.rules.generate import rules_hash
from collector.assemble.stage import AssembleStage
from collector.config.configured import Config
from collector.config.section_hashes import section_hashes
from collector.evaluate.budget.controller import ALL_MONITORS, BudgetController
from collector.evaluate.budget.windows import PERIODS
from collector.evaluate.deferred.deferred_evaluations import DeferredState, WaitingRoom
from collector.evaluate.plan import Plan
from collector.evaluate.scheduling.dispatch import Bulkheads
from collector.evaluate.stage import EvaluateStage
from collector.plugins.registry import installed_packages
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from evaluators.judges.circuit_breaker import State


def show_build(telemetry: Telemetry, config: Config, stages: Collection[str]) -> None:
    """Start, versions and configuration, so that dashboards show when one changed. Secrets are masked before hashing.

    Packages and the hashes of sections are for `evalstream check`, which says in what a running service differs from a
    file.

    The hash of the rules and the stages are for alerts: on rules of another configuration, and on a stage that no
    process runs.
    """
    telemetry.gauge(series.START).set(time.time())
    telemetry.gauge(series.BUILD_INFO, version("evalstream")).set(1)
    telemetry.replace(series.PACKAGE_INFO, dict.fromkeys(installed_packages().values(), 1))
    show_configuration(telemetry, config)
    for stage in stages:
        telemetry.gauge(series.STAGE_UP, stage).set(1)


def show_configuration(telemetry: Telemetry, config: Config, before: Config | None = None) -> None:
    """Show the hashes of the running configuration, its sections and its rules, and remove those of `before`."""
    sections = section_hashes(config)
    if before is not None:
        telemetry.remove(series.CONFIG_INFO, _digest(before))
        telemetry.remove(series.RULES_INFO, rules_hash(before))
        for section, section_hash in section_hashes(before).items():
            telemetry.remove(series.CONFIG_SECTION_INFO, section, section_hash)
    telemetry.reserve("section", *sections)
    telemetry.reserve("hash", _digest(config), rules_hash(config), *sections.values())
    telemetry.gauge(series.CONFIG_INFO, _digest(config)).set(1)
    for section, section_hash in sections.items():
        telemetry.gauge(series.CONFIG_SECTION_INFO, section, section_hash).set(1)
    telemetry.gauge(series.RULES_INFO, rules_hash(config)).set(1)


def _digest(config: Config) -> str:
    return hashlib.sha256(config.settings.model_dump_json().encode()).hexdigest()[:12]


def show_assemble(telemetry: Telemetry, stage: AssembleStage) -> None:
    """Traces that are still open."""
    telemetry.gauge(series.OPEN_TRACES).set_function(lambda: stage.open_traces)


def show_evaluate(telemetry: Telemetry, stage: EvaluateStage) -> None:
    """Conversations that are still open; evaluations in flight, and how many of them run."""
    telemetry.gauge(series.OPEN_CONVERSATIONS).set_function(lambda: stage.open_conversations)
    telemetry.gauge(series.REFERENCES_AWAITED).set_function(lambda: stage.awaiting_reference)
    telemetry.gauge(series.EVALUATIONS_IN_FLIGHT).set_function(lambda: stage.in_flight)
    telemetry.gauge(series.EVALUATIONS_RUNNING).set_function(lambda: stage.running)


def show_bulkheads(telemetry: Telemetry, plan: Plan, bulkheads: Bulkheads) -> None:
    """The evaluations that wait for each judge, and the partitions that are paused for it."""
    for name in plan.judge_names:
        waiting, paused = (partial(getattr, bulkheads[name], figure) for figure in ("waiting", "paused_partitions"))
        telemetry.gauge(series.EVALUATIONS_WAITING, name or "none").set_function(waiting)
        telemetry.gauge(series.PAUSED_PARTITIONS, name or "none").set_function(paused)


def hide_breakers(telemetry: Telemetry, judges: Collection[str]) -> None:
    """Remove the circuit breakers of judges that are not configured any more: an open one would stay open."""
    for judge in judges:
        for state in get_args(State):
            telemetry.remove(series.BREAKER_STATE, judge, state)


def show_open_batches(
    telemetry: Telemetry, judges: Collection[str], count: Callable[[str], int], lacks_batches: Callable[[str], bool]
) -> None:
    """The batches of judges that have not ended, and which judges have none at all."""
    for judge in judges:
        telemetry.gauge(series.BATCHES_OPEN, judge).set_function(partial(count, judge))
        telemetry.gauge(series.BATCHES_ABSENT, judge).set_function(partial(lacks_batches, judge))


def hide_open_batches(telemetry: Telemetry, judges: Collection[str]) -> None:
    """Remove the series of judges of a configuration that is not in force any more."""
    for judge in judges:
        telemetry.remove(series.BATCHES_OPEN, judge)
        telemetry.remove(series.BATCHES_ABSENT, judge)


def show_deferred(telemetry: Telemetry, room: WaitingRoom | None, clock: Callable[[], float]) -> None:
    """Evaluations that wait for batches, and since when."""
    if room is None:
        for state in get_args(DeferredState):
            telemetry.remove(series.EVALUATIONS_DEFERRED, state)
        telemetry.remove(series.DEFERRED_OLDEST)
        return
    for state in get_args(DeferredState):
        telemetry.gauge(series.EVALUATIONS_DEFERRED, state).set_function(partial(room.count, state))
    telemetry.gauge(series.DEFERRED_OLDEST).set_function(lambda: 0.0 if room.oldest is None else clock() - room.oldest)


def hide_budgets(telemetry: Telemetry, plan: Plan) -> None:
    """Remove the series of a plan that is not in force any more."""
    for monitor in plan.monitors:
        telemetry.remove(series.BUDGET_FACTOR, monitor.name)
    for name, budget in [*((monitor.name, monitor.budget) for monitor in plan.monitors), (ALL_MONITORS, plan.budget)]:
        spent, usd, labels = _of_budget(name)
        telemetry.remove(spent, *labels)
        for period, _ in budget.windows():
            telemetry.remove(usd, *labels, PERIODS[period])


def _of_budget(name: str) -> tuple[series.Series, series.Series, Sequence[str]]:
    """The series of what is spent of a budget and of its limits, and the labels that name it."""
    if name == ALL_MONITORS:
        return series.TOTAL_BUDGET_SPENT, series.TOTAL_BUDGET_USD, ()
    return series.BUDGET_SPENT, series.BUDGET_USD, (name,)


def show_budgets(telemetry: Telemetry, plan: Plan, budgets: BudgetController, clock: Callable[[], float]) -> None:
    """The budget of each monitor and of all, what is spent of it, and the factor on the monitors' sampling rates."""
    for monitor in plan.monitors:
        if monitor.budget.limited or plan.budget.limited:
            telemetry.gauge(series.BUDGET_FACTOR, monitor.name).set_function(partial(budgets.factor, monitor.name))
    for name, limits in budgets.budgets.items():
        spent, usd, labels = _of_budget(name)
        telemetry.gauge(spent, *labels).set_function(lambda name=name: budgets.used_fraction(name, clock()))
        for period, limit in limits.windows():
            telemetry.gauge(usd, *labels, PERIODS[period]).set(limit)
