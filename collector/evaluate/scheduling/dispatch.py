"""Execution of evaluation jobs: reserve money, evaluate, write the record into the evaluations log.

Every judge has its own slots (a bulkhead), so a judge that is down or slow does not delay the other judges. If several
monitors need the same verdict, the judge is asked and paid once, and each monitor counts the verdict.
"""

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

from collector.backoff import Backoff, StateLines
from collector.evaluate.budget import controller
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.plan import Job, evaluation_of, repeat_verdict
from collector.evaluate.recovery.ledger import RETRY, append_with_retry
from collector.logs.journal.guard import Guard
from collector.logs.log import Confirm, Log, Record, certain
from collector.otlp.evaluation_spans import judging
from collector.records.epochs import stamped
from collector.records.json import evaluation_from_json, evaluation_to_json, readable
from evaluators.cases import Conversation, Turn
from evaluators.evaluation import Result, utc_now
from evaluators.packs.evaluate_pack import run_pack
from evaluators.results import Evaluation, Failure, Skipped, SkipReason

REMEMBERED = 4096
"""The most verdicts that are remembered for other monitors, about two kilobytes each. Other monitors usually need a
verdict within moments."""


class SharedVerdicts:
    """The verdicts of this process that another monitor may repeat, by evaluation id."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def note(self, evaluation_id: str, record: bytes) -> None:
        """Remember an evaluation that is in the log."""
        self._records[evaluation_id] = record
        if len(self._records) > REMEMBERED:
            self._records.popitem(last=False)

    def exclusively(self, jobs: Sequence[Job]) -> AbstractAsyncContextManager[None]:
        """Wait until no other job asks for these verdicts. Jobs in a batch, which take hours, delay only each other."""
        names = [f"{job.verdict_ids[0]}/{job.deferred}" for job in jobs if job.assignment.sharers and job.verdict_ids]
        return self._locked(sorted(names)) if names else nullcontext()

    @asynccontextmanager
    async def _locked(self, names: Sequence[str]) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for name in names:  # in sorted order for every job, so that no two jobs wait for each other
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            yield

    def known_verdict(self, job: Job) -> Evaluation | None:
        """The evaluation whose verdict a job may repeat. A skip is never repeated, as each monitor has its own reasons
        to skip.
        """
        records = filter(None, map(self._records.get, job.verdict_ids))
        return next(filter(None, map(_verdict, records)), None)


def _verdict(record: bytes) -> Evaluation | None:
    evaluation = readable(evaluation_from_json, record)  # None: a later version wrote it
    return None if evaluation is None or evaluation.outcome == "skipped" else evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkheadLimits:
    """The limits of each judge: `slots` evaluations run at once; `waiting` more, in about `bytes`, wait for a slot.

    A job that has waited longer than `shed_after` seconds is skipped; None sets no limit.
    """

    slots: int
    waiting: int = 10_000
    bytes: int = 64 << 20
    shed_after: float | None = None


class Bulkhead:
    """Admits the evaluations of one judge in order of arrival, over all partitions of this process."""

    def __init__(self, limits: BulkheadLimits) -> None:
        self.paused_partitions = 0
        """The number of partitions that wait for an evaluation here to end."""
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.slots)
        self._inside = 0
        self._running = 0
        self._bytes = 0
        self._released = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of evaluations that wait for a slot."""
        return self._inside - self._running

    @property
    def busy(self) -> bool:
        """Whether all slots are in use."""
        return self._inside >= self._limits.slots

    @property
    def full(self) -> bool:
        """Whether no further evaluation is admitted."""
        # Bytes count only while all slots are in use. Otherwise a case larger than the limit would never be admitted,
        # and slots would stay unused.
        limits = self._limits
        return self.busy and (self._inside >= limits.slots + limits.waiting or self._bytes >= limits.bytes)

    async def acquire(self, size: int) -> None:
        """Admit an evaluation of `size` bytes. Waits while the bulkhead is full (back-pressure). The caller must
        `release` the same size.
        """
        while self.full:
            await self.wait_for_release()
        self._inside += 1
        self._bytes += size

    async def wait_for_release(self) -> None:
        """Wait until an evaluation ends."""
        self._released.clear()
        self.paused_partitions += 1
        try:
            await self._released.wait()
        finally:
            self.paused_partitions -= 1

    def release(self, size: int) -> None:
        """Free the place of an evaluation that has ended or was cancelled."""
        self._inside -= 1
        self._bytes -= size
        self._released.set()

    @asynccontextmanager
    async def slot(self, queue_timeout: float | None) -> AsyncGenerator[bool]:
        """Use a slot; yields False if no slot became free within `queue_timeout` seconds. None waits indefinitely."""
        try:
            async with asyncio.timeout(queue_timeout):
                await self._slots.acquire()
        except TimeoutError:
            yield False
            return
        self._running += 1
        try:
            yield True
        finally:
            self._running -= 1
            self._slots.release()


