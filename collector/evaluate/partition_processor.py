"""The processor of one partition of the turns log: its state, its jobs, and what is committed of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import ceil

from collector.backoff import FailureLog
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.conversations.session_window import ConversationWindows
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS, snapshot_record
from collector.evaluate.outcomes import Due, End, OutcomeCounter
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Job
from collector.evaluate.recovery.configurations import Configurations
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.ledger import Ledger
from collector.evaluate.recovery.replay_point import (
    CommitMetadata,
    ReplayPoint,
    ReplayWork,
    RetainedOffsets,
    SampleRates,
)
from collector.evaluate.scheduling.jobs import PartitionJobs
from collector.logs.log import Log, LogUnavailable, RecordTooLarge, StoredRecord
from collector.records.shared_records import is_shared

SNAPSHOTS_AT_ONCE = 64
"""Conversations that may be snapshotted at a delivery, however small it is; and most that are written together."""
SNAPSHOT_BYTES_AT_ONCE = 1 << 20
TURNS_PER_SNAPSHOT_TURN = 4
"""A restart of n open turns has n / 4 to read that are not in snapshots: so each turn is written into four at most."""
CATCHING_UP = 2
"""How much faster than needed in the long run snapshots are written, so that many that are due at once are spread."""
EVICTION_SHARE, MAX_EVICTIONS = 0.01, 500
"""Share of the open conversations that are evicted together, to save control records; and at most how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Limits of the state of a partition, for each monitor.

    At most `conversations` windows are in memory, in about `bytes`; beyond that the oldest are evicted. A conversation
    that needs a record more than `snapshot_records` records or `snapshot_seconds` back is snapshotted; so are those
    that make a restart of the process read more than `snapshot_turns` turns one by one. When a job is pending whose
    record lies more than `pending_records` back, the partition waits for it.
    """

    conversations: int = 100_000
    bytes: int = 256 << 20
    snapshot_records: int = 1_000_000
    snapshot_seconds: float = 7200.0
    snapshot_turns: int = 250_000
    pending_records: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn with `now`, and what earlier records were drawn with, each up to an offset."""

    now: SampleRates
    former: tuple[tuple[int, SampleRates], ...] = ()


