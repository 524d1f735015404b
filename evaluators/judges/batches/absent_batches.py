"""Endpoints that were found to take no batches: their requests are sent at once instead."""

import asyncio

LOOK_AGAIN = 3600.0
"""Seconds between two looks whether an endpoint takes batches."""


class AbsentBatches:
    """Knowledge about the endpoints of a process, by home (`BatchTerms`); all partitions share it."""

    def __init__(self) -> None:
        self._absent: set[str] = set()
        self._look_at: dict[str, float] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}

    def __contains__(self, home: str) -> bool:
        return home in self._absent

    def add(self, home: str) -> None:
        """The endpoint takes none."""
        self._absent.add(home)

    def discard(self, home: str) -> None:
        """It takes some."""
        self._absent.discard(home)

    def begin_look(self, home: str, now: float) -> bool:
        """Whether it is time to look at an endpoint, and nobody else does."""
        if now < self._look_at.get(home, 0.0):
            return False
        self._look_at[home] = now + LOOK_AGAIN
        return True

    def slots(self, home: str, count: int) -> asyncio.Semaphore:
        """The limit of simultaneous requests to an endpoint."""
        return self._slots.setdefault(home, asyncio.Semaphore(count))
