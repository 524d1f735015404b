"""The evaluations of one partition that are on their way, and what of the turns log they still need."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.ledger import Ledger
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Job
from collector.evaluate.tally import Tally
from evaluators.outcome import Evaluation


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the turns log a job comes from: the mark it needs, the record it was emitted at."""

    needs: Mark
    emitted: int


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
        self._running: dict[str, asyncio.Task[None]] = {}
        self._places: dict[str, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def low_watermark(self) -> Mark | None:
        """The oldest turn that a job on its way was made from."""
        return min((each.needs for each in self._places.values()), default=None, key=lambda mark: mark.position)

    @property
    def emitted(self) -> int | None:
        """The first record that a job on its way was emitted at."""
        return min((each.emitted for each in self._places.values()), default=None)

    def known(self, job: Job) -> bool:
        """Whether a job's evaluation exists, or is on its way."""
        return job.evaluation_id in self._ledger or job.evaluation_id in self._places

    async def submit(self, job: Job) -> None:
        """Start a job that is not known. Waits for a free place: the back-pressure."""
        self._places[job.evaluation_id] = Place(job.needs, job.emitted)
        try:
            await self._dispatcher.places.acquire()
        except BaseException:
            del self._places[job.evaluation_id]
            raise
        task = self._running[job.evaluation_id] = self._tasks.create_task(self._run(job))
        task.add_done_callback(lambda _: self._ended(job))  # called also if it was cancelled before it began

    async def _run(self, job: Job) -> None:
        evaluation = await self._dispatcher.perform(job, self._partition)
        self._ledger.add(job.evaluation_id)
        del self._places[job.evaluation_id]  # not if it was cancelled: the low watermark then stays where it is
        self._count(evaluation)

    def _ended(self, job: Job) -> None:
        del self._running[job.evaluation_id]
        self._dispatcher.places.release()
        if job.evaluation_id in self._places:
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
        """Give running jobs `grace` seconds to end, then give them up; they will be made again by the next owner."""
        running = list(self._running.values())
        if running and grace > 0:
            await asyncio.wait(running, timeout=grace)
        for task in list(self._running.values()):
            task.cancel()
