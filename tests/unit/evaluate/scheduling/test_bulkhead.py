"""Judges have places of their own: one that is out, slow or hung holds up no other's evaluations."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from test_stage import Asked, Bench, Gate, Priced, turn

from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Assignment, Monitor
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.scheduling.dispatch import Bulkhead, BulkheadLimits
from collector.evaluate.scheduling.jobs import LazyMinHeap, PendingJob
from collector.evaluate.stage import EvaluateStage


class Gated(Priced):
    """A judge that answers while its gate is open."""

    def __init__(self, model: str) -> None:
        super().__init__(0.0, model)
        self.gate = Gate()

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        await self.gate.enter()
        return await super().ask(prompt, reply, logprobs=logprobs, samples=samples)


def asking(*judges: Priced, **changes) -> Monitor:
    assignments = tuple(Assignment(Asked(name=f"by_{each.model}"), each, "v", judge_name=each.model) for each in judges)
    return Monitor(name="m", assignments=assignments, match={}, **changes)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def bulkhead_of(stage: EvaluateStage, judge: str) -> Bulkhead:
    return stage.dispatcher.bulkheads[judge]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_judge_that_hangs_leaves_the_other_all_its_places(bench: Bench) -> None:
    hung, free = Gated("hung"), Gated("free")
    free.gate.open.set()
    await bench.put(*(turn(n) for n in range(1, 101)))
    async with bench.running(asking(hung, free), concurrency=2, waiting=1000) as stage:
        ledger = await bench.until(100)
        assert {each.evaluator for each in ledger} == {"by_free"}
        assert hung.gate.begun == 2
        assert bulkhead_of(stage, "hung").waiting == 98
        await until(lambda: stage.running == 2)
        await bench.put(turn(101))  # what comes now is judged by the other at once
        await bench.until(101)
        hung.gate.open.set()
        ledger = await bench.until(202)
    assert Counter(each.evaluator for each in ledger) == {"by_hung": 101, "by_free": 101}
    assert len({each.evaluation_id for each in ledger}) == 202
    hung_ones = [each.subject.turn_id for each in ledger if each.evaluator == "by_hung"]
    assert hung_ones == [f"turn-{n}" for n in range(1, 102)], "in the order in which they came"


async def test_after_a_restart_in_the_middle_nothing_is_lost_or_made_twice(bench: Bench) -> None:
    hung, free = Gated("hung"), Gated("free")
    free.gate.open.set()
    await bench.put(*(turn(n) for n in range(1, 51)))
    async with bench.running(asking(hung, free), concurrency=2, waiting=1000):
        await bench.until(50)
        await asyncio.sleep(0.05)  # a commit
    hung.gate.open.set()
    await bench.put(turn(51))
    async with bench.running(asking(hung, free), concurrency=2, waiting=10):
        ledger = await bench.until(102)
    assert Counter(each.evaluator for each in ledger) == {"by_hung": 51, "by_free": 51}
    assert len({each.evaluation_id for each in ledger}) == 102


async def test_when_no_more_may_wait_the_log_is_not_read_on_and_says_for_whom(bench: Bench) -> None:
    hung, free = Gated("hung"), Gated("free")
    free.gate.open.set()
    await bench.put(*(turn(n) for n in range(1, 101)))
    async with bench.running(asking(hung, free), concurrency=2, waiting=5) as stage:
        bulkhead = bulkhead_of(stage, "hung")
        await until(lambda: bulkhead.paused_partitions == 1)
        assert bulkhead.waiting == 5
        assert len(await bench.ledger()) <= 8
        hung.gate.open.set()
        assert len({each.evaluation_id for each in await bench.until(200)}) == 200
        assert bulkhead.paused_partitions == 0


async def test_what_waits_too_long_for_a_slot_is_shed(bench: Bench) -> None:
    hung = Gated("hung")
    before = time.time()  # the clock stands still: whoever gets a slot at once is in time, however busy the machine is
    await bench.put(*(turn(n) for n in range(1, 11)))
    async with bench.running(asking(hung), concurrency=2, waiting=100, shed_after=0.2, clock=lambda: before):
        ledger = await bench.until(8)
        assert {(each.outcome, each.reason) for each in ledger} == {("skipped", "shed")}
        hung.gate.open.set()
        ledger = await bench.until(10)
    assert Counter(each.outcome for each in ledger) == {"skipped": 8, "scored": 2}
    assert bench.outcomes.reasons["by_hung", "shed"] == 8


async def test_nobody_runs_further_ahead_of_what_waits_than_a_replay_may_read(bench: Bench) -> None:
    hung, free = Gated("hung"), Gated("free")
    free.gate.open.set()
    await bench.put(*(turn(n) for n in range(1, 101)))
    async with bench.running(
        asking(hung, free), concurrency=2, waiting=1000, bounds=StateLimits(snapshot_records=20)
    ) as stage:
        bulkhead = bulkhead_of(stage, "hung")
        await until(lambda: bulkhead.paused_partitions == 1)
        await bench.until(21)
        assert bench.outcomes.turns["m", "sampled"] == 21
        hung.gate.open.set()
        await bench.until(200)


async def test_at_a_stop_what_waits_is_given_up_at_once_and_made_later(bench: Bench) -> None:
    hung = Gated("hung")
    await bench.put(*(turn(n) for n in range(1, 11)))
    async with bench.running(asking(hung), concurrency=2, waiting=100, grace=60.0):
        await hung.gate.until(2)
        asyncio.get_running_loop().call_later(0.05, hung.gate.open.set)
    assert len(await bench.ledger()) == 2
    async with bench.running(asking(hung)):
        assert len({each.evaluation_id for each in await bench.until(10)}) == 10


async def test_before_a_handing_over_what_runs_is_made(bench: Bench) -> None:
    hung = Gated("hung")
    await bench.put(*(turn(n) for n in range(1, 11)))
    async with bench.running(asking(hung), concurrency=2, waiting=100, grace=60.0) as stage:
        await hung.gate.until(2)
        stage.handing_over = True
        asyncio.get_running_loop().call_later(0.05, hung.gate.open.set)
    assert len(await bench.ledger()) >= 2


async def test_a_bulkhead_bounds_bytes_but_not_what_has_a_place() -> None:
    bulkhead = Bulkhead(BulkheadLimits(slots=2, waiting=10, bytes=100))
    for size in (1000, 1000):
        await bulkhead.acquire(size)
    assert bulkhead.full
    bulkhead.release(1000)
    assert not bulkhead.full
    await bulkhead.acquire(90)
    bulkhead.release(1000)
    await bulkhead.acquire(9)
    assert not bulkhead.full
    await bulkhead.acquire(1)
    assert bulkhead.full


async def test_who_stops_waiting_leaves_the_place_to_others() -> None:
    bulkhead = Bulkhead(BulkheadLimits(slots=1))
    await bulkhead.acquire(0)
    async with bulkhead.slot(None) as first, bulkhead.slot(0.0) as second:
        assert (first, second) == (True, False)
    async with bulkhead.slot(0.0) as third:
        assert third


def test_the_oldest_is_found_without_looking_at_all() -> None:
    chance, bulkhead = random.Random(7), Bulkhead(BulkheadLimits(slots=1))
    places: dict[str, PendingJob] = {}
    oldest = LazyMinHeap(places, lambda place: place.replay_point.offset)
    stuck = PendingJob(ReplayPoint(0), 0, bulkhead, "a")
    places["stuck"] = stuck
    oldest.add("stuck", stuck)
    most = 1
    for number in range(5000):
        if places and chance.random() < 0.5:
            name = chance.choice(list(places))
            if name != "stuck" or number > 4000:
                del places[name]
        else:
            place = PendingJob(ReplayPoint(chance.randrange(1000)), number, bulkhead, "a")
            places[str(number)] = place
            oldest.add(str(number), place)
        found = oldest.peek()
        least = min((each.replay_point.offset for each in places.values()), default=None)
        assert (found.replay_point.offset if found else None) == least
        most = max(most, len(places))
        assert len(oldest._heap) <= 2 * most + 65
