"""The evaluate stage: it opens a processor for each partition of the turns log.

A processor has the partition's state, which says what is due, and its jobs, the due evaluations. It tells the log which
positions to commit. The *ledger* is the evaluations log, as the record of what was evaluated.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from collector.errors import BadInput
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS
from collector.evaluate.deferred.deferred_evaluations import Deferral, DeferredEvaluations
from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.outcomes import Due, End, OutcomeCounter
from collector.evaluate.partition_state import PartitionState, StateLimits
from collector.evaluate.plan import Job, Plan
from collector.evaluate.recovery.configurations import UNNUMBERED, Configurations
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.ledger import RETRY, Ledger, end_offset
from collector.evaluate.recovery.past_plans import PlanHistory, configurations_of, past_plans, switches_of
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint, RetainedOffsets, metadata_of
from collector.evaluate.recovery.sample_rate_notes import note_sample_rates
from collector.evaluate.recovery.snapshot_writer import SnapshotWriter
from collector.evaluate.scheduling.dispatch import Dispatcher
from collector.evaluate.scheduling.jobs import PartitionJobs
from collector.logs.log import Committed, Log, LogUnavailable, StoredRecord, records_from
from collector.records.shared_records import divide_records, is_shared
from collector.records.turns import turn_id_in

EVICTION_SHARE, MAX_EVICTIONS = 0.01, 500
"""How many open conversations are evicted (closed early) together, to save control records: this share of them, and at
most this number."""

_OFFSET = attrgetter("offset")
_RECALLED = 1000
"""The records of the turns log that are read again, so that turns which come again are known."""


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """The point from which a partition is continued.

    `committed` is the state committed when the records below `delivered` had been delivered. A replay skips the jobs
    that were done by then. The former owner has counted the records before `new_from`.
    """

    partition: int
    committed: CommitMetadata
    delivered: int
    configurations: Configurations
    new_from: int = 0

    def was_over(self, job: Job) -> bool:
        """Whether a job had ended before the commit: it was neither pending nor waiting for a reference."""
        return job.trigger_offset < self.committed.done_below_of(job.assignment.evaluator.name, self.delivered)


class _Position(NamedTuple):
    """Every job of records below `done_below` is done; a restart reads from `low` on.

    `pending` has for each evaluator the offset of the oldest record with an evaluation that is not done.
    """

    done_below: int
    low: ReplayPoint
    pending: Mapping[str, int]


@dataclass(eq=False, repr=False)
class PartitionProcessor:
    """Gives records to the `state`, and due evaluations to the `jobs`. State and jobs do not know each other."""

    state: PartitionState
    jobs: PartitionJobs
    outcomes: OutcomeCounter
    start: PartitionStart
    _: KW_ONLY
    limits: StateLimits
    snapshots: SnapshotWriter
    budget: BudgetController | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._ledger = self.jobs.ledger
        self._partition = self.start.partition
        self._configurations = self.start.configurations
        self._retained = RetainedOffsets()
        self._waiting: deque[tuple[Job, Job | None]] = deque()

    @property
    def in_flight(self) -> int:
        """The number of evaluations that are due and have not ended."""
        return len(self.jobs) + len(self._waiting)

    @property
    def due_at(self) -> float | None:
        """When the next session window closes or is removed, or a wait for a reference ends."""
        references = self.state.references
        due_at = references.due_at if references.is_used else None
        for sessions in self.state.sessions_by_monitor.values():
            at = sessions.due_at
            if at is not None and (due_at is None or at < due_at):
                due_at = at
        return due_at

    def _position(self) -> _Position:
        """The end of the finished records, and the oldest record that a restart has to read.

        Open windows and pending jobs are only in memory. A restart makes them again from the records of their turns.
        """
        # An evaluation that waits for a reference is treated as a pending job. The restart then reads its turn, and
        # all turns of the conversations that were open at that time.
        state, references = self.state, self.state.references
        points = [sessions.low_watermark for sessions in state.sessions_by_monitor.values()]
        pending, low_of_jobs = dict(self.jobs.oldest_triggers), self.jobs.low_watermark
        low_of_references = None
        if references.is_used:
            low_of_references = references.low_watermark
            for name, offset in references.oldest_triggers.items():
                pending[name] = min(offset, pending.get(name, offset))
        done = min(pending.values(), default=state.next_offset)
        self._retained.release(done)
        points += [low_of_jobs, self._retained.low_watermark, low_of_references]
        low = min(filter(None, points), default=None, key=_OFFSET)
        return _Position(done, state.replay_point if low is None else low, pending)

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is still needed."""
        return self._position().low.offset

    @property
    def metadata(self) -> str:
        """The state that a restart needs in addition to the two offsets."""
        done, low, pending = self._position()
        return CommitMetadata(
            ledger_offset=self._ledger.start_offset,
            done_below=done,
            replay_point=low,
            pending=pending or None,
            configuration=self._configurations.number_at(low.offset),
            past=self._configurations.past_at(low.offset, self.start.committed.past),
        ).to_json()

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the state. Jobs that were pending at the stop are made again, unless a newer job supersedes them."""
        jobs: dict[str, Job] = {}  # by evaluation id
        for record in records:
            for job in await self.state.apply(record):
                # A job may be done although an earlier job of its evaluator was still pending at the commit.
                if not self.start.was_over(job) and not self.jobs.is_known(job):
                    for replaced in [jobs.pop(name) for name in job.supersedes if name in jobs]:
                        self._count(replaced, "resumed")
                        self._count(replaced, "superseded")
                    jobs[job.evaluation_id] = job
            self._retain(record.offset)
            if is_shared(record):  # it may contain very many turns
                await asyncio.sleep(0)
        self.snapshots.note_work()
        await self._submit(jobs.values())

    def _count(self, job: Job, outcome: Due | End) -> None:
        self.outcomes.count_evaluation(job.monitor.name, job.assignment.evaluator.name, outcome)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Process new records. Waits while a judge's bulkhead, its limit on evaluations, is full."""
        if self.state.report_demand is None and self.budget is not None and self.budget.limited:
            self.state.report_demand = partial(self.budget.add_demand, self._partition)
        for headers, group in groupby(records, attrgetter("headers")):
            batch = list(group)
            if headers == SNAPSHOT_HEADERS:
                await self._validate_snapshots(batch)
            for record in batch:
                await self._process(record)
                if is_shared(record):
                    await asyncio.sleep(0)
        position = self._position()
        if self.state.sessions_by_monitor:
            for monitor, conversation_id in await self.snapshots.write(position.done_below):
                await self._close_early({monitor: [conversation_id]})
                position = self._position()
        if records:  # the log's time: by the turns' own times, a backlog would make too many checkpoints
            await self._ledger.checkpoint(self.state.next_offset, position.low.offset, records[-1].timestamp)

    async def _process(self, record: StoredRecord) -> None:
        if record.offset >= self.start.new_from:
            self.state.outcomes = self.outcomes
        await self.jobs.wait_for_oldest(record.offset, self.limits.snapshot_records)
        if self.budget and self.budget.is_decision_due(self._partition, now := self.clock(), record.timestamp):
            await self._set_rates(self.budget, now, record.offset)
        if jobs := await self.state.apply(record):
            await self._submit(jobs)
        self._retain(record.offset)
        while self.state.sessions_by_monitor and (candidates := self._eviction_candidates()):
            await self._close_early(candidates)

    async def _validate_snapshots(self, records: Sequence[StoredRecord]) -> None:
        """Decide which snapshots are still valid. `records` are the next records, and all of them are snapshots."""
        # The whole batch is decided before its first record is applied, and the decision is written to the log: a
        # replay that begins after the last change of a conversation could not tell that its snapshot is outdated.
        if validity := self.state.windows.validate_snapshots(records):
            await self._apply_control(ControlRecord(offset=records[0].offset, snapshot_validity=validity))

    async def _apply_control(self, control: ControlRecord) -> None:
        """Write a control record, then apply it."""
        # In this order, because a replay cannot repeat an effect that has no record. After a crash between the two
        # steps the replay applies the record.
        await self._ledger.append(control.to_record(self._partition))
        await self._submit(self.state.apply_control(control))

    async def _set_rates(self, budget: BudgetController, now: float, offset: int) -> None:
        """Decide the rates that apply from an offset on. The decision depends only on earlier traffic."""
        rates, saved = budget.decide_rates(self._partition, now)
        await self._ledger.retain_from_end()  # before the append, since the append moves the end
        await self._apply_control(ControlRecord(offset=offset, rates=rates, budget=saved))

    def _retain(self, offset: int) -> None:
        windows = self.state.windows
        if (windows.by_monitor or windows.released) and (released := windows.take_released()):
            self._retained.retain(released, offset)

    async def _submit(self, jobs: Collection[Job]) -> None:
        """Start jobs, each in the form that the newest plan gives it. Waits while a judge's bulkhead is full."""
        if resumed := self.state.outcomes is not self.outcomes:  # a former owner has counted that they became due
            jobs = [job for job in jobs if not self.jobs.is_known(job)]
            for job in jobs:
                self._count(job, "resumed")
        waiting = self._waiting = deque(zip(jobs, map(self._configurations.by_newest, jobs), strict=True))
        try:
            while waiting:
                pairs = _next_pack(waiting)
                pack = [
                    newest for job, newest in pairs if not self._count_if_needless(job, newest) and newest is not None
                ]
                if pack:
                    await self.jobs.submit(*pack, resumed=resumed)
        finally:
            while waiting:  # the partition was revoked before these jobs could start
                self._count(waiting.popleft()[0], "reassigned")

    def _count_if_needless(self, job: Job, newest: Job | None) -> bool:
        """Whether a job need not start: its evaluation is known under any plan, or the newest plan no longer has its
        evaluator. If so, the job is counted as a duplicate or as removed.

        `newest` is the job in the form that the newest plan gives it; None if that plan does not have its evaluator.
        """
        if self.jobs.is_known(job, *self._configurations.by_others(job), newest or job):
            self._count(job, "duplicate")
            return True
        if newest is None:
            self._count(job, "removed")
        return newest is None

    async def _close_early(self, candidates: Mapping[str, Sequence[str]]) -> None:
        """Evict conversations, given by monitor: close them before their time."""
        await self._apply_control(ControlRecord(offset=self.state.next_offset, evictions=candidates))
        self._retain(self.state.next_offset - 1)

    def _eviction_candidates(self) -> dict[str, list[str]]:
        """The oldest conversations of monitors with more of them than the limits allow."""
        return {
            name: sessions.oldest(min(MAX_EVICTIONS, max(1, int(len(sessions) * EVICTION_SHARE))))
            for name, sessions in self.state.sessions_by_monitor.items()
            if len(sessions) > self.limits.conversations or sessions.size > self.limits.bytes
        }


