"""The start of the evaluate stage."""

from __future__ import annotations

from functools import partial

from collector.config.settings import EvaluateSettings
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.partition_processor import StateLimits
from collector.evaluate.recovery.sample_rate_notes import SampleRateNotes
from collector.evaluate.scheduling.bulkhead import BulkheadLimits
from collector.evaluate.scheduling.dispatch import Dispatcher
from collector.evaluate.stage import GROUP, EvaluateStage
from collector.service.gauges import show_budgets, show_bulkheads, show_evaluate
from collector.service.process import Process


def start_evaluate(process: Process, budgets: BudgetController) -> None:
    """Consume the turns log and evaluate what becomes due, within the budgets."""
    settings, logs = process.config.settings.evaluate, process.logs
    dead_letters = process.resources.dead_letters("evaluate", logs.turns.name, logs)
    dispatcher = Dispatcher(
        logs.evaluations,
        process.resources.guardrails,
        limits=BulkheadLimits(
            slots=settings.concurrency, waiting=settings.max_waiting, bytes=settings.max_waiting_bytes
        ),
        clock=process.clock,
        budget=budgets,
        shed_after=settings.shed_after,
        guard=process.guard,
        confirm=partial(logs.turns.confirm, GROUP),
    )
    stage = EvaluateStage(
        process.plan,
        logs.evaluations,
        dispatcher,
        turns=logs.turns,
        limits=_state_limits(settings),
        # Only at the end of the service: a partition that moves is not to wait for judges.
        grace=lambda: settings.shutdown_grace if process.tasks.stopping else 0.0,
        outcomes=PrometheusOutcomes(process.telemetry, process.plan),
        budget=budgets,
        clock=process.clock,
        on_bad_record=dead_letters.take,
        notes=SampleRateNotes(logs.definitions),
    )
    show_budgets(process.telemetry, process.plan, budgets, process.clock)
    show_bulkheads(process.telemetry, process.plan, dispatcher.bulkheads)
    show_evaluate(process.telemetry, stage)
    process.tasks.follow(logs.turns, GROUP, dead_letters.wrap(stage.open_fold, process.guard))


def _state_limits(settings: EvaluateSettings) -> StateLimits:
    return StateLimits(
        conversations=settings.max_open_conversations,
        bytes=settings.max_open_bytes,
        snapshot_records=settings.snapshot_after_records,
        snapshot_seconds=settings.snapshot_after,
        pending_records=settings.snapshot_after_records,
    )
