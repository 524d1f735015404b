"""Which of the pending jobs is the oldest, while they end in any order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import Bulkhead, SharedVerdicts
from collector.evaluate.scheduling.jobs import LazyMinHeap, PartitionJobs, PendingJob
from collector.logs.log import certain
from evaluators.judge import NoJudge

NO_BULKHEAD = cast("Bulkhead", None)


def job(trigger: int) -> PendingJob:
    return PendingJob(ReplayPoint(trigger), trigger, NO_BULKHEAD, "a")


@dataclass
class Jobs:
    """Pending jobs and their heap."""

    pending: dict[str, PendingJob]
    heap: LazyMinHeap

    def add(self, name: str, trigger: int) -> None:
        self.pending[name] = job(trigger)
        self.heap.add(name, self.pending[name])

    def oldest(self) -> int | None:
        found = self.heap.peek()
        return None if found is None else found.trigger_offset

    @property
    def stored(self) -> int:
        return len(cast("Any", self.heap)._heap)


def jobs() -> Jobs:
    pending: dict[str, PendingJob] = {}
    return Jobs(pending, LazyMinHeap(pending, lambda each: each.trigger_offset))


def test_the_oldest_of_those_that_have_not_ended() -> None:
    mine = jobs()
    assert mine.oldest() is None
    for name, trigger in (("b", 2), ("a", 1), ("c", 3)):
        mine.add(name, trigger)
    assert mine.oldest() == 1
    del mine.pending["b"]
    assert mine.oldest() == 1
    del mine.pending["a"]
    assert mine.oldest() == 3
    del mine.pending["c"]
    assert mine.oldest() is None


def test_it_is_right_and_small_however_many_came_and_ended() -> None:
    """Ended jobs behind one that never ends are removed in time."""
    mine, chance = jobs(), random.Random(3)
    mine.add("stays", 0)
    for number in range(1, 2000):
        mine.add(str(number), number)
        if len(mine.pending) > 10:
            del mine.pending[chance.choice([name for name in mine.pending if name != "stays"])]
        assert mine.stored <= 2 * len(mine.pending) + 2 + 64
        assert mine.oldest() == 0
    del mine.pending["stays"]
    assert mine.oldest() == min(each.trigger_offset for each in mine.pending.values())


class Slots:
    """A bulkhead whose one job ends when somebody waits for that."""

    busy = False

    def __init__(self) -> None:
        self.waited = 0
        self.ends = asyncio.Event()

    async def acquire(self, size: int) -> None:
        """There is room."""

    def release(self, size: int) -> None:
        """Nothing to do."""

    @asynccontextmanager
    async def slot(self, queue_timeout: float | None) -> AsyncIterator[bool]:
        yield True

    async def wait_for_release(self) -> None:
        self.waited += 1
        self.ends.set()
        await asyncio.sleep(0)


async def test_a_partition_waits_for_a_job_that_lies_too_many_records_back() -> None:
    slots = Slots()

    async def execute(*_: Any, **__: Any) -> Any:
        await slots.ends.wait()
        return [SimpleNamespace(monitor="m", evaluator="e", reason_code="", outcome="scored")]

    async def write(*_: Any) -> None:
        """At once."""

    def slot(_jobs: Any, bulkhead: Slots) -> Any:
        return bulkhead.slot(None)

    dispatcher = SimpleNamespace(
        bulkheads={"j": slots},
        verdicts=SharedVerdicts(),
        slot=slot,
        confirm=certain,
        execute=execute,
        write=write,
    )
    named = SimpleNamespace(name="m", evaluator=SimpleNamespace(name="e"), sharers=())
    submitted = SimpleNamespace(
        evaluation_id="a",
        monitor=named,
        assignment=named,
        judge=NoJudge(),
        judge_name="j",
        size=1,
        replay_point=ReplayPoint(90),
        trigger_offset=100,
        happened_at=None,
        pack=None,
    )
    added: list[str] = []
    ledger = SimpleNamespace(add=added.append, end_offset=0, epoch=None)
    async with asyncio.TaskGroup() as group:
        mine = PartitionJobs(0, cast("Any", ledger), cast("Any", dispatcher), group, OutcomeCounter())
        await mine.wait_for_oldest(1000, 10)
        await mine.submit(cast("Any", submitted))
        assert (len(mine), mine.low_watermark, mine.oldest_triggers) == (1, ReplayPoint(90), {"e": 100})
        await mine.wait_for_oldest(110, 10)
        assert slots.waited == 0, "exactly as far as it may"
        await mine.wait_for_oldest(111, 10)
    assert slots.waited > 0
    assert (added, len(mine), mine.low_watermark, mine.oldest_triggers) == (["a"], 0, None, {})