def _next_pack(waiting: deque[tuple[Job, Job | None]]) -> Sequence[tuple[Job, Job | None]]:
    """Take the first job, and the waiting jobs of its pack: they ask the judge together. Each job comes in two forms,
    as it became due and as the newest plan makes it.
    """
    first = waiting.popleft()
    newest = first[1]
    if newest is None or not newest.assignment.pack or (pack := newest.pack) is None:
        return [first]
    others = [pair for pair in waiting if pair[1] is not None and pair[1].pack == pack]
    for pair in others:
        waiting.remove(pair)
    return [first, *others]


async def _recall_turns(log: Log, partition: int, state: PartitionState) -> None:
    """Note the last turns before those that the state gets."""

    async def recall() -> None:
        async for record in records_from(log, partition, max(0, state.next_offset - _RECALLED)):
            if record.offset >= state.next_offset:
                return
            for piece in divide_records([record]) if not record.headers or is_shared(record) else ():
                state.recent_turns.seen_at(turn_id_in(piece.value), record.offset)

    await RETRY.repeat(recall, LogUnavailable, action="reading the turns log back")


logger = logging.getLogger(__name__)

GROUP = "evaluate"
"""The group under which the stage consumes the turns log."""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """The `clock` of budgets (s since the epoch), and the seconds that running jobs get when a processor closes."""

    clock: Callable[[], float] = time.time
    grace: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True, slots=True)
