"""How many conversations there are, sampled or not: what the weights of judged conversations have to add up to.

Of a conversation that is not judged nothing is kept but when a turn of it was seen last. Like a judged one that is
evaluated again when late turns reopen it, it counts once each time it falls silent. Limits other than silence are left
out: they are rare, and a population is needed to a few percent. No clock, no I/O.
"""

from __future__ import annotations

MOST = 200_000
"""Conversations of one partition that are waited for; beyond that the oldest count at once."""


class Population:
    """The conversations that a monitor sees in one partition; `idle` is the silence (s) after which one is over."""

    def __init__(self, idle: float, *, most: int = MOST) -> None:
        self._idle = idle
        self._most = most
        self._seen: dict[str, float] = {}  # in the order of their newest turn
        self._beyond = 0

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, conversation: str, time: float) -> None:
        """A turn of a conversation came at `time` (s), which never falls."""
        self._seen.pop(conversation, None)
        self._seen[conversation] = time
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
            self._beyond += 1

    def silent(self, time: float) -> int:
        """How many have fallen silent since this was last asked."""
        count, self._beyond = self._beyond, 0
        while self._seen:
            oldest = next(iter(self._seen))
            if self._seen[oldest] + self._idle > time:
                break
            del self._seen[oldest]
            count += 1
        return count
