"""The evaluations of one partition that are on their way, and what of the turns log they still need."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.lanes import Lane
from collector.evaluate.ledger import Ledger
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Job
from collector.evaluate.tally import Tally
from evaluators.outcome import Evaluation

LAST_WORDS = 2.0
"""Seconds that a durable append may take when its partition goes to another owner."""

_FEW = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A job on its way: the mark in the turns log that it needs, the record it was emitted at, its judge's lane."""

    needs: Mark
    emitted: int
    lane: Lane


class PartitionJobs:
    """The jobs of one partition."""

    def __init__(
        self, partition: int, ledger: Ledger, dispatcher: Dispatcher, tasks: asyncio.TaskGroup, tally: Tally
    ) -> None:
        self._partition = partition
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._tally = tally
        self._on_way: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._writing: set[asyncio.Task[None]] = set()
        self._places: dict[str, Place] = {}
        self._needed = Oldest(self._places, lambda place: place.needs.position)
        self._emitted = Oldest(self._places, lambda place: place.emitted)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def running(self) -> int:
        """How many have a place."""
        return len(self._running)

    @property
    def low_watermark(self) -> Mark | None:
        """The oldest turn that a job on its way was made from."""
        oldest = self._needed.find()
        return oldest.needs if oldest else None

    @property
    def emitted(self) -> int | None:
        """The first record that a job on its way was emitted at."""
        oldest = self._emitted.find()
        return oldest.emitted if oldest else None

    def known(self, job: Job) -> bool:
        """Whether a job's evaluation exists, or is on its way."""
        return job.evaluation_id in self._ledger or job.evaluation_id in self._places

    async def submit(self, job: Job) -> None:
        """Take in a job that is not known. Waits while there is no room in its judge's lane: the back-pressure."""
        lane = self._dispatcher.lanes.of(job.judge_name)
        self._tally.begun(job.monitor.name, job.assignment.evaluator.name)
        self._places[job.evaluation_id] = place = Place(job.needs, job.emitted, lane)
        self._needed.add(job.evaluation_id, place)
        self._emitted.add(job.evaluation_id, place)
        try:
            await lane.enter(job.size)
        except BaseException:
            del self._places[job.evaluation_id]
            self._handed_over(job)
            raise
        task = self._tasks.create_task(self._run(job, lane))
        self._on_way.add(task)
        task.add_done_callback(lambda task: self._ended(task, job, lane))  # one that never began has no `finally`
        if lane.busy:
            await asyncio.sleep(0)  # a long delivery shall not hold up those who work it off

    async def keep_up(self, position: int, records: int) -> None:
        """Wait while a job is on its way that was emitted more than so many records before a position.

        What came since is remembered with it, and read again after a restart.
        """
        while (oldest := self._emitted.find()) is not None and position - oldest.emitted > records:
            await oldest.lane.someone_left()

    async def _run(self, job: Job, lane: Lane) -> None:
        async with lane.place(self._dispatcher.patience(job)) as has_place:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            evaluation = await self._dispatcher.perform(job, self._partition, in_time=has_place)
            self._writing.add(task)
            await self._dispatcher.write(evaluation, self._partition, self._ledger.end)
            self._ledger.add(job.evaluation_id)
            del self._places[job.evaluation_id]  # not if it was cancelled: the low watermark then stays where it is
            self._count(evaluation)

    def _ended(self, task: asyncio.Task[None], job: Job, lane: Lane) -> None:
        self._on_way.discard(task)
        self._running.discard(task)
        self._writing.discard(task)
        lane.leave(job.size)
        if job.evaluation_id in self._places:
            self._handed_over(job)

    def _handed_over(self, job: Job) -> None:
        self._tally.evaluation(job.monitor.name, job.assignment.evaluator.name, "handed_over")

    def _count(self, evaluation: Evaluation) -> None:
        names = (evaluation.monitor, evaluation.evaluator)
        reason = (evaluation.reason or "").partition(":")[0]
        if evaluation.error is not None:
            self._tally.evaluation(*names, "failed", evaluation.error.type)
        elif reason in ("over_budget", "shed"):
            self._tally.evaluation(*names, "over_budget" if reason == "over_budget" else "shed")
        else:
            self._tally.evaluation(*names, "skipped" if evaluation.outcome == "skipped" else "scored", reason)

    async def stop(self, grace: float) -> None:
        """Give running jobs `grace` seconds to end, then give them up; they will be made again by the next owner.

        Those that wait for a place are given up at once. What is being written down has `LAST_WORDS` more: given up, it
        would be counted as handed over, and reach the log all the same.
        """
        for task in self._on_way - self._running:
            task.cancel()
        if self._running and grace > 0:
            await asyncio.wait(list(self._running), timeout=grace)
        for task in self._on_way - self._writing:
            task.cancel()
        if self._writing:
            await asyncio.wait(list(self._writing), timeout=LAST_WORDS)
        for task in list(self._on_way):
            task.cancel()


class Oldest:
    """Finds the place with the least number, as places come and go, without looking at all of them."""

    def __init__(self, places: Mapping[str, Place], number: Callable[[Place], int]) -> None:
        self._places = places
        self._number = number
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str, place: Place) -> None:
        """A place has come. That it goes need not be told."""
        heapq.heappush(self._heap, (self._number(place), name))
        if len(self._heap) > 2 * len(self._places) + _FEW:  # most of them are gone
            self._heap = sorted((self._number(each), name) for name, each in self._places.items())

    def find(self) -> Place | None:
        """The place with the least number; None if there is none."""
        while self._heap and self._heap[0][1] not in self._places:
            heapq.heappop(self._heap)
        return self._places[self._heap[0][1]] if self._heap else None
