"""Runs evaluation jobs and writes each result into the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from collector.evaluate.lanes import Lanes, Room
from collector.evaluate.ledger import persistently
from collector.evaluate.paying import PurseTill, Run, run_alone
from collector.evaluate.plan import Job
from collector.evaluate.purse import Purse
from collector.evaluate.record import evaluation_of
from collector.logs.log import Log, Record
from collector.records import evaluation_to_json
from collector.till import NoTill
from evaluators.cases import Conversation, Turn
from evaluators.outcome import Evaluation, Skipped
from evaluators.run import Result


def utc_now() -> datetime:
    """The time of day, for the records' timestamps."""
    return datetime.now(UTC)


class Dispatcher:
    """Performs the evaluation jobs of all partitions of this process, those of each judge in a lane of its own.

    A job ends when its evaluation is durable in the evaluations log, whatever the outcome; while that log cannot be
    written the job keeps its place and tries again every `retry` seconds. What waited longer than `shed_after` seconds,
    or would go beyond a hard cap of the `purse`, is skipped for that reason. `run` judges like `evaluators.run.run`.
    `now` is for the records; by the `clock` (s since the epoch) things wait and money is spent: it should not jump.
    """

    def __init__(
        self,
        evaluations: Log,
        *,
        room: Room,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.time,
        retry: float = 1.0,
        purse: Purse | None = None,
        shed_after: float | None = None,
        run: Run = run_alone,
    ) -> None:
        self.lanes = Lanes(room)
        self._evaluations = evaluations
        self._now = now
        self._clock = clock
        self._retry = retry
        self._purse = purse
        self._shed_after = shed_after
        self._run = run

    def patience(self, job: Job) -> float | None:
        """Seconds that a job may still wait for a place; None is for ever."""
        if self._shed_after is None:
            return None
        return max(0.0, job.since + self._shed_after - self._clock())

    async def perform(self, job: Job, partition: int, *, in_time: bool = True) -> Evaluation:
        """Judge, or say why not. What had no place `in_time` is shed."""
        case = job.case()
        reason = self._refused(job) if in_time else "shed"
        if reason is not None:
            moment = self._now()
            nothing = Skipped(reason=reason)
            result = Result(outcome=nothing, judge=None, usage=None, cost_usd=None, started_at=moment, ended_at=moment)
        else:
            result = await self._judged(job, case, partition)
        return evaluation_of(job, case, result)

    async def write(self, evaluation: Evaluation, partition: int, since: int) -> None:
        """Write an evaluation down, behind the position `since` of the evaluations log; durable on return."""
        record = Record(evaluation.evaluation_id.encode(), evaluation_to_json(evaluation), partition=partition)
        await persistently(self._evaluations, record, self._retry, since=since)

    def _refused(self, job: Job) -> str | None:
        now = self._clock()
        if self._shed_after is not None and now - job.since > self._shed_after:
            return "shed"
        if self._purse is not None and not self._purse.reserve(job, now):
            return "over_budget"
        return None

    async def _judged(self, job: Job, case: Turn | Conversation, partition: int) -> Result:
        cost: float | None = None
        try:
            till = NoTill() if self._purse is None else PurseTill(self._purse, job, partition, self._clock)
            result = await self._run(job.assignment.evaluator, case, job.judge, now=self._now, till=till)
            cost = result.cost_usd
        finally:
            if self._purse is not None:
                self._purse.settle(job, partition, cost, self._clock())
        return result
