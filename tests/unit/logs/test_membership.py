"""A member that stood still works on only after a broker has confirmed that it still is one."""

from __future__ import annotations

import asyncio

import pytest

from collector.logs.kafka.consumer_thread import Membership


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0
        self.membership = Membership(45.0, self._ask, clock=lambda: self.now)

    def _ask(self) -> None:
        self.asked += 1


@pytest.fixture
def world() -> World:
    return World()


async def settles(task: asyncio.Task[None]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return task.done()


async def test_it_is_certain_for_a_session_from_the_sending_of_a_heartbeat(world: World) -> None:
    world.membership.confirmed(100.0)
    world.now = 145.0
    await world.membership.confirm()
    assert world.asked == 0
    world.now = 145.1
    waiting = asyncio.create_task(world.membership.confirm())
    assert not await settles(waiting)
    assert world.asked == 1
    world.membership.confirmed(100.05)  # an answer that waited in a socket while the process stood still
    assert not await settles(waiting)
    world.membership.confirmed(145.1)
    assert await settles(waiting)


async def test_newly_is_by_a_heartbeat_that_was_sent_afterwards(world: World) -> None:
    world.membership.confirmed(99.9)
    waiting = asyncio.create_task(world.membership.confirm(newly=True))
    assert not await settles(waiting)
    world.membership.confirmed(99.99)
    assert not await settles(waiting)
    world.membership.confirmed(100.0)
    assert await settles(waiting)


async def test_nothing_is_certain_while_folds_of_revoked_partitions_close(world: World) -> None:
    world.membership.confirmed(100.0)
    world.membership.revoked()
    waiting = asyncio.create_task(world.membership.confirm())
    assert not await settles(waiting)
    world.membership.confirmed(100.1)
    assert not await settles(waiting)
    world.membership.closed()
    assert await settles(waiting)
