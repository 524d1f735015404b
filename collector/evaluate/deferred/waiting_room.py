"""The evaluations of a process that wait for batches: how many there may be, how many there are, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from collector.evaluate.plan import Job

DeferredState = Literal["gathering", "submitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRoomLimits:
    """At most so many evaluations wait, in about so many bytes; what comes then is shed."""

    evaluations: int
    bytes: int


@dataclass(slots=True)
class _WaitingEntry:
    since: float
    size: int
    state: DeferredState


class WaitingRoom:
    """The waiting evaluations, over all partitions of this process."""

    def __init__(self, limits: WaitingRoomLimits) -> None:
        self._limits = limits
        self._waiting: dict[str, _WaitingEntry] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether nothing more may wait."""
        return len(self._waiting) >= self._limits.evaluations or self._bytes >= self._limits.bytes

    @property
    def oldest(self) -> float | None:
        """When the oldest one that waits was triggered, in seconds since the epoch; None if nothing waits."""
        return min((entry.since for entry in self._waiting.values()), default=None)

    def count(self, state: DeferredState) -> int:
        """How many wait to be submitted, or for the answers of what is."""
        return sum(entry.state == state for entry in self._waiting.values())

    def enter(self, jobs: Iterable[Job], size: int) -> None:
        """These wait now, in so many bytes together."""
        for job in jobs:
            self._waiting[job.evaluation_id] = _WaitingEntry(job.triggered_at, size, "gathering")
            self._bytes += size
            size = 0

    def move(self, jobs: Iterable[Job], state: DeferredState) -> None:
        """These are in another state."""
        for job in jobs:
            self._waiting[job.evaluation_id].state = state

    def leave(self, jobs: Iterable[Job]) -> None:
        """These have ended, or go to another process."""
        for job in jobs:
            if (waiting := self._waiting.pop(job.evaluation_id, None)) is not None:
                self._bytes -= waiting.size
