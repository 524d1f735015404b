"""How long a consumer waits before it takes the next few records, so that it takes more at once. Time is passed in.

A look at the log, a delivery, and what its fold appends are together as dear as tens of small records. Nobody waits for
a record that comes a tenth of a second after others: a trace is open for seconds, and a judge takes some.
"""

from __future__ import annotations

INTERVAL = 0.1
"""Seconds from one look to the next while records come without a pause."""

AT_ONCE = 3
"""Looks that may follow one another at once after a pause: what comes now and then never waits."""

MANY, MUCH = 500, 1 << 20
"""Records, or their bytes, after which the next look is at once: there are more."""


class DeliveryPace:
    """When the log may be looked at next. Times are in seconds, by one clock without jumps."""

    def __init__(self) -> None:
        self._free_at = 0.0
        """When the next look is due, one each `INTERVAL`; in a pause it falls behind, by `AT_ONCE` - 1 intervals."""

    def add(self, records: int, size: int, now: float) -> None:
        """A look has brought so many records, of so many bytes."""
        if 0 < records < MANY and size < MUCH:
            self._free_at = max(self._free_at, now - (AT_ONCE - 1) * INTERVAL) + INTERVAL

    def wait(self, now: float) -> float:
        """For how long the next look has to wait: from 0 to `INTERVAL`, if each has waited."""
        return max(0.0, self._free_at - now)
