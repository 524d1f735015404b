"""The batches of a running service: for monitors whose evaluations may wait for hours."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from collector.config.configured import Config
from collector.config.urgency import deferred_part, judges_and_fallbacks
from collector.evaluate.deferred.deferred_evaluations import BatchedPlan, OpenBatchedPlan
from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.deferred.waiting_room import WaitingRoom, WaitingRoomLimits
from collector.evaluate.stage import GROUP
from collector.judging.batches import Batches, EnduringBatches, home_of
from collector.judging.open_judges import judges_in_use, open_judges
from collector.service.plan_builder import build_plan
from collector.service.process import Process
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import BATCH_CALLS_FAILED, BATCH_REQUESTS, BATCHES, UNDEFERRED
from evaluators.errors import JudgeError
from evaluators.judges.batches.absent_batches import AbsentBatches
from evaluators.judges.batches.batch_terms import BatchPace, BatchProgress

logger = logging.getLogger(__name__)

PACE = BatchPace(patience=float("inf"))
"""An immediate question is asked until it is answered: nothing waits for it."""
MOST_ITEMS = 500
"""Requests in a batch at most: until it is submitted each costs 50 kB of memory, for each partition and judge."""
_OUTCOMES = frozenset({"completed", "expired", "cancelled", "failed", "gone"})


@dataclass(frozen=True, slots=True)
class Deferring:
    """How a process makes evaluations that may wait, where they do, and the journals of its partitions.

    `homes` are the journals' names of judges whose requests go into batches, by the judges' own.
    """

    open_batched: OpenBatchedPlan
    room: WaitingRoom
    homes: Mapping[str, str]
    journals: set[LoggedJournal]
    absent: AbsentBatches

    def lacks_batches(self, judge: str) -> bool:
        """Whether a judge's endpoint was found to take none."""
        return self.homes[judge] in self.absent

    def open_batches(self, judge: str) -> int:
        """How many batches of a judge have not ended, and are followed by this process."""
        return sum(len(journal.open_batches(self.homes[judge])) for journal in self.journals)


def deferring(process: Process) -> Deferring | None:
    """How the evaluations of its configuration that may wait are made; None if it has no such monitor."""
    part = deferred_part(process.config)
    if part is None:
        return None
    settings = process.config.settings.evaluate
    limits = WaitingRoomLimits(evaluations=settings.max_deferred, bytes=settings.max_deferred_bytes)
    judges = {name: part.settings.judges[name] for name in judges_in_use(part)}
    homes = {name: home_of(name, judge) for name, judge in judges.items() if judge.takes_batches}
    journals = set[LoggedJournal]()
    absent = AbsentBatches()
    open_batched = partial(_open_batched, process=process, part=part, homes=homes, journals=journals, absent=absent)
    return Deferring(open_batched, WaitingRoom(limits), homes, journals, absent)


@asynccontextmanager
async def _open_batched(
    journal: LoggedJournal,
    process: Process,
    part: Config,
    homes: Mapping[str, str],
    journals: set[LoggedJournal],
    absent: AbsentBatches,
) -> AsyncGenerator[BatchedPlan]:
    gather = part.settings.evaluate.gather
    telemetry = process.telemetry
    enduring = EnduringBatches(
        most_items=MOST_ITEMS,
        confirm=partial(process.logs.turns.confirm, GROUP),
        on_progress=partial(_count, telemetry),
        on_problem=partial(_count_problem, telemetry),
        on_at_once=lambda judge: telemetry.counter(BATCH_REQUESTS, judge, "at_once").inc(),
        warn=logger.warning,
        absent=absent,
    )
    pace = replace(PACE, linger=gather, longest_linger=gather)
    batches = Batches(journal, pace, logger.info, enduring=enduring)
    assert process.steps is not None, "a service has a definitions log"

    def lacks_batches(evaluator: str) -> bool:
        judges = judges_and_fallbacks(evaluator, part.settings, part.evaluators)
        endpoints = [homes[judge] for judge in judges if judge in homes]
        return bool(endpoints) and all(endpoint in absent for endpoint in endpoints)

    async with open_judges(part, process.steps, batches=batches) as judges:
        journals.add(journal)
        try:
            yield BatchedPlan(
                build_plan(part, judges),
                lacks_batches,
                lambda monitor: telemetry.counter(UNDEFERRED, monitor).inc(),
            )
        finally:
            journals.discard(journal)


def _count(telemetry: Telemetry, judge: str, progress: BatchProgress) -> None:
    if progress.ended:
        without = progress.without_answer
        telemetry.counter(BATCHES, judge, _outcome(progress.status)).inc()
        telemetry.counter(BATCH_REQUESTS, judge, "answered").inc(progress.total - without)
        telemetry.counter(BATCH_REQUESTS, judge, "unanswered").inc(without)


def _count_problem(telemetry: Telemetry, judge: str, error: JudgeError) -> None:
    telemetry.counter(BATCH_CALLS_FAILED, judge, error.type).inc()


def _outcome(status: str) -> str:
    """How a batch has ended, in OpenAI's words; Anthropic's say only that it has."""
    word = status.partition(" ")[0]
    return word if word in _OUTCOMES else "completed"