class StageReports:
    """The counters of outcomes, and the sink for unreadable records."""

    outcomes: OutcomeCounter = field(default_factory=OutcomeCounter)
    on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None


@dataclass(frozen=True, slots=True)
class StageDefinitions:
    """The configurations that the service has had.

    By the `history`, each partition knows which configuration applies from which offset on. Sample rates are noted in
    the log `notes`, for an audit.
    """

    history: PlanHistory
    notes: Log


@dataclass(eq=False, repr=False)
class EvaluateStage:
    """Opens the processors of the turns log's partitions.

    If a partition is revoked, its next owner makes the waiting and running jobs again. `turns` is the log that the
    stage consumes; snapshots of long conversations are also written to it. The `dispatcher` has the budgets.
    """

    plan: Plan
    dispatcher: Dispatcher
    _: KW_ONLY
    turns: Log
    limits: StateLimits = StateLimits()  # noqa: RUF009 - a frozen value
    timing: StageTiming = StageTiming()
    reports: StageReports = StageReports()
    definitions: StageDefinitions
    deferral: Deferral | None = None

    def __post_init__(self) -> None:
        self._evaluations = self.dispatcher.evaluations
        self._budget = self.dispatcher.budget
        self._shapes = set[tuple[str, str]]()
        self._processors: dict[int, PartitionProcessor] = {}
        self.number = UNNUMBERED
        """The number of the plan; set before the first partition opens."""
        # The number is set once, and not asked of the process: while the process takes another plan, a partition may
        # still open with this plan. If it then wrote the other plan's number into the log, each replay would make
        # evaluations that were never due.
        self.handing_over = False
        """Whether the processors close because the configuration changes. Running jobs and jobs that wait for a slot
        may then finish within the grace; at a stop only running jobs may."""

    @property
    def open_conversations(self) -> int:
        """The number of open conversations in this process, over all monitors and partitions."""
        return sum(
            sessions.open
            for processor in self._processors.values()
            for sessions in processor.state.sessions_by_monitor.values()
        )

    @property
    def awaiting_reference(self) -> int:
        """The number of evaluations that wait in this process for a reference."""
        return sum(len(processor.state.references) for processor in self._processors.values())

    @property
    def in_flight(self) -> int:
        """The number of evaluations that are due in this process and have not ended."""
        return sum(processor.in_flight for processor in self._processors.values())

    @property
    def running(self) -> int:
        """The number of evaluations in flight that have a slot at their judge."""
        return sum(processor.jobs.running for processor in self._processors.values())

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[PartitionProcessor]:
        """Read the ledger back and open the partition's processor. When the processor closes, its jobs end."""
        metadata = metadata_of(committed)
        journal = LoggedJournal(self._shapes) if self.deferral is not None else None
        ledger = Ledger(
            self._evaluations,
            partition,
            read_costs=self._budget is not None and self._budget.limited,
            on_batches=None if journal is None else journal.apply,
            on_evaluation=self.dispatcher.verdicts.note if self.plan.has_shared_evaluators else None,
        )
        await ledger.read_back(metadata.ledger_offset)
        if self.turns.shared:
            await ledger.claim(partial(self.turns.confirm, GROUP, newly=True), metadata.replay_point.offset)
        # Only after the claim: before it, a former owner may still write.
        ledger.previous_end = await end_offset(self.turns, partition)
        if self._budget is not None:
            self._budget.add_partition(partition, self.timing.clock(), ledger.saved_budget, ledger.costs, ledger.rates)
        delivered = committed.offset if committed else 0
        await note_sample_rates(self.definitions.notes, partition, delivered, self.plan.sample_rates)
        reached = ledger.reached(delivered)
        configurations = await self._hand_over(ledger, metadata, delivered, reached)
        past = await past_plans(metadata.past, self.definitions.history, self.plan)
        self._report_removed(metadata)
        new_from = min(ledger.new_from, ledger.previous_end)  # less if the turns log was made again
        start = PartitionStart(partition, metadata, delivered, configurations, new_from)
        state = PartitionState(
            self.plan, metadata.replay_point, ledger.control_records, configurations.former, past, start.was_over
        )
        state.on_bad_record = self.reports.on_bad_record
        await _recall_turns(self.turns, partition, state)
        async with self._opened_deferred(partition, journal, ledger) as deferred, asyncio.TaskGroup() as tasks:
            learn = partial(self._budget.learn, partition) if self._budget and self._budget.limited else None
            jobs = PartitionJobs(partition, ledger, self.dispatcher, tasks, self.reports.outcomes, learn, deferred)
            processor = PartitionProcessor(
                state,
                jobs,
                self.reports.outcomes,
                start,
                limits=self.limits,
                snapshots=SnapshotWriter(self.turns, state, partition, self.limits, self._processors),
                budget=self._budget,
                clock=self.timing.clock,
            )
            self._processors[partition] = processor
            try:
                yield processor
            finally:
                del self._processors[partition]
                if self.handing_over:
                    await jobs.drain(self.timing.grace())
                await jobs.stop(0.0 if self.handing_over else self.timing.grace())
                await ledger.write_stopped(max(state.next_offset, reached), max(state.next_offset, new_from))
                if self._budget is not None:
                    self._budget.remove_partition(partition)

    @asynccontextmanager
    async def _opened_deferred(
        self, partition: int, journal: LoggedJournal | None, ledger: Ledger
    ) -> AsyncGenerator[DeferredEvaluations | None]:
        """Open the part that makes evaluations in batches, with the batches that former owners left unfinished."""
        if journal is None or self.deferral is None:
            yield None
            return
        journal.note = ledger.append_batches
        with closing(journal):
            async with self.deferral.open_batched(journal) as batched:
                yield DeferredEvaluations(partition, batched, journal, self.deferral.waiting_room, self.dispatcher)

    async def _hand_over(
        self, ledger: Ledger, metadata: CommitMetadata, delivered: int, reached: int
    ) -> Configurations:
        """The configurations of a partition. If the last one is not that of this process, a switch to it is written.

        The switch applies from the first offset that no earlier owner has reached. It may lead to an older
        configuration: a process that has not taken the newest one, or cannot take it, continues with its own.
        """
        start = metadata.replay_point.offset, metadata.configuration
        controls = ledger.control_records
        now = switches_of(start, controls)[-1][1]
        if now != self.number:
            at = delivered if now == UNNUMBERED else reached
            control = ControlRecord(offset=max(at, start[0]), configuration=self.number)
            await ledger.append(control.to_record(ledger.partition))
            controls = [*controls, control]
        return await configurations_of(start, controls, self.plan, self.number, self.definitions.history)

    def _report_removed(self, metadata: CommitMetadata) -> None:
        used = {assignment.evaluator.name for monitor in self.plan.monitors for assignment in monitor.assignments}
        for name in sorted(set(metadata.pending or ()) - used):
            logger.warning("evaluator %s is not configured any more: its unfinished evaluations are not made", name)
