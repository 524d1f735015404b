"""The time of day without jumps: setting the clock must not make all due at once, nor nothing for an hour."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import copysign

STEP = 1.0
"""Seconds: a larger difference to the machine's clock is a jump."""

CATCH_UP = 0.1
"""How much faster or slower time passes until a jump is made up for: an hour takes ten."""


def since_boot() -> float:
    """Seconds that have passed on this machine, asleep or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SlewedClock:
    """Seconds since the epoch, never decreasing. Follows `wall`, but slews after a jump, as NTP does.

    `elapsed` counts seconds and never jumps. Safe in several threads.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._now = wall()
        self._last = elapsed()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            last, self._last = self._last, self._elapsed()
            elapsed = self._last - last
            off = self._wall() - (self._now + elapsed)
            if abs(off) <= STEP:
                self._now = max(self._now, self._now + elapsed + off)
            else:
                self._now += elapsed * (1.0 + copysign(CATCH_UP, off))
            return self._now
