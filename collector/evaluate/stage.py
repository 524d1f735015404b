"""The evaluate stage: opens a processor for each partition of the turns log."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from collector.errors import BadInput
from collector.evaluate.deferred.deferred_evaluations import Deferral, DeferredEvaluations
from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_processor import Drawing, PartitionProcessor, PartitionStart
from collector.evaluate.partition_state import PartitionState, StateLimits
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import (
    UNNUMBERED,
    Configurations,
    PlanHistory,
    configurations_of,
    past_plans,
    switches_of,
)
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.ledger import Ledger, end_offset
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.recovery.sample_rate_notes import SampleRateNotes
from collector.evaluate.recovery.snapshot_writer import SnapshotWriter
from collector.evaluate.scheduling.dispatch import Dispatcher
from collector.evaluate.scheduling.jobs import PartitionJobs
from collector.logs.log import Committed, Log, StoredRecord

logger = logging.getLogger(__name__)

GROUP = "evaluate"
"""The group under which the stage consumes the turns log."""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """The `clock` of budgets (s since the epoch), and the seconds that running jobs have when a processor closes."""

    clock: Callable[[], float] = time.time
    grace: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True, slots=True)
class StageReports:
    """The counters of outcomes, and the sink for unreadable records."""

    outcomes: OutcomeCounter = field(default_factory=OutcomeCounter)
    on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None


@dataclass(frozen=True, slots=True)
class StageDefinitions:
    """The configurations that are known and noted.

    With a `history`, each partition knows from which offset on which configuration counts; without, the one of now
    counts for all. `notes` of sample rates are for audits of the past.
    """

    history: PlanHistory | None = None
    notes: SampleRateNotes | None = None


class EvaluateStage:
    """Opens the processors of the turns log's partitions.

    A job that waits or runs when its partition is revoked is made again by the next owner. `grace` gives the seconds
    that running jobs have to finish when a processor closes. `turns` is the log that the stage consumes; snapshots
    of long conversations are written to it. Budgets are those of the `dispatcher`.
    """

    def __init__(
        self,
        plan: Plan,
        dispatcher: Dispatcher,
        *,
        turns: Log | None = None,
        limits: StateLimits = StateLimits(),  # noqa: B008 - a frozen value
        timing: StageTiming = StageTiming(),
        reports: StageReports = StageReports(),
        definitions: StageDefinitions = StageDefinitions(),
        deferral: Deferral | None = None,
    ) -> None:
        self._plan = plan
        self._evaluations = dispatcher.evaluations
        self._turns = turns
        self._limits = limits
        self._dispatcher = dispatcher
        self._grace = timing.grace
        self._outcomes = reports.outcomes
        self._budget = dispatcher.budget if dispatcher.budget is not None and dispatcher.budget.limited else None
        self._history = definitions.history
        self._clock = timing.clock
        self._on_bad_record = reports.on_bad_record
        self._notes = definitions.notes
        self._deferral = deferral
        self._shapes = set[tuple[str, str]]()
        self._processors: dict[int, PartitionProcessor] = {}
        self.number = UNNUMBERED
        """The number of the plan; set before the first partition opens."""
        # Not what the process has by now: while it takes another one, a partition may still open by this plan, and a
        # switch that says otherwise would let every replay make what was never due.
        self.handing_over = False
        """Whether the processors close for another configuration: what is in flight may finish before, as at a stop."""

    @property
    def open_conversations(self) -> int:
        """How many conversations are open in this process, over all monitors and partitions."""
        return sum(
            sessions.open
            for processor in self._processors.values()
            for sessions in processor.state.conversations.values()
        )

    @property
    def awaiting_reference(self) -> int:
        """How many evaluations wait in this process for a reference."""
        return sum(len(processor.state.references) for processor in self._processors.values())

    @property
    def in_flight(self) -> int:
        """How many evaluations are due in this process and have not ended."""
        return sum(processor.in_flight for processor in self._processors.values())

    @property
    def running(self) -> int:
        """How many of these have a slot at their judge."""
        return sum(processor.jobs.running for processor in self._processors.values())

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[PartitionProcessor]:
        """Read the ledger back and open the partition's processor; its jobs end with it."""
        metadata = (
            CommitMetadata.from_json(committed.metadata, committed.low_watermark)
            if committed
            else self._initial_metadata()
        )
        journal = LoggedJournal(self._shapes) if self._deferral is not None else None
        on_batches = None if journal is None else journal.apply
        ledger = Ledger(
            self._evaluations,
            partition,
            read_costs=self._budget is not None,
            on_batches=on_batches,
            on_evaluation=self._dispatcher.verdicts.note if self._plan.has_shared_evaluators else None,
        )
        await ledger.read_back(metadata.ledger_offset)
        if self._turns is not None and self._turns.shared:
            await ledger.claim(partial(self._turns.confirm, GROUP, newly=True), metadata.replay_point.offset)
        if self._turns is not None:  # not before the claim: until then a former owner may have gone on
            ledger.previous_end = await end_offset(self._turns, partition)
        if self._budget is not None:
            now, costs = self._clock(), ledger.costs
            self._budget.add_partition(partition, now, ledger.saved_budget, costs, ledger.rates)
        delivered = committed.offset if committed else 0
        rates = self._plan.sample_rates
        if self._notes is not None:
            await self._notes.note(partition, delivered, rates)
        drawing = Drawing(rates, metadata.draws_until(delivered, rates))
        former = [(until, self._plan.drawing_with(sampled)) for until, sampled in drawing.former]
        configurations, reached = None, 0
        past: Sequence[Plan] = ()
        if self._history is not None:
            reached = ledger.reached(delivered)
            configurations = await self._hand_over(
                self._history, ledger, metadata, delivered, reached, partition, former
            )
            former = configurations.former
            past = await past_plans(metadata.past, self._history)
        self._report_removed(metadata)
        start = PartitionStart(partition, metadata, delivered, drawing, configurations)
        state = PartitionState(self._plan, metadata.replay_point, ledger.control_records, former, past, start.was_over)
        state.on_bad_record = self._on_bad_record
        async with self._opened_deferred(partition, journal, ledger) as deferred, asyncio.TaskGroup() as tasks:
            learn = partial(self._budget.learn, partition) if self._budget is not None else None
            jobs = PartitionJobs(partition, ledger, self._dispatcher, tasks, self._outcomes, learn, deferred)
            processor = PartitionProcessor(
                state,
                jobs,
                self._outcomes,
                start,
                limits=self._limits,
                snapshots=self._snapshot_writer(state, partition),
                budget=self._budget,
                clock=self._clock,
            )
            self._processors[partition] = processor
            try:
                yield processor
            finally:
                del self._processors[partition]
                if self.handing_over:
                    await jobs.drain(self._grace())
                await jobs.stop(0.0 if self.handing_over else self._grace())
                if self._history is not None:
                    await ledger.write_stopped(max(state.next_offset, reached))
                if self._budget is not None:
                    self._budget.remove_partition(partition)

    @asynccontextmanager
    async def _opened_deferred(
        self, partition: int, journal: LoggedJournal | None, ledger: Ledger
    ) -> AsyncGenerator[DeferredEvaluations | None]:
        """The maker of evaluations that wait for batches, with the batches that former owners have left."""
        if journal is None or self._deferral is None:
            yield None
            return
        journal.note = ledger.append_batches
        try:
            async with self._deferral.open_batched(journal) as batched:
                yield DeferredEvaluations(partition, batched, journal, self._deferral.waiting_room, self._dispatcher)
        finally:
            journal.close()

    def _snapshot_writer(self, state: PartitionState, partition: int) -> SnapshotWriter | None:
        if self._turns is None:
            return None
        return SnapshotWriter(self._turns, state, partition, self._limits, self._processors)

    async def _hand_over(
        self,
        history: PlanHistory,
        ledger: Ledger,
        metadata: CommitMetadata,
        delivered: int,
        reached: int,
        partition: int,
        unnumbered: Sequence[tuple[int, Plan]],
    ) -> Configurations:
        """The configurations of a partition; the last switch is to ours, and is written if it is new.

        Ours counts from where no earlier owner has been. It may be an older one: a process that has not taken the
        newest yet, or cannot, continues with what it has.
        """
        start = metadata.replay_point.offset, metadata.configuration
        controls = ledger.control_records
        now = switches_of(start, controls)[-1][1]
        if now != self.number:
            at = delivered if now == UNNUMBERED else reached
            control = ControlRecord(offset=max(at, start[0]), configuration=self.number)
            await ledger.append(control.to_record(partition))
            controls = [*controls, control]
        return await configurations_of(start, controls, self._plan, self.number, history, unnumbered)

    def _report_removed(self, metadata: CommitMetadata) -> None:
        used = {assignment.evaluator.name for monitor in self._plan.monitors for assignment in monitor.assignments}
        for name in sorted(set(metadata.pending or ()) - used):
            logger.warning("evaluator %s is not configured any more: its unfinished evaluations are not made", name)

    def _initial_metadata(self) -> CommitMetadata:
        if self._budget is None:
            return CommitMetadata()
        return CommitMetadata(replay_point=ReplayPoint(0, rates=self._budget.initial_rates()))
