"""The population: how many conversations there are, sampled or not. The weights of judged ones add up to it.

Of a conversation that is not judged only the time of its last turn is stored. Like a judged one that is evaluated again
when late turns reopen it, it counts once each time it becomes idle. Other limits than idleness are ignored: they are
rare, and a population is needed to a few percent. No clock, no I/O.
"""

from __future__ import annotations

MAX_CONVERSATIONS = 200_000
"""Open conversations of one partition; beyond that the oldest are counted at once."""


class Population:
    """The conversations that a monitor sees in one partition; `idle` is the gap (s) after which one is over."""

    def __init__(self, idle: float, *, most: int = MAX_CONVERSATIONS) -> None:
        self._idle = idle
        self._most = most
        self._seen: dict[str, float] = {}  # in the order of their newest turn
        self._beyond = 0
        self._not_before = 0.0
        """Until then none becomes idle: turns only defer it."""

    def __len__(self) -> int:
        return len(self._seen)

    def reconfigure(self, idle: float) -> None:
        """From now on this gap (s) counts."""
        self._idle = idle
        self._not_before = 0.0

    def observe(self, conversation: str, time: float) -> None:
        """A turn of a conversation came at `time` (s), which never falls."""
        self._seen.pop(conversation, None)
        self._seen[conversation] = time
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
            self._beyond += 1

    def take_idle(self, time: float) -> int:
        """The number that became idle since the last call."""
        if time < self._not_before and not self._beyond:
            return 0
        count, self._beyond = self._beyond, 0
        self._not_before = time + self._idle
        while self._seen:
            oldest = next(iter(self._seen))
            if (idle_at := self._seen[oldest] + self._idle) > time:
                self._not_before = idle_at
                break
            del self._seen[oldest]
            count += 1
        return count