Bulkheads: TypeAlias = defaultdict[str, Bulkhead]
"""The bulkheads by judge name. Evaluators without a judge ("") have slots but no queue, since waiting gains nothing."""


logger = logging.getLogger(__name__)

_WAITS = "waits"
"""The decision that a job has to wait until reservations of other jobs are settled."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """`now` gives the times in records; `seconds` (since the epoch) measures waiting and spending, and should not
    jump.
    """

    now: Callable[[], datetime] = utc_now
    seconds: Callable[[], float] = time.time


@dataclass(eq=False, repr=False)
class Dispatcher:
    """Executes the evaluation jobs of all partitions of this process, within the `guardrails`, in a bulkhead per judge.

    A job ends when its evaluation is durable in the evaluations log, whatever the outcome; while that log cannot be
    written the job keeps its slot and retries by the `backoff`. A job that waited too long, or that would exceed a hard
    cap of the `budget`, is skipped with that reason. If the budget lacks room only because of the reservations of other
    jobs in flight, the job waits until they are settled. `confirm` waits until this process certainly owns its
    partitions, so that no job of another process's partition is done.
    """

    evaluations: Log
    guardrails: EvaluationGuardrails
    _: KW_ONLY
    limits: BulkheadLimits
    clocks: Clocks = Clocks()
    backoff: Backoff = RETRY
    budget: controller.BudgetController | None = None
    guard: Guard = field(default_factory=Guard)
    confirm: Confirm = certain

    def __post_init__(self) -> None:
        unqueued = BulkheadLimits(slots=self.limits.slots, waiting=0)
        self.bulkheads: Bulkheads = defaultdict(lambda: Bulkhead(self.limits)) | {"": Bulkhead(unqueued)}
        self.verdicts = SharedVerdicts()
        self._capped = StateLines(clock=self.clocks.seconds)  # monitors at their hard cap

    def queue_timeout(self, job: Job) -> float | None:
        """Seconds that a job may still wait for a slot; None for no limit."""
        if self.limits.shed_after is None or job.happened_at is not None or job.deferred:
            return None
        return max(0.0, job.triggered_at + self.limits.shed_after - self.clocks.seconds())

    def slot(self, jobs: Sequence[Job], bulkhead: Bulkhead) -> AbstractAsyncContextManager[bool]:
        """A slot for jobs that ask together; yields False if no slot became free in time. If all verdicts are known,
        the jobs need no slot.
        """
        if None not in map(self.verdicts.known_verdict, jobs):
            return nullcontext(True)
        return bulkhead.slot(self.queue_timeout(jobs[0]))

    async def execute(
        self,
        jobs: Sequence[Job],
        partition: int,
        *,
        has_slot: bool = True,
        reservations: Sequence[controller.Reservation] | None = None,
    ) -> list[Evaluation]:
        """Evaluate a job or a pack, or skip with a reason. Jobs that got no slot in time are shed.

        If a budget has money for only some jobs of a pack, these go first, and the others follow once the first are
        paid.
        """
        case = jobs[0].case()
        reservations = reservations or list(map(partial(self._reservation, partition), jobs))
        ended: dict[int, Evaluation] = {}
        while len(ended) < len(jobs):
            granted: list[tuple[int, Job, controller.Reservation]] = []
            waits = False
            for number, (job, reservation) in enumerate(zip(jobs, reservations, strict=True)):
                if number in ended:
                    continue
                if (verdict := self.verdicts.known_verdict(job)) is not None:
                    ended[number] = repeat_verdict(job, case, verdict)
                    continue
                reason = self._decide(job, reservation) if has_slot else SkipReason.SHED.text()
                if reason is None:
                    granted.append((number, job, reservation))
                elif reason == _WAITS:
                    waits = True
                else:
                    ended[number] = evaluation_of(job, case, self._instant_result(Skipped(reason=reason)))
            if granted:
                numbers, made, reserved = zip(*granted, strict=True)
                for number, job, result in zip(numbers, made, await self._evaluate(made, case, reserved), strict=True):
                    ended[number] = evaluation_of(job, case, result)
            elif waits:  # until a cost is known, reservations are guesses: jobs that end may free most of the money
                assert self.budget is not None
                settled = asyncio.Event()
                self.budget.on_settled(settled.set)
                await settled.wait()
        return list(map(ended.__getitem__, range(len(jobs))))

    def _instant_result(self, outcome: Skipped | Failure) -> Result:
        moment = self.clocks.now()
        return Result(outcome=outcome, started_at=moment, ended_at=moment)

    async def write(
        self, evaluations: Sequence[Evaluation], partition: int, since: int, epoch: int | None = None
    ) -> None:
        """Append evaluations together; durable on return. A retry omits those in the log from `since` on."""
        records = [
            Record(
                evaluation.evaluation_id.encode(), stamped(evaluation_to_json(evaluation), epoch), partition=partition
            )
            for evaluation in evaluations
        ]
        await append_with_retry(self.evaluations, *records, backoff=self.backoff, since=since)

    def deferred_reservation(
        self, job: Job, partition: int, *, granted: bool
    ) -> controller.DeferredReservation | controller.FixedReservation:
        """The reservation of a job that waits for batches, perhaps for hours; `granted` if it was granted before."""
        reservation = self._reservation(partition, job)
        if isinstance(reservation, controller.FixedReservation):
            return reservation
        return controller.DeferredReservation(reservation, granted=granted)

    def _reservation(self, partition: int, job: Job) -> controller.BudgetReservation | controller.FixedReservation:
        if self.budget is None or not self.budget.limited or job.happened_at is not None:
            return controller.UNLIMITED
        return controller.BudgetReservation(self.budget, job, partition, self.clocks.seconds)

    def _decide(self, job: Job, reservation: controller.Reservation) -> str | None:
        """None if a job may be done now; else the reason to skip it, or `_WAITS`."""
        if job.skip is not None:
            return job.skip
        if self.queue_timeout(job) == 0.0:
            return SkipReason.SHED.text()
        name = job.monitor.name
        if reservation.reserve():
            # not what is granted whatever is spent: without a judge, a backfill, or before the cap was reached
            if name in self._capped.open and reservation.is_below_cap():
                self._capped.open.discard(name)
                logger.info("monitor %s: below the hard cap of budgets again; judges are asked again", name)
            return None
        if not reservation.is_below_cap():
            if self._capped.is_due(name):
                own = self.budget is not None and self.budget.reaches_own(name, self.clocks.seconds())
                logger.warning(
                    "monitor %s: the hard cap of %s is reached: no judge is asked until that budget has room",
                    name,
                    "its budget" if own else "the budget of all monitors",
                )
            return SkipReason.OVER_BUDGET.text()
        return _WAITS

    async def _evaluate(
        self, jobs: Sequence[Job], case: Turn | Conversation, reservations: Sequence[controller.Reservation]
    ) -> list[Result]:
        first = jobs[0]
        costs: list[float | None] = [None] * len(jobs)
        place = self.guard.known_place(f"evaluation {first.evaluation_id}")
        try:
            if place.is_fatal(first.trigger_offset):
                return [self._left_out(job) for job in jobs]
            redacted = self.guardrails.redacted(case)
            runs = [
                partial(
                    self.guardrails.run,
                    job.assignment.evaluator,
                    redacted,
                    now=self.clocks.now,
                    reservation=reservation,
                    skip_unseen=job.monitor.skip_unseen,
                )
                for job, reservation in zip(jobs, reservations, strict=True)
            ]
            with judging(first.evaluation_id, _trace_of(first, case)):
                drive = partial(place.drive, first.trigger_offset, first.trigger_offset)
                if first.pack is None:
                    results = [await drive(runs[0](first.judge))]
                else:
                    results = await drive(run_pack(first.judge, runs))
            costs = [controller.charge_of(result, job.assignment) for result, job in zip(results, jobs, strict=True)]
        finally:
            place.close()
            for reservation, cost in zip(reservations, costs, strict=True):
                reservation.settle(cost)
        return results

    def _left_out(self, job: Job) -> Result:
        """The failure of an evaluation that ended the process again and again."""
        why = str(self.guard.error("evaluation"))
        logger.error("%s of a turn or conversation is left out: %s", job.assignment.evaluator.name, why)
        return self._instant_result(Failure(type="process_ended", message=why))


def _trace_of(job: Job, case: Turn | Conversation) -> str | None:
    """The trace id for an evaluation's span; None for a backfill, since its trace is long over."""
    if job.happened_at is not None:
        return None
    turns = (case,) if isinstance(case, Turn) else case.turns[-1:]
    return turns[0].trace_id if turns else None
