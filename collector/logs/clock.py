"""The time of day without its jumps: what is due by time shall neither all fall due at once nor wait for an hour."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import copysign

STEP = 1.0
"""Seconds: what the clock of the machine is off by at once, beyond this, is a jump."""

CATCH_UP = 0.1
"""How much faster or slower time passes until a jump is made good: an hour takes ten."""


def since_boot() -> float:
    """Seconds that have passed on this machine, asleep or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """Seconds since the epoch; never falls. Follows `wall`, but a jump of it only bit by bit.

    `passed` counts seconds and never jumps. May be asked in several threads.
    """

    def __init__(self, wall: Callable[[], float] = time.time, passed: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._passed = passed
        self._lock = threading.Lock()
        self._now = wall()
        self._last = passed()

    def __call__(self) -> float:
        """What time it is."""
        with self._lock:
            last, self._last = self._last, self._passed()
            elapsed = self._last - last
            off = self._wall() - (self._now + elapsed)
            if abs(off) <= STEP:
                self._now = max(self._now, self._now + elapsed + off)
            else:
                self._now += elapsed * (1.0 + copysign(CATCH_UP, off))
            return self._now
