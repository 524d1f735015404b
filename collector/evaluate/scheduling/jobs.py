"""The pending evaluation jobs of a partition, and the records of the turns log that they still need."""

import asyncio
import heapq
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from collector.evaluate.deferred.deferred_evaluations import DeferredEvaluations, compress_cases
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.plan import Job
from collector.evaluate.recovery.ledger import Ledger, monitor_key
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import Bulkhead, Dispatcher
from collector.records.json import evaluation_to_json
from evaluators.judge import Judge
from evaluators.judges.circuit_breaker import waits_for_endpoint
from evaluators.results import Evaluation

WRITE_GRACE = 2.0
"""The seconds that an append in progress gets to finish when its partition is reassigned."""

_GLANCE = 0.5
"""Seconds after which jobs that are waited for may be found to wait for an endpoint that answers nothing."""
_SLACK = 64
"""A heap is rebuilt when its entries exceed twice the number of pending jobs by more than this."""
_TRIGGER = attrgetter("trigger_offset")


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that is not done. `replay_point` belongs to the oldest record that it needs, `trigger_offset` to the record
    that made it due.

    A job without a `bulkhead` waits for its judge's batches. `subtract_weight` lowers `WAITING_WEIGHT`.
    """

    replay_point: ReplayPoint
    trigger_offset: int
    bulkhead: Bulkhead | None
    evaluator: str
    subtract_weight: Callable[[], None] = lambda: None


@dataclass(eq=False, repr=False)
class PartitionJobs:
    """The jobs of one partition. `on_evaluated` is called when an evaluation is durable.

    `deferred` makes the jobs that wait, perhaps for hours, for a judge's batches; they take no slot, and delay no job.
    """

    partition: int
    ledger: Ledger
    dispatcher: Dispatcher
    task_group: asyncio.TaskGroup
    outcomes: OutcomeCounter
    on_evaluated: Callable[[Job, Evaluation], None] | None = None
    deferred: DeferredEvaluations | None = None

    def __post_init__(self) -> None:
        self._judges: dict[asyncio.Task[None], Judge] = {}  # of the tasks that do not wait for batches
        self._job_tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._writing: set[asyncio.Task[None]] = set()
        self._pending: dict[str, PendingJob] = {}
        self._by_replay_point = LazyMinHeap(self._pending, attrgetter("replay_point.offset"))
        self._by_evaluator: dict[str, dict[str, PendingJob]] = {}
        self._by_trigger: dict[str, LazyMinHeap] = {}
        self._immediate: dict[str, PendingJob] = {}  # jobs that do not wait for batches
        self._immediate_by_trigger = LazyMinHeap(self._immediate, _TRIGGER)

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def running(self) -> int:
        """The number of jobs that have a slot."""
        return len(self._running)

    @property
    def low_watermark(self) -> ReplayPoint | None:
        """The oldest record from which a pending job was made."""
        oldest = self._by_replay_point.peek()
        return oldest.replay_point if oldest else None

    @property
    def oldest_triggers(self) -> Mapping[str, int]:
        """The offset of the oldest record that triggered a pending job, by evaluator."""
        return {name: job.trigger_offset for name, heap in self._by_trigger.items() if (job := heap.peek()) is not None}

    def is_known(self, *jobs: Job) -> bool:
        """Whether the evaluation of any of these jobs exists or is pending.

        For the first monitor that uses an evaluator, ids do not depend on the monitor's name. A monitor that is not the
        first now may have been the first earlier: then its older evaluations have such ids.
        """
        for job in jobs:
            if job.evaluation_id in self._pending or job.evaluation_id in self.ledger:
                return True
            if job.assignment.monitor and monitor_key(job.id_for(""), job.monitor.name) in self.ledger:
                return True
        return False

    async def submit(self, *jobs: Job, resumed: bool = False) -> None:
        """Start a new job, or the jobs of a pack, which take one slot and ask their judge together.

        Waits while the judge's bulkhead is full (back-pressure). Jobs that may wait for hours take no slot: they wait
        for batches, if their judge has batches. If too many wait already, new jobs are shed, but not `resumed`
        ones, because these were admitted before.
        """
        if self.deferred is not None and jobs[0].deferred and self.deferred.takes(jobs):
            small = compress_cases(jobs)
            self._begin(small, None)
            self._defer(small, self.deferred, has_room=self.deferred.admit(small, resumed=resumed))
            return
        bulkhead, size = self.dispatcher.bulkheads[jobs[0].judge_name], max(map(attrgetter("size"), jobs))
        self._begin(jobs, bulkhead)
        try:
            await bulkhead.acquire(size)
        except BaseException:
            for job in jobs:
                self._remove_pending(job.evaluation_id)
                self._count_reassigned(job)
            raise
        task = self.task_group.create_task(self._run(jobs, bulkhead))
        self._job_tasks.add(task)
        self._judges[task] = jobs[0].judge
        # A callback, since a task that is cancelled before it starts runs no `finally`.
        task.add_done_callback(partial(self._end, jobs, partial(bulkhead.release, size)))
        if bulkhead.busy:
            await asyncio.sleep(0)  # let the jobs run: a long delivery must not starve them

    def _begin(self, jobs: Sequence[Job], bulkhead: Bulkhead | None) -> None:
        for job in jobs:
            if job.happened_at is None:  # only live traffic shows whether an evaluator is stale
                self.outcomes.count_started(job.monitor.name, job.assignment.evaluator.name)
            name, evaluator = job.evaluation_id, job.assignment.evaluator.name
            self._pending[name] = pending = PendingJob(
                job.replay_point, job.trigger_offset, bulkhead, evaluator, self.outcomes.count_waiting_weight(job)
            )
            self._by_replay_point.add(name, pending)
            same = self._by_evaluator.setdefault(evaluator, {})
            same[name] = pending
            if evaluator not in self._by_trigger:
                self._by_trigger[evaluator] = LazyMinHeap(same, _TRIGGER)
            self._by_trigger[evaluator].add(name, pending)
            if bulkhead is not None:
                self._immediate[name] = pending
                self._immediate_by_trigger.add(name, pending)

    def _defer(self, jobs: Sequence[Job], deferred: DeferredEvaluations, *, has_room: bool) -> None:
        task = self.task_group.create_task(self._run_deferred(jobs, deferred, has_room=has_room))
        self._job_tasks.add(task)
        task.add_done_callback(partial(self._end, jobs, partial(deferred.waiting_room.leave, jobs)))

    def _remove_pending(self, name: str) -> None:
        job = self._pending.pop(name)
        job.subtract_weight()
        del self._by_evaluator[job.evaluator][name]
        self._immediate.pop(name, None)

    async def wait_for_oldest(self, offset: int, records: int) -> None:
        """Wait while a pending job was triggered more than `records` records before `offset`.

        Until that job is done, a restart has to read all later records again. Jobs in batches are not waited for, since
        everything else would stop for hours.
        """
        while (oldest := self._immediate_by_trigger.peek()) is not None and offset - oldest.trigger_offset > records:
            assert oldest.bulkhead is not None
            await oldest.bulkhead.wait_for_release()

    async def _run(self, jobs: Sequence[Job], bulkhead: Bulkhead) -> None:
        async with self.dispatcher.verdicts.exclusively(jobs), self.dispatcher.slot(jobs, bulkhead) as has_slot:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            await self.dispatcher.confirm()
            await self._record(task, jobs, await self.dispatcher.execute(jobs, self.partition, has_slot=has_slot))

    async def _run_deferred(self, jobs: Sequence[Job], deferred: DeferredEvaluations, *, has_room: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        async with self.dispatcher.verdicts.exclusively(jobs):
            if has_room:
                evaluations = await deferred.make(jobs)
            else:
                evaluations = await self.dispatcher.execute(jobs, self.partition, has_slot=False)
            self._running.add(task)
            await self._record(task, jobs, evaluations)
        deferred.forget(jobs)

    async def _record(self, task: asyncio.Task[None], jobs: Sequence[Job], evaluations: Sequence[Evaluation]) -> None:
        """Append the evaluations to the evaluations log; then the jobs are done."""
        await self.dispatcher.confirm()
        self._writing.add(task)
        await self.dispatcher.write(evaluations, self.partition, self.ledger.end_offset, self.ledger.epoch)
        for job, evaluation in zip(jobs, evaluations, strict=True):
            self.ledger.add(job.evaluation_id)
            if job.assignment.sharers:
                self.dispatcher.verdicts.note(job.evaluation_id, evaluation_to_json(evaluation))
            self._remove_pending(job.evaluation_id)  # not in a `finally`: a cancelled job has to hold the low watermark
            self.outcomes.count_evaluation(
                evaluation.monitor, evaluation.evaluator, evaluation.outcome, evaluation.reason_code
            )
            if self.on_evaluated is not None:
                self.on_evaluated(job, evaluation)

    def _end(self, jobs: Sequence[Job], release: Callable[[], None], task: asyncio.Task[None]) -> None:
        release()
        for tasks in (self._job_tasks, self._running, self._writing):
            tasks.discard(task)
        self._judges.pop(task, None)
        for job in jobs:
            if job.evaluation_id in self._pending:
                self._pending[job.evaluation_id].subtract_weight()
                self._count_reassigned(job)

    def _count_reassigned(self, job: Job) -> None:
        self.outcomes.count_evaluation(job.monitor.name, job.assignment.evaluator.name, "reassigned")

    async def drain(self, grace: float) -> None:
        """Give jobs `grace` seconds to end, also those that wait for a slot; not those that wait for batches, or for an
        endpoint that answers nothing.
        """
        await self._wait_for(self._judges.keys(), grace)

    async def _wait_for(self, tasks: Collection[asyncio.Task[None]], grace: float) -> None:
        end = time.monotonic() + grace
        while (left := end - time.monotonic()) > 0:
            able = [task for task in tasks if task not in self._judges or not waits_for_endpoint(self._judges[task])]
            if not able:
                return
            await asyncio.wait(able, timeout=min(left, _GLANCE))

    async def stop(self, grace: float) -> None:
        """Give running jobs `grace` seconds to end, as `drain` does, then cancel them; the next owner makes them again.

        Jobs that wait for a slot are cancelled at once. An append in progress gets `WRITE_GRACE` s more: if it were
        cancelled, its jobs would count as reassigned although their evaluations may still reach the log.
        """
        for task in self._job_tasks - self._running:
            task.cancel()
        await self._wait_for(self._running, grace)
        for task in self._job_tasks - self._writing:
            task.cancel()
        if self._writing:
            await asyncio.wait(list(self._writing), timeout=WRITE_GRACE)
        for task in list(self._job_tasks):
            task.cancel()


class LazyMinHeap:
    """Finds the pending job whose `number` (an offset) is lowest. Jobs end in any order, so an ended job stays in the
    heap for a while.
    """

    def __init__(self, pending: Mapping[str, PendingJob], number: Callable[[PendingJob], int]) -> None:
        self._pending = pending
        self._number = number
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str, job: PendingJob) -> None:
        """Add a pending job. When the job ends, its owner removes it from `pending`, and `peek` passes over it."""
        heapq.heappush(self._heap, (self._number(job), name))
        if len(self._heap) > 2 * len(self._pending) + _SLACK:  # most entries have ended
            self._heap = sorted((self._number(pending), name) for name, pending in self._pending.items())

    def peek(self) -> PendingJob | None:
        """The pending job with the least number; None if there is none."""
        while self._heap and self._heap[0][1] not in self._pending:
            heapq.heappop(self._heap)
        return self._pending[self._heap[0][1]] if self._heap else None