class PartitionProcessor:
    """Delivers records to the state, and the evaluations that become due to the jobs.

    `resumed` is what was committed when records below `delivered` had been delivered; a replay skips what was done by
    then. Without `turns`, the log that is consumed, no snapshots are written. `partitions` is how many are open here.
    """

    def __init__(
        self,
        state: PartitionState,
        jobs: PartitionJobs,
        ledger: Ledger,
        outcomes: OutcomeCounter,
        *,
        partition: int,
        evaluations: Log,
        turns: Log | None = None,
        limits: StateLimits = StateLimits(),
        resumed: CommitMetadata = CommitMetadata(),  # noqa: B008 - a frozen value
        delivered: int = 0,
        drawing: Drawing | None = None,
        configurations: Configurations | None = None,
        budget: BudgetController | None = None,
        clock: Callable[[], float] = time.time,
        partitions: Callable[[], int] = lambda: 1,
    ) -> None:
        self.jobs = jobs
        self.state = state
        self._ledger = ledger
        self._outcomes = outcomes
        self._partition = partition
        self._evaluations = evaluations
        self._turns = turns
        self._limits = limits
        self._resumed = resumed
        self._delivered = delivered
        self._drawing = drawing
        self._configurations = configurations
        self._retained = RetainedOffsets()
        self._snapshot_log = FailureLog("writing snapshots of conversations")
        self._budget = budget if budget is not None and budget.limited else None
        self._clock = clock
        self._partitions = partitions
        self._work = ReplayWork()
        self._snapshotted_at = state.work
        self._note_work()
        self._waiting: deque[tuple[Job, Job | None]] = deque()
        state.references.is_over = self._was_over

    @property
    def in_flight(self) -> int:
        """How many evaluations are due and have not ended."""
        return len(self.jobs) + len(self._waiting)

    @property
    def due_at(self) -> float | None:
        """When the next session window closes or is removed, or a wait for a reference ends."""
        times = [sessions.due_at for sessions in self.state.conversations.values()]
        times.append(self.state.references.due_at)
        return min((each for each in times if each is not None), default=None)

    def _low_replay_point(self) -> ReplayPoint:
        """That of the oldest record that a window, a retained offset, a wait or a pending job needs."""
        # Not the delivered offset: open windows and pending jobs are only in memory, and a restart rebuilds them from
        # their records.
        needed = [sessions.low_watermark for sessions in self.state.conversations.values()]
        needed += [self.jobs.low_watermark, self._retained.low_watermark, self.state.references.low_watermark]
        return min(
            (replay_point for replay_point in needed if replay_point is not None),
            default=self.state.replay_point,
            key=lambda point: point.offset,
        )

    def _done_offset(self) -> int:
        """The offset below which everything that became due is done."""
        # What waits for a reference is as much in flight as a job: else a replay from its record on would take parts of
        # conversations for whole ones.
        waiting = [*self.state.references.oldest_triggers.values()]
        oldest = self.jobs.oldest_trigger
        return min([self.state.next_offset, *waiting] + ([] if oldest is None else [oldest]))

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is still needed."""
        self._retained.release(self._done_offset())
        return self._low_replay_point().offset

    @property
    def metadata(self) -> str:
        """What a restart needs to know beside the two offsets."""
        done = self._done_offset()
        self._retained.release(done)
        low = self._low_replay_point()
        pending = dict(self.state.references.oldest_triggers)
        for name, offset in self.jobs.oldest_triggers.items():
            pending[name] = min(offset, pending.get(name, offset))
        drawing = self._drawing if pending else None
        return CommitMetadata(
            ledger_offset=self._ledger.start_offset,
            done_below=done,
            replay_point=low,
            pending=pending or None,
            sampled=drawing.now if drawing else None,
            former=tuple(each for each in drawing.former if each[0] > low.offset) if drawing else (),
            configuration=self._configurations.number_at(low.offset) if self._configurations else 0,
            past=self._configurations.past_at(low.offset, self._resumed.past) if self._configurations else (),
        ).to_json()

    def _is_done(self, job: Job) -> bool:
        """Whether a job that a replay makes was done before, perhaps by another definition of its evaluator."""
        return self._was_over(job) or self.jobs.is_known(job)

    def _was_over(self, job: Job) -> bool:
        """Whether it was neither pending nor waiting at the stop."""
        return job.trigger_offset < self._resumed.done_below_of(job.assignment.evaluator.name, self._delivered)

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the state; jobs that were pending at the stop are made again, unless a newer one supersedes them."""
        jobs: dict[str, Job] = {}  # by the id under which each became due
        for record in records:
            for job in await self.state.apply(record):
                if not self._is_done(job):
                    for replaced in [jobs.pop(each) for each in job.supersedes if each in jobs]:
                        self._count(replaced, "resumed")
                        self._count(replaced, "superseded")
                    jobs[job.evaluation_id] = job
            self._retain(record.offset)
            if is_shared(record):  # by very many turns
                await asyncio.sleep(0)
        self._note_work()
        for job in jobs.values():
            self._count(job, "resumed")
        await self._submit(jobs.values(), resumed=True)

    def _by_newest(self, job: Job) -> Job | None:
        """The job as the newest plan makes it; None if that has its evaluator no more."""
        return job if self._configurations is None else self._configurations.by_newest(job)

    def _is_over(self, job: Job, made: Job | None) -> bool:
        """Whether a job has ended, and counted as such: any plan has made it, or the newest has its evaluator no more.

        `made` is the job as the newest plan makes it.
        """
        others = () if self._configurations is None else self._configurations.by_others(job)
        if any(map(self.jobs.is_known, (job, *others, made or job))):
            self._count(job, "duplicate")
            return True
        if made is None:
            self._count(job, "removed")
        return made is None

    def _count(self, job: Job, outcome: Due | End) -> None:
        self._outcomes.count_evaluation(job.monitor.name, job.assignment.evaluator.name, outcome)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Process new records; waits while a judge's bulkhead is full."""
        self.state.outcomes = self._outcomes
        if self._budget is not None:
            self.state.on_demand = partial(self._budget.add_demand, self._partition)
        for are_snapshots, group in groupby(records, lambda record: record.headers == SNAPSHOT_HEADERS):
            batch = list(group)
            if are_snapshots:
                await self._validate_snapshots(batch)
            for record in batch:
                await self._process(record)
                if is_shared(record):
                    await asyncio.sleep(0)
        self._note_work()
        await self._snapshot_conversations()
        if records:  # by the log's time: turns of a backlog carry times that pass much faster
            await self._ledger.checkpoint(
                self.state.next_offset, self._low_replay_point().offset, records[-1].timestamp
            )

    async def _process(self, record: StoredRecord) -> None:
        await self.jobs.wait_for_oldest(record.offset, self._limits.pending_records)
        if self._budget is not None and self._budget.is_decision_due(self._partition, now := self._clock()):
            await self._set_rates(self._budget, now, record.offset)
        await self._submit(await self.state.apply(record))
        self._retain(record.offset)
        await self._evict()

    async def _validate_snapshots(self, records: Sequence[StoredRecord]) -> None:
        """Decide which of the next records, all of them snapshots, are still valid."""
        # Decided for the whole batch before its first record is applied, and written down: a replay that begins behind
        # the last change of a conversation could not tell that its snapshot is outdated.
        validity = self.state.validate_snapshots(records)
        if validity:
            await self._apply_control(ControlRecord(offset=records[0].offset, snapshot_validity=validity))

    async def _apply_control(self, control: ControlRecord) -> None:
        """Write a control record, then apply it."""
        # In this order: an effect without its record could not be repeated by a replay. A record without its effect,
        # after a crash between the two, is applied by the replay.
        await self._ledger.append(control.to_record(self._partition))
        await self._submit(self.state.apply_control(control))

    async def _set_rates(self, budget: BudgetController, now: float, offset: int) -> None:
        """Set the rates from an offset on, from the past alone."""
        rates, saved = budget.decide_rates(self._partition, now)
        await self._ledger.retain_from_end()  # before the append: the end afterwards would already lie behind it
        await self._apply_control(ControlRecord(offset=offset, rates=rates, budget=saved))

    def _retain(self, offset: int) -> None:
        if released := self.state.take_released():
            self._retained.retain(released, offset)

    async def _submit(self, jobs: Iterable[Job], *, resumed: bool = False) -> None:
        waiting = self._waiting = deque((job, self._by_newest(job)) for job in jobs)
        try:
            while waiting:
                pack = [made for job, made in _next_pack(waiting) if not self._is_over(job, made) and made is not None]
                if pack:
                    await self.jobs.submit(*pack, resumed=resumed)
        finally:
            while waiting:  # the partition is revoked
                self._count(waiting.popleft()[0], "reassigned")

    async def _evict(self) -> None:
        """Stay within the limits."""
        while candidates := self._eviction_candidates():
            await self._close_early(candidates)

    async def _close_early(self, candidates: Mapping[str, Sequence[str]]) -> None:
        await self._apply_control(ControlRecord(offset=self.state.next_offset, evictions=candidates))
        self._retain(self.state.next_offset - 1)

    def _eviction_candidates(self) -> dict[str, list[str]]:
        return {
            name: sessions.oldest(min(MAX_EVICTIONS, max(1, int(len(sessions) * EVICTION_SHARE))))
            for name, sessions in self.state.conversations.items()
            if len(sessions) > self._limits.conversations or sessions.size > self._limits.bytes
        }

    @property
    def _unsnapshotted_work(self) -> float:
        """What a restart may have to do in this partition beside reading snapshots, in turns that are judged."""
        # Of the snapshots that this takes, only those of open turns cost much: where there are very many of these, a
        # restart takes longer rather than that each of them is written again and again.
        turns = sum(sessions.turns for sessions in self.state.conversations.values())
        return max(self._limits.snapshot_turns / max(1, self._partitions()), turns / TURNS_PER_SNAPSHOT_TURN, 1.0)

    def _note_work(self) -> None:
        self._work.note(self.state.work, self.state.next_offset, self._unsnapshotted_work)

    async def _snapshot_conversations(self) -> None:
        """Write snapshots of the conversations that keep the low watermark from rising."""
        if self._turns is None:
            return
        windows = sum(map(len, self.state.conversations.values()))
        # Not `snapshot_records` alone: where more windows are open than that, the snapshots of some would push the
        # others beyond the limit, and the log would grow by snapshots of snapshots.
        records = max(self._limits.snapshot_records, 2 * windows)
        latest = ReplayPoint(self.state.next_offset - records, self.state.time - self._limits.snapshot_seconds)
        # By work snapshots count nothing, so that none can be the reason of another one.
        work = self._unsnapshotted_work
        offset = self._work.offset_behind(work)
        if self._done_offset() <= offset:
            offset = 0  # what is pending or waits holds the low watermark: they would be in vain
        done, self._snapshotted_at = self.state.work - self._snapshotted_at, self.state.work
        for monitor, sessions in self.state.conversations.items():
            number = max(SNAPSHOTS_AT_ONCE, ceil(CATCHING_UP * len(sessions) * done / work))
            needing = sessions.needing_snapshot(max(offset, latest.offset), latest.time, number)
            for group in _written_together(needing, latest):
                await self._write_snapshots(self._turns, monitor, group, latest)

    async def _write_snapshots(
        self, turns: Log, monitor: str, conversations: Sequence[tuple[str, ConversationWindows]], latest: ReplayPoint
    ) -> None:
        """Write snapshots; what is too large for one is closed early where it needs a record from before `latest`."""
        try:
            await turns.append(
                [
                    snapshot_record(monitor, *conversation, self.state.next_offset, self._partition)
                    for conversation in conversations
                ]
            )
        except LogUnavailable as error:
            self._snapshot_log.failed(error)
        except RecordTooLarge:
            if len(conversations) > 1:
                for conversation in conversations:
                    await self._write_snapshots(turns, monitor, [conversation], latest)
            elif conversations[0][1].replay_point.lies_before(latest.offset, latest.time):
                await self._close_early({monitor: [conversations[0][0]]})
            else:
                conversations[0][1].too_large = True
        else:
            self._snapshot_log.succeeded()
            for _, conversation in conversations:
                conversation.snapshot_pending = True


def _written_together(
    conversations: Iterable[tuple[str, ConversationWindows]], latest: ReplayPoint
) -> Iterator[list[tuple[str, ConversationWindows]]]:
    """Conversations in groups that keep nobody waiting; without those too large that need nothing before `latest`."""
    group: list[tuple[str, ConversationWindows]] = []
    size = 0
    for name, conversation in conversations:
        if conversation.too_large and not conversation.replay_point.lies_before(latest.offset, latest.time):
            continue
        group.append((name, conversation))
        size += sum(window.size for window in conversation.windows)
        if len(group) == SNAPSHOTS_AT_ONCE or size > SNAPSHOT_BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _next_pack(waiting: deque[tuple[Job, Job | None]]) -> Sequence[tuple[Job, Job | None]]:
    """Take the first job, and those that are one pack with it: each as it became due, and as it is made now."""
    first = waiting.popleft()
    pack = first[1].pack if first[1] is not None else None
    if pack is None:
        return [first]
    others = [each for each in waiting if each[1] is not None and each[1].pack == pack]
    for other in others:
        waiting.remove(other)
    return [first, *others]
