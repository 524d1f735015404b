"""Evaluations whose judges' requests go out in batches: a partition's evaluations, and the limits of a process.

Such an evaluation runs until it only waits for submitted batches. Then it is cancelled, so that hours of waiting cost
little more than a packed case. When a batch has ended, the evaluation runs again from its beginning, and the journal
has the answers to its earlier questions. A restart does the same.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Literal

from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.plan import Job, Plan
from collector.evaluate.scheduling.dispatch import Dispatcher
from collector.records.json import turn_from_json, turn_to_json
from evaluators.cases import Turn
from evaluators.judges.batches.owned_requests import OwnedRequests, owner_name
from evaluators.results import Evaluation

DeferredState = Literal["gathering", "submitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRoomLimits:
    """The most evaluations that wait, and the most bytes (roughly) that they take. Beyond that, new ones are shed."""

    evaluations: int
    bytes: int


@dataclass(slots=True)
class _WaitingEntry:
    since: float
    size: int
    state: DeferredState


class WaitingRoom:
    """The waiting evaluations, over all partitions of this process."""

    def __init__(self, limits: WaitingRoomLimits) -> None:
        self._limits = limits
        self._waiting: dict[str, _WaitingEntry] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether no further evaluation may wait."""
        return len(self._waiting) >= self._limits.evaluations or self._bytes >= self._limits.bytes

    @property
    def oldest(self) -> float | None:
        """When the oldest waiting evaluation was triggered (s since the epoch); None if nothing waits."""
        return min((entry.since for entry in self._waiting.values()), default=None)

    def count(self, state: DeferredState) -> int:
        """The number of evaluations in a state: waiting to be submitted, or for answers."""
        return sum(entry.state == state for entry in self._waiting.values())

    def enter(self, jobs: Iterable[Job], size: int) -> None:
        """Add jobs that wait from now on and take `size` bytes together."""
        for job in jobs:
            self._waiting[job.evaluation_id] = _WaitingEntry(job.triggered_at, size, "gathering")
            self._bytes += size
            size = 0

    def move(self, jobs: Iterable[Job], state: DeferredState) -> None:
        """Move jobs to another state."""
        for job in jobs:
            self._waiting[job.evaluation_id].state = state

    def leave(self, jobs: Iterable[Job]) -> None:
        """Remove jobs that have ended, or go to another process."""
        for job in jobs:
            if (waiting := self._waiting.pop(job.evaluation_id, None)) is not None:
                self._bytes -= waiting.size


_STEPS = 10
"""A run that has not asked again within so many steps of the event loop only waits."""


@dataclass(frozen=True, slots=True)
class BatchedPlan:
    """A plan with judges whose requests go into batches.

    `lacks_batches(evaluator)` says that no endpoint of its judges takes batches. `count_undeferred` counts an
    evaluation that therefore does not wait.
    """

    plan: Plan
    lacks_batches: Callable[[str], bool]
    count_undeferred: Callable[[str], None]


