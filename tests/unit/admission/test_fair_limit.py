"""A limit that senders share: nobody can take what the others need."""

from __future__ import annotations

import asyncio

import pytest

from collector.admission.fair_limit import FairLimit, Holding, LimitReached


def taken(limit: FairLimit, sender: str, most: int = 1000) -> int:
    """How many units a sender gets, one at a time."""
    for number in range(most):
        try:
            limit.take(sender, 1)
        except LimitReached:
            return number
    return most


def test_a_sender_holds_no_more_than_it_leaves_free():
    limit = FairLimit(256, "requests")
    assert [taken(limit, each) for each in "abc"] == [128, 64, 32], "whoever arrives finds something"
    assert limit.total == 224


def test_senders_that_arrive_together_get_equal_parts():
    limit = FairLimit(300, "requests")
    for _ in range(300):
        for sender in "ab":
            try:
                limit.take(sender, 1)
            except LimitReached:
                continue
    assert limit._units["a"] == limit._units["b"] == 100


def test_what_is_guaranteed_is_there_whatever_others_hold():
    limit = FairLimit(100, "requests", guaranteed={"named": 0.3})
    for number in range(1000):
        taken(limit, f"stranger {number}")
    assert limit.total == 70
    assert taken(limit, "named") == 30


def test_the_floor_is_reachable_for_one_that_comes_in_pieces():
    limit = FairLimit(1000, "bytes", floor=900)
    assert taken(limit, "a", 2000) == 900


def test_what_is_given_back_is_free_and_forgotten():
    changes: list[int] = []
    limit = FairLimit(10, "requests", on_change=changes.append)
    for _ in range(3):
        assert taken(limit, "a") == 5
        for _ in range(5):
            limit.give_back("a", 1)
    assert (limit.total, sum(changes), len(limit._units)) == (0, 0, 0)


async def test_who_waits_is_admitted_in_order_and_a_full_sender_holds_up_nobody():
    limit = FairLimit(8, "bytes", floor=4)
    limit.take("hog", 4)
    admitted: list[str] = []

    async def wait(sender: str, name: str) -> None:
        await limit.wait(sender, 4)
        admitted.append(name)

    tasks = [asyncio.create_task(wait("hog", name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(wait("other", "other")))
    await asyncio.sleep(0)
    assert admitted == ["other"]
    limit.give_back("hog", 4)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert admitted == ["other", "first"]
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    limit.give_back("hog", 4)
    limit.give_back("other", 4)
    assert (limit.total, limit._waiting) == (0, [])


async def test_one_that_gives_up_as_it_is_admitted_leaves_nothing():
    limit = FairLimit(4, "bytes", floor=4)
    limit.take("a", 4)
    task = asyncio.create_task(limit.wait("a", 4))
    await asyncio.sleep(0)
    limit.give_back("a", 4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert limit.total == 0


def test_a_holding_releases_place_and_bytes():
    places, pending = FairLimit(1, "requests"), FairLimit(100, "pending bytes")
    with Holding("a", places, pending) as holding:
        holding.take_bytes(40)
        holding.add_bytes(90)
        holding.give_back_bytes(30)
        assert (places.total, pending.total) == (1, 100)
        with pytest.raises(LimitReached, match="limit on requests"):
            Holding("b", places, pending)
    assert (places.total, pending.total) == (0, 0)
