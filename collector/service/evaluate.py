"""The start of the evaluate stage, and its exchange for one of another configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from collector.config.configured import Config
from collector.config.settings import EvaluateSettings
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.deferred.deferred_evaluations import Deferral
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.recovery.sample_rate_notes import SampleRateNotes
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import GROUP, EvaluateStage, StageDefinitions, StageReports, StageTiming
from collector.logs.exchangeable_folds import ExchangeableFolds
from collector.logs.log import OpenFold
from collector.service.deferred import Deferring, deferring
from collector.service.gauges import (
    hide_budgets,
    hide_open_batches,
    show_budgets,
    show_bulkheads,
    show_deferred,
    show_evaluate,
    show_open_batches,
)
from collector.service.process import Apply, Process
from collector.service.process_resources import long_lived


@dataclass(frozen=True, slots=True)
class _Evaluating:
    """The stage of one configuration."""

    process: Process
    stage: EvaluateStage
    guardrails: EvaluationGuardrails
    budgets: BudgetController
    open_fold: OpenFold
    waiting: Deferring | None


class Evaluating:
    """The evaluate stage of a process. `budgets` are those of the running configuration."""

    def __init__(self, process: Process) -> None:
        self._current = self._build(process)
        self._folds = ExchangeableFolds(process.logs.turns, self._current.open_fold)
        self._show(self._current)

    @property
    def budgets(self) -> BudgetController:
        """The budgets of the running configuration."""
        return self._current.budgets

    def start(self, number: int) -> None:
        """Consume the turns log and evaluate what becomes due, within the budgets, by the configuration so numbered."""
        process = self._current.process
        self._current.stage.number = number
        process.changes.append(self._prepare)
        process.tasks.follow("evaluate", process.logs.turns, GROUP, self._folds.open_fold)

    async def close(self) -> None:
        """End what runs beside the evaluations."""
        await self._current.guardrails.close()

    async def _prepare(self, _config: Config) -> Apply:
        return self._take_over

    async def _take_over(self, process: Process) -> None:
        """Finish what runs, as at a stop, and continue with another configuration where this one stood."""
        before, self._current = self._current, self._build(process)
        self._current.stage.number = process.number
        before.stage.handing_over = True
        await self._folds.exchange(self._current.open_fold)
        hide_budgets(process.telemetry, before.process.plan)
        hide_open_batches(process.telemetry, () if before.waiting is None else before.waiting.homes)
        self._show(self._current)
        await before.guardrails.close()

    def _build(self, process: Process) -> _Evaluating:
        settings, logs = process.config.settings.evaluate, process.logs
        dead_letters = process.resources.dead_letters("evaluate", logs.turns.name, logs)
        guardrails = process.resources.guardrails(process.config)
        budgets = BudgetController(process.plan, logs.turns.partitions)
        waiting = deferring(process)
        dispatcher = Dispatcher(
            logs.evaluations,
            guardrails,
            limits=BulkheadLimits(
                slots=settings.concurrency,
                waiting=settings.max_waiting,
                bytes=settings.max_waiting_bytes,
                shed_after=settings.shed_after,
            ),
            clocks=Clocks(seconds=process.clock),
            budget=budgets,
            guard=process.guard,
            confirm=partial(logs.turns.confirm, GROUP),
        )

        def grace() -> float:
            """Only at the end of the service or its configuration: a partition that moves is not to wait for judges."""
            return settings.shutdown_grace if process.tasks.stopping or stage.handing_over else 0.0

        stage = EvaluateStage(
            process.plan,
            dispatcher,
            turns=logs.turns,
            limits=_state_limits(settings),
            timing=StageTiming(process.clock, grace),
            reports=StageReports(PrometheusOutcomes(process.telemetry, process.plan), dead_letters.take),
            definitions=StageDefinitions(process.history, SampleRateNotes(logs.definitions)),
            deferral=None if waiting is None else Deferral(waiting.open_batched, waiting.room),
        )
        show_bulkheads(process.telemetry, process.plan, dispatcher.bulkheads)
        open_fold = dead_letters.wrap(long_lived(stage.open_fold), process.guard)
        return _Evaluating(process, stage, guardrails, budgets, open_fold, waiting)

    def _show(self, evaluating: _Evaluating) -> None:
        show_budgets(
            evaluating.process.telemetry, evaluating.process.plan, evaluating.budgets, evaluating.process.clock
        )
        show_evaluate(evaluating.process.telemetry, evaluating.stage)
        show_deferred(
            evaluating.process.telemetry,
            None if evaluating.waiting is None else evaluating.waiting.room,
            evaluating.process.clock,
        )
        if evaluating.waiting is not None:
            show_open_batches(
                evaluating.process.telemetry,
                evaluating.waiting.homes,
                evaluating.waiting.open_batches,
                evaluating.waiting.lacks_batches,
            )


def _state_limits(settings: EvaluateSettings) -> StateLimits:
    return StateLimits(
        conversations=settings.max_open_conversations,
        bytes=settings.max_open_bytes,
        snapshot_records=settings.snapshot_after_records,
        snapshot_seconds=settings.snapshot_after,
        snapshot_turns=settings.snapshot_after_turns,
        pending_records=settings.snapshot_after_records,
    )
