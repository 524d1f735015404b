"""How much may be on its way at once."""

from __future__ import annotations

import asyncio

import pytest

from collector.logs.in_flight import InFlight


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waits_for_room_by_items_and_by_bytes() -> None:
    bound = InFlight(10, 100)
    await bound.acquire(5, 10)
    by_items = asyncio.create_task(bound.acquire(6, 10))
    await settle()
    assert not by_items.done()
    bound.release(5, 10)
    await by_items
    by_bytes = asyncio.create_task(bound.acquire(1, 95))
    await settle()
    assert not by_bytes.done()
    bound.release(6, 10)
    await by_bytes
    assert (bound.items, bound.bytes) == (1, 95)


async def test_first_come_first_served() -> None:
    bound = InFlight(10, 100)
    await bound.acquire(8, 8)
    large = asyncio.create_task(bound.acquire(5, 5))
    small = asyncio.create_task(bound.acquire(1, 1))
    await settle()
    assert not large.done()
    assert not small.done(), "what came later does not pass what came before"
    bound.release(8, 8)
    await asyncio.gather(large, small)


async def test_more_than_fits_goes_alone() -> None:
    bound = InFlight(10, 100)
    await bound.acquire(50, 5000)
    second = asyncio.create_task(bound.acquire(1, 1))
    await settle()
    assert not second.done()
    bound.release(50, 5000)
    await second


async def test_who_gives_up_waiting_leaves_no_trace() -> None:
    bound = InFlight(10, 100)
    await bound.acquire(8, 8)
    gives_up = asyncio.create_task(bound.acquire(5, 5))
    stays = asyncio.create_task(bound.acquire(2, 2))
    await settle()
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    await stays
    assert (bound.items, bound.bytes) == (10, 10)


async def test_giving_up_in_the_moment_of_being_served_gives_the_room_back() -> None:
    bound = InFlight(10, 100)
    await bound.acquire(8, 8)
    waits = asyncio.create_task(bound.acquire(5, 5))
    await settle()
    bound.release(8, 8)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert (bound.items, bound.bytes) == (0, 0)
