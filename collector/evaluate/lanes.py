"""Bulkheads: every judge has places of its own, so that one that is out, slow or hung holds up no other's work."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """For each judge: `places` evaluations run at once; `waiting` more, in about `bytes`, wait for a place."""

    places: int
    waiting: int = 10_000
    bytes: int = 64 << 20


class Lane:
    """The evaluations of one judge, over all partitions of this process, in the order in which they came."""

    def __init__(self, room: Room) -> None:
        self.held_back = 0
        """How many partitions are not read on because there is no room here."""
        self._room = room
        self._places = asyncio.Semaphore(room.places)
        self._inside = 0
        self._started = 0
        self._bytes = 0
        self._left = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many evaluations wait for a place."""
        return self._inside - self._started

    @property
    def busy(self) -> bool:
        """Whether all places are taken."""
        return self._inside >= self._room.places

    @property
    def full(self) -> bool:
        """Whether nothing more may come in. What has a place at once always may."""
        room = self._room
        return self.busy and (self._inside >= room.places + room.waiting or self._bytes >= room.bytes)

    async def enter(self, size: int) -> None:
        """Come in with so many bytes; waits while there is no room: the back-pressure. `leave` with the same."""
        while self.full:
            await self.someone_left()
        self._inside += 1
        self._bytes += size

    async def someone_left(self) -> None:
        """Wait until an evaluation has ended."""
        self._left.clear()
        self.held_back += 1
        try:
            await self._left.wait()
        finally:
            self.held_back -= 1

    def leave(self, size: int) -> None:
        """An evaluation has ended, or was given up."""
        self._inside -= 1
        self._bytes -= size
        self._left.set()

    @asynccontextmanager
    async def place(self, patience: float | None) -> AsyncGenerator[bool]:
        """Have a place; False if none came free within `patience` seconds, where there is a limit."""
        try:
            async with asyncio.timeout(patience):
                await self._places.acquire()
        except TimeoutError:
            yield False
            return
        self._started += 1
        try:
            yield True
        finally:
            self._started -= 1
            self._places.release()


class Lanes:
    """The lanes by the name of the judge. What asks none ("") has places only: to let it wait would gain nothing."""

    def __init__(self, room: Room) -> None:
        alone = Room(places=room.places, waiting=0)
        self._lanes: dict[str, Lane] = defaultdict(lambda: Lane(room)) | {"": Lane(alone)}

    def of(self, judge: str) -> Lane:
        """The lane of a judge."""
        return self._lanes[judge]