OpenBatchedPlan = Callable[[LoggedJournal], AbstractAsyncContextManager[BatchedPlan]]
"""Opens the plan of the running configuration with judges whose requests go into batches of one journal; until the
context ends, the batches in the journal are followed."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """The room in which evaluations wait for batches, and the opener of the plan that makes them."""

    open_batched: OpenBatchedPlan
    waiting_room: WaitingRoom


@dataclass(eq=False, repr=False)
class DeferredEvaluations:
    """Makes the deferred evaluations of a partition, with a plan that has its own judges."""

    partition: int
    batched: BatchedPlan
    journal: LoggedJournal
    waiting_room: WaitingRoom
    dispatcher: Dispatcher

    def takes(self, jobs: Sequence[Job]) -> bool:
        """Whether a job or pack should wait for batches. If no judge takes batches, only one that has asked before
        does.
        """
        if not self._lack_batches(jobs) or self.journal.knows_owner(_owner(jobs)):
            return True
        self._count_undeferred(jobs)
        return False

    def _lack_batches(self, jobs: Sequence[Job]) -> bool:
        return all(self.batched.lacks_batches(job.assignment.evaluator.name) for job in jobs)

    def _count_undeferred(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.batched.count_undeferred(job.monitor.name)

    def admit(self, jobs: Sequence[Job], *, resumed: bool) -> bool:
        """Let a job or pack wait if there is room. One that is `resumed` had room before, so it is always let in."""
        if self.waiting_room.full and not resumed:
            return False
        self.waiting_room.enter(jobs, max(job.size for job in jobs))
        return True

    async def make(self, jobs: Sequence[Job]) -> Sequence[Evaluation]:
        """Make the evaluation of a job that was admitted, or the evaluations of a pack, however long that takes."""
        was_sent = self.journal.knows_owner(_owner(jobs))
        jobs = [self._by_batches(job) for job in jobs]
        reservations = [self.dispatcher.deferred_reservation(job, self.partition, granted=was_sent) for job in jobs]

        async def run() -> Sequence[Evaluation]:
            return await self.dispatcher.execute(jobs, self.partition, reservations=reservations)

        try:
            made = await self._until_made(jobs, run)
            if self._lack_batches(jobs):
                self._count_undeferred(jobs)
            return made
        finally:
            for reservation in reservations:
                reservation.release()

    def forget(self, jobs: Sequence[Job]) -> None:
        """Forget the questions of jobs that are in the ledger."""
        self.journal.forget(_owner(jobs))

    async def _until_made(
        self, jobs: Sequence[Job], run: Callable[[], Awaitable[Sequence[Evaluation]]]
    ) -> Sequence[Evaluation]:
        rests = True
        while True:
            made, waiting = await run_until_rest(jobs[0].evaluation_id, run, rests=rests)
            if made is not None:
                return made
            self.waiting_room.move(jobs, "submitted")
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            # If a batch failed as a whole, the evaluation gets that as its answer, and does not wait again.
            rests = not any(future.done() and future.exception() is not None for future in waiting)
            self.waiting_room.move(jobs, "gathering")

    def _by_batches(self, job: Job) -> Job:
        """The job with the judge that collects requests for batches."""
        use = self.batched.plan.assignment_of(job.monitor.name, job.assignment.evaluator.name)
        assert use is not None, "a deferred evaluator is in the plan of batches"
        mine = job.assignment  # monitors outside the plan of batches share the verdict, too
        return replace(job, assignment=replace(use[1], monitor=mine.monitor, sharers=mine.sharers))


def _owner(jobs: Sequence[Job]) -> str:
    return owner_name(jobs[0].evaluation_id)


async def run_until_rest(
    owner: str, run: Callable[[], Awaitable[Sequence[Evaluation]]], *, rests: bool = True
) -> tuple[Sequence[Evaluation] | None, Sequence[asyncio.Future[None]]]:
    """Run until the end, or until the run only waits. Returns the evaluations, or the requests that it waits for.

    A run that only waits is cancelled, so that it takes no memory.
    """
    resting = asyncio.Event()
    requests = OwnedRequests(owner, resting.set)
    with requests.current():
        running = asyncio.ensure_future(run())
    running.add_done_callback(lambda _ended: resting.set())
    try:
        while not running.done():
            await resting.wait()
            resting.clear()
            if rests and await _rests(running, requests):
                return None, list(requests.waiting.values())
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
    return running.result(), ()


async def _rests(running: asyncio.Future[Sequence[Evaluation]], requests: OwnedRequests) -> bool:
    """Whether a run only waits. One that has just got an answer may be about to ask its next question."""
    for _ in range(_STEPS):
        if running.done() or not requests.at_rest:
            return False
        await asyncio.sleep(0)
    return requests.at_rest and not running.done()  # the answer may have come in the last step


def compress_cases(jobs: Sequence[Job]) -> Sequence[Job]:
    """The jobs with their cases compressed. The case of a conversation is compressed already."""
    if jobs[0].assignment.evaluator.scope != "turn":
        return jobs
    case = jobs[0].case()
    assert isinstance(case, Turn)
    data = zlib.compress(turn_to_json(case))

    def unpack() -> Turn:
        return turn_from_json(zlib.decompress(data))

    return [replace(job, case=unpack, size=len(data)) for job in jobs]
