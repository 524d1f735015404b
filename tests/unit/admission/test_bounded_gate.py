"""The bounded gate: waiting in order, rejecting, and nothing lost when somebody gives up."""

from __future__ import annotations

import asyncio

import pytest

from collector.admission.bounded_gate import BoundedGate, Reservation


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waits_by_items_and_by_bytes() -> None:
    gate = BoundedGate(10, 100)
    first = await gate.wait(5, 10)
    by_items = asyncio.create_task(gate.wait(6, 10))
    await settle()
    assert not by_items.done()
    first.release()
    second = await by_items
    by_bytes = asyncio.create_task(gate.wait(1, 95))
    await settle()
    assert not by_bytes.done()
    second.release()
    await by_bytes
    assert (gate.items, gate.bytes) == (1, 95)


async def test_first_come_first_served() -> None:
    gate = BoundedGate(10, 100)
    inside = await gate.wait(8, 8)
    large = asyncio.create_task(gate.wait(5, 5))
    small = asyncio.create_task(gate.wait(1, 1))
    await settle()
    assert not large.done()
    assert not small.done(), "what came later does not pass what came before"
    inside.release()
    await asyncio.gather(large, small)


async def test_more_than_fits_is_admitted_alone() -> None:
    gate = BoundedGate(10, 100)
    large = await gate.wait(50, 5000)
    second = asyncio.create_task(gate.wait(1, 1))
    await settle()
    assert not second.done()
    large.release()
    await second


async def test_whoever_gives_up_waiting_leaves_no_trace() -> None:
    gate = BoundedGate(10, 100)
    await gate.wait(8, 8)
    gives_up = asyncio.create_task(gate.wait(5, 5))
    stays = asyncio.create_task(gate.wait(2, 2))
    await settle()
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    await stays
    assert (gate.items, gate.bytes) == (10, 10)


async def test_giving_up_at_the_moment_of_admission_releases() -> None:
    gate = BoundedGate(10, 100)
    inside = await gate.wait(8, 8)
    waits = asyncio.create_task(gate.wait(5, 5))
    await settle()
    inside.release()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert (gate.items, gate.bytes) == (0, 0)


async def test_a_reservation_is_released_once_and_at_the_end_of_its_block() -> None:
    gate = BoundedGate(2, 100)
    with await gate.wait(1, 15) as inside:
        assert (gate.items, gate.bytes) == (1, 15)
    inside.release()
    assert (gate.items, gate.bytes) == (0, 0)


@pytest.mark.parametrize("leaves", [Reservation.release, lambda each: each.__exit__(None, None, None)])
async def test_a_reservation_leaving_admits_whoever_waits(leaves) -> None:
    gate = BoundedGate(1, 100)
    inside = await gate.wait(1, 0)
    waits = asyncio.create_task(gate.wait(1, 1))
    await settle()
    assert not waits.done()
    leaves(inside)
    await waits
