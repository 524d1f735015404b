"""The start of the evaluate stage, with batches for monitors whose evaluations may wait for hours.

A new configuration gets a new stage, which continues where the old stage stopped.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from collector.backoff import StateLines
from collector.config.configured import Config
from collector.config.settings import EvaluateSettings
from collector.config.urgency import deferred_part, judges_and_fallbacks
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.deferred.deferred_evaluations import BatchedPlan, Deferral, WaitingRoom, WaitingRoomLimits
from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Clocks, Dispatcher
from collector.evaluate.stage import GROUP, EvaluateStage, StageDefinitions, StageReports, StageTiming
from collector.judging.batches import REPORT_AFTER, Batches, EnduringBatches, home_of
from collector.judging.open_judges import judges_in_use, open_judges
from collector.logs.exchangeable_folds import ExchangeableFolds
from collector.logs.log import OpenFold, confirm_of
from collector.service import gauges
from collector.service.plan_builder import build_plan
from collector.service.process import FoldNeeds, Process, layered
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import BATCH_CALLS_FAILED, BATCH_REQUESTS, BATCHES, UNDEFERRED
from evaluators.judges.batches.batch_terms import AbsentBatches, BatchPace, BatchProgress


@dataclass(frozen=True, slots=True)
class _ConfiguredStage:
    """The stage of one configuration."""

    process: Process
    stage: EvaluateStage
    guardrails: EvaluationGuardrails
    budgets: BudgetController
    open_fold: OpenFold
    deferred: "DeferredJudging | None"


class EvaluateTask:
    """The evaluate stage of a process. `budgets` are the running configuration's."""

    def __init__(self, process: Process) -> None:
        self._outages = StateLines(REPORT_AFTER)
        self._current = self._build(process)
        self._folds = ExchangeableFolds(process.logs.turns, self._current.open_fold)
        self._show(self._current)

    @property
    def budgets(self) -> BudgetController:
        """The budgets of the running configuration."""
        return self._current.budgets

    def start(self, number: int) -> None:
        """Consume the turns log and evaluate what becomes due, within the budgets; `number` is the configuration's."""
        process = self._current.process
        self._current.stage.number = number
        process.tasks.follow("evaluate", process.logs.turns, GROUP, self._folds.open_fold)

    async def close(self) -> None:
        """End what runs beside the evaluations."""
        await self._current.guardrails.close()

    async def take_over(self, process: Process) -> None:
        """Finish what runs, as at a stop, and continue with another configuration where this one stood."""
        before, self._current = self._current, self._build(process)
        self._current.stage.number = process.number
        before.stage.handing_over = True
        await self._folds.exchange(self._current.open_fold)
        gauges.hide_budgets(process.telemetry, before.process.plan)
        removed = set(judges_in_use(before.process.config)).difference(judges_in_use(process.config))
        gauges.hide_breakers(process.telemetry, removed)
        gauges.hide_open_batches(process.telemetry, () if before.deferred is None else before.deferred.homes)
        self._show(self._current)
        await before.guardrails.close()

    def _build(self, process: Process) -> _ConfiguredStage:
        settings, logs = process.config.settings.evaluate, process.logs
        dead_letters = process.resources.dead_letters("evaluate", logs.turns.name, logs)
        guardrails = process.resources.guardrails(process.config, process.plan.key)
        budgets = BudgetController(process.plan, logs.turns.partitions)
        deferred = build_deferred(process, self._outages)
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
            confirm=confirm_of(logs.turns, GROUP),
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
            definitions=StageDefinitions(process.history, logs.definitions),
            deferral=None if deferred is None else Deferral(deferred.open_batched, deferred.room),
        )
        gauges.show_bulkheads(process.telemetry, process.plan, dispatcher.bulkheads)
        needs = FoldNeeds(
            place="evaluate", log=logs.turns.name, letters=dead_letters, guard=process.guard, long_lived=True
        )
        return _ConfiguredStage(process, stage, guardrails, budgets, layered(stage.open_fold, needs), deferred)

    def _show(self, current: _ConfiguredStage) -> None:
        process, deferred = current.process, current.deferred
        gauges.show_budgets(process.telemetry, process.plan, current.budgets, process.clock)
        gauges.show_evaluate(process.telemetry, current.stage)
        gauges.show_deferred(process.telemetry, deferred and deferred.room, process.clock)
        if deferred is not None:
            gauges.show_open_batches(process.telemetry, deferred.homes, deferred.open_batches, deferred.lacks_batches)


