"""Judges have places of their own: one that is out, slow or hung holds up no other's evaluations."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest
from test_stage import Asked, Bench, Gate, Priced, turn

from collector.evaluate.fold import Bounds
from collector.evaluate.jobs import Oldest, Place
from collector.evaluate.lanes import Lane, Room
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Monitor
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
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def lane_of(stage: EvaluateStage, judge: str) -> Lane:
    return stage._dispatcher.lanes.of(judge)


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
        assert lane_of(stage, "hung").waiting == 98
        await until(lambda: stage.jobs == 2)
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
        lane = lane_of(stage, "hung")
        await until(lambda: lane.held_back == 1)
        assert lane.waiting == 5
        assert len(await bench.ledger()) <= 8
        hung.gate.open.set()
        assert len({each.evaluation_id for each in await bench.until(200)}) == 200
        assert lane.held_back == 0


async def test_what_waits_too_long_for_a_place_is_shed(bench: Bench) -> None:
    hung = Gated("hung")
    await bench.put(*(turn(n) for n in range(1, 11)))
    async with bench.running(asking(hung), concurrency=2, waiting=100, shed_after=0.2):
        ledger = await bench.until(8)
        assert {(each.outcome, each.reason) for each in ledger} == {("skipped", "shed")}
        hung.gate.open.set()
        ledger = await bench.until(10)
    assert Counter(each.outcome for each in ledger) == {"skipped": 8, "scored": 2}
    assert bench.tally.evaluations["by_hung", "shed"] == 8


async def test_nobody_runs_further_ahead_of_what_waits_than_a_replay_may_read(bench: Bench) -> None:
    hung, free = Gated("hung"), Gated("free")
    free.gate.open.set()
    await bench.put(*(turn(n) for n in range(1, 101)))
    async with bench.running(asking(hung, free), concurrency=2, waiting=1000, bounds=Bounds(ahead=20)) as stage:
        lane = lane_of(stage, "hung")
        await until(lambda: lane.held_back == 1)
        await bench.until(21)
        assert bench.tally.turns["m", "sampled"] == 21
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


async def test_a_lane_bounds_bytes_but_not_what_has_a_place() -> None:
    lane = Lane(Room(places=2, waiting=10, bytes=100))
    for size in (1000, 1000):
        await lane.enter(size)
    assert lane.full
    lane.leave(1000)
    assert not lane.full
    await lane.enter(90)
    lane.leave(1000)
    await lane.enter(9)
    assert not lane.full
    await lane.enter(1)
    assert lane.full


async def test_who_stops_waiting_leaves_the_place_to_others() -> None:
    lane = Lane(Room(places=1))
    await lane.enter(0)
    async with lane.place(None) as first, lane.place(0.0) as second:
        assert (first, second) == (True, False)
    async with lane.place(0.0) as third:
        assert third


def test_the_oldest_is_found_without_looking_at_all() -> None:
    chance, lane = random.Random(7), Lane(Room(places=1))
    places: dict[str, Place] = {}
    oldest = Oldest(places, lambda place: place.needs.position)
    stuck = Place(Mark(0), 0, lane)
    places["stuck"] = stuck
    oldest.add("stuck", stuck)
    most = 1
    for number in range(5000):
        if places and chance.random() < 0.5:
            name = chance.choice(list(places))
            if name != "stuck" or number > 4000:
                del places[name]
        else:
            place = Place(Mark(chance.randrange(1000)), number, lane)
            places[str(number)] = place
            oldest.add(str(number), place)
        found = oldest.find()
        least = min((each.needs.position for each in places.values()), default=None)
        assert (found.needs.position if found else None) == least
        most = max(most, len(places))
        assert len(oldest._heap) <= 2 * most + 65
