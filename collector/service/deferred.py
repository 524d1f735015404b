"""The batches of a running service: for monitors whose evaluations may wait for hours."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from collector.config.loading import Config
from collector.config.urgency import deferred_part
from collector.evaluate.deferred.deferred_evaluations import OpenBatchedPlan
from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.deferred.waiting_room import WaitingRoom, WaitingRoomLimits
from collector.evaluate.plan import Plan
from collector.evaluate.stage import GROUP
from collector.judging.batches import Batches, EnduringBatches
from collector.judging.open_judges import open_judges
from collector.service.plan_builder import build_plan
from collector.service.process import Process
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import BATCH_REQUESTS
from evaluators.judges.batches.batch_endpoint import BatchPace, BatchProgress

logger = logging.getLogger(__name__)

PACE = BatchPace(patience=float("inf"))
"""What is asked at once is asked until it is answered: nobody waits for it."""
MOST_ITEMS = 500
"""Requests in a batch at most: until it is submitted each costs 50 kB of memory, for each partition and judge."""


@dataclass(frozen=True, slots=True)
class Deferring:
    """How a process makes evaluations that may wait, and where they do."""

    open_batched: OpenBatchedPlan
    room: WaitingRoom


def deferring(process: Process) -> Deferring | None:
    """How the evaluations of its configuration that may wait are made; None if it has no such monitor."""
    part = deferred_part(process.config)
    if part is None:
        return None
    settings = process.config.settings.evaluate
    limits = WaitingRoomLimits(evaluations=settings.max_deferred, bytes=settings.max_deferred_bytes)
    return Deferring(partial(_open_batched, process=process, part=part), WaitingRoom(limits))


@asynccontextmanager
async def _open_batched(journal: LoggedJournal, process: Process, part: Config) -> AsyncGenerator[Plan]:
    gather = part.settings.evaluate.gather
    enduring = EnduringBatches(
        most_items=MOST_ITEMS,
        confirm=partial(process.logs.turns.confirm, GROUP),
        on_progress=partial(_count, process.telemetry),
        warn=logger.warning,
    )
    pace = replace(PACE, linger=gather, longest_linger=gather)
    batches = Batches(journal, pace, logger.info, enduring=enduring)
    assert process.steps is not None, "a service has a definitions log"
    async with open_judges(part, process.steps, batches=batches) as judges:
        yield build_plan(part, judges)


def _count(telemetry: Telemetry, judge: str, progress: BatchProgress) -> None:
    if progress.ended:
        without = progress.without_answer
        telemetry.counter(BATCH_REQUESTS, judge, "answered").inc(progress.total - without)
        telemetry.counter(BATCH_REQUESTS, judge, "unanswered").inc(without)
