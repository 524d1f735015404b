"""Verdicts that several monitors ask for: the judge is asked and paid once, and each monitor counts for itself."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from collector.errors import BadInput
from collector.evaluate.plan import Job
from collector.records.json import evaluation_from_json
from evaluators.results import Evaluation

REMEMBERED = 4096
"""Verdicts that are kept for other monitors, two kilobytes each. They ask within moments, as a rule."""


class SharedVerdicts:
    """The verdicts of this process that another monitor may repeat, by the ids of their evaluations."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def note(self, evaluation_id: str, record: bytes) -> None:
        """Remember an evaluation that is in the log."""
        self._records[evaluation_id] = record
        if len(self._records) > REMEMBERED:
            self._records.popitem(last=False)

    @asynccontextmanager
    async def in_turn(self, jobs: Sequence[Job]) -> AsyncGenerator[None]:
        """Wait until no other job asks for these verdicts. A prompt job does not wait for one in a batch."""
        names = sorted(
            f"{job.verdict_ids[0]}/{job.deferred}" for job in jobs if job.assignment.sharers and job.verdict_ids
        )
        async with AsyncExitStack() as stack:
            for name in names:  # all take them in this order, so no two wait for each other
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            yield

    def known(self, job: Job) -> Evaluation | None:
        """The evaluation whose verdict a job may repeat. Skips are not among them: each monitor has its own reasons."""
        if not job.assignment.sharers:
            return None
        for name in job.verdict_ids:
            if (record := self._records.get(name)) is not None and (verdict := _verdict(record)) is not None:
                return verdict
        return None


def _verdict(record: bytes) -> Evaluation | None:
    try:
        evaluation = evaluation_from_json(record)
    except BadInput:  # of a later version
        return None
    return None if evaluation.outcome == "skipped" else evaluation
