"""How long a consumer waits between polls that bring little, so that one brings more. Without I/O; time is given.

Each poll is a request, a delivery for each partition, and what its fold appends then: together as dear as tens of small
records. Nobody waits for a record that comes a tenth of a second after others: a trace is open for seconds, and a judge
takes some.
"""

from __future__ import annotations

INTERVAL = 0.1
"""Seconds between two polls while records come without a pause."""

AT_ONCE = 3
"""Polls that may follow one another at once after a pause: what comes now and then never waits."""

MANY = 500
"""Records of one poll after which the next one is at once: there are more."""


class PollPace:
    """When the next poll may be. Times are in seconds, by one clock without jumps."""

    def __init__(self) -> None:
        self._free_at = 0.0
        """When all polls until now would have been due, had each waited its `INTERVAL`; at most `AT_ONCE` behind."""

    def add(self, records: int, now: float) -> None:
        """A poll has brought so many records."""
        if 0 < records < MANY:
            self._free_at = max(self._free_at, now - (AT_ONCE - 1) * INTERVAL) + INTERVAL

    def wait(self, now: float) -> float:
        """For how long the next poll has to wait: from 0 to `INTERVAL`, if each waited."""
        return max(0.0, self._free_at - now)