def _state_limits(settings: EvaluateSettings) -> StateLimits:
    return StateLimits(
        conversations=settings.max_open_conversations,
        bytes=settings.max_open_bytes,
        snapshot_records=settings.snapshot_after_records,
        snapshot_seconds=settings.snapshot_after,
        snapshot_turns=settings.snapshot_after_turns,
    )


logger = logging.getLogger(__name__)

PACE = BatchPace(patience=float("inf"))
"""A question outside of batches is retried without a limit, as nobody waits for its answer."""
MOST_ITEMS = 500
"""The most requests of a batch; each costs 50 kB until its batch is submitted. Each partition has a batch per judge."""
_OUTCOMES = frozenset({"completed", "expired", "cancelled", "failed", "gone"})


@dataclass(frozen=True, slots=True)
class DeferredJudging:
    """How a process makes evaluations that may wait: where they wait, and the journals of its partitions.

    `part` is the configuration of these evaluations. `homes` maps the name of each judge that takes batches to its name
    in the journals. `outages` has the judges that are unavailable.
    """

    process: Process
    part: Config
    room: WaitingRoom
    homes: Mapping[str, str]
    outages: StateLines
    journals: set[LoggedJournal] = field(default_factory=set[LoggedJournal])
    absent: AbsentBatches = field(default_factory=AbsentBatches)

    def lacks_batches(self, judge: str) -> bool:
        """Whether a judge's endpoint was found to take none."""
        return self.homes[judge] in self.absent

    def _lack_batches(self, evaluator: str) -> bool:
        judges = judges_and_fallbacks(evaluator, self.part.settings, self.part.evaluators)
        gathering = [judge for judge in judges if judge in self.homes]
        return bool(gathering) and all(map(self.lacks_batches, gathering))

    def open_batches(self, judge: str) -> int:
        """How many batches of a judge have not ended, and are followed by this process."""
        return sum(len(journal.open_batches(self.homes[judge])) for journal in self.journals)

    @asynccontextmanager
    async def open_batched(self, journal: LoggedJournal) -> AsyncGenerator[BatchedPlan]:
        """See `OpenBatchedPlan`."""
        process, gather = self.process, self.part.settings.evaluate.gather
        telemetry = process.telemetry
        enduring = EnduringBatches(
            most_items=MOST_ITEMS,
            confirm=confirm_of(process.logs.turns, GROUP),
            on_progress=partial(_count, telemetry),
            on_problem=lambda judge, error: telemetry.counter(BATCH_CALLS_FAILED, judge, error.type).inc(),
            on_at_once=lambda judge: telemetry.counter(BATCH_REQUESTS, judge, "at_once").inc(),
            warn=logger.warning,
            absent=self.absent,
            outages=self.outages,
        )
        batches = Batches(journal, replace(PACE, linger=gather, longest_linger=gather), logger.info, enduring=enduring)
        async with open_judges(self.part, process.steps, batches=batches) as judges:
            self.journals.add(journal)
            try:
                yield BatchedPlan(
                    build_plan(self.part, judges, process.plan.key),
                    self._lack_batches,
                    lambda monitor: telemetry.counter(UNDEFERRED, monitor).inc(),
                )
            finally:
                self.journals.discard(journal)


def build_deferred(process: Process, outages: StateLines) -> DeferredJudging | None:
    """How a process makes the evaluations that may wait; None if no monitor of its configuration has any."""
    part = deferred_part(process.config)
    if part is None:
        return None
    settings = process.config.settings.evaluate
    limits = WaitingRoomLimits(evaluations=settings.max_deferred, bytes=settings.max_deferred_bytes)
    judges = {name: part.settings.judges[name] for name in judges_in_use(part)}
    homes = {name: home_of(name, judge) for name, judge in judges.items() if judge.takes_batches}
    return DeferredJudging(process, part, WaitingRoom(limits), homes, outages)


def _count(telemetry: Telemetry, judge: str, progress: BatchProgress) -> None:
    if progress.ended:
        without = progress.without_answer
        word = progress.status.partition(" ")[0]  # OpenAI's; Anthropic's say only that it has ended
        telemetry.counter(BATCHES, judge, word if word in _OUTCOMES else "completed").inc()
        telemetry.counter(BATCH_REQUESTS, judge, "answered").inc(progress.total - without)
        telemetry.counter(BATCH_REQUESTS, judge, "unanswered").inc(without)
