"""Log lines of what may happen often: the first at once, then one a minute with what came since."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

EVERY = 60.0
"""Seconds between two lines."""


class SparseLog:
    """Warnings about one thing. `clock` gives seconds."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._last: float | None = None
        self._left_out = 0

    def warn(self, message: str, count: int = 1) -> None:
        """Warn of `count` cases, if the last line is a minute old; the next line says how many were left out."""
        now = self._clock()
        if self._last is not None and now - self._last < EVERY:
            self._left_out += count
            return
        more = f" ({self._left_out:,} more since the line before)" if self._left_out else ""
        self._logger.warning("%s%s", message, more)
        self._last, self._left_out = now, 0
