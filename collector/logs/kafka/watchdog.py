"""A watchdog that ends the process when a loop hangs.

kafka-python 3.0.12 can wait indefinitely inside `poll`, where no timeout of ours applies and no thread can be stopped:
only a restart helps. When a release returns from every `poll` within its timeout, this can go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from collector.logs.journal.stall_watchdog import exit_stalled

logger = logging.getLogger(__name__)

CHECKS = 6
"""Checks within the limit. Beats are counted, not timed, so that a suspended machine is not a stall."""


class Watchdog:
    """Calls `on_stall` once when `beat` was not called for about `limit` seconds."""

    def __init__(self, what: str, limit: float, on_stall: Callable[[], None] = exit_stalled) -> None:
        self._what = what
        self._limit = limit
        self._on_stall = on_stall
        self._beats = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watchdog of {what}", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def beat(self) -> None:
        """Report that the loop runs."""
        self._beats += 1

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        seen, missed = -1, 0
        while not self._stopped.wait(self._limit / CHECKS):
            missed = missed + 1 if self._beats == seen else 0
            seen = self._beats
            if missed >= CHECKS:
                logger.critical("%s has not moved for %g s", self._what, self._limit)
                self._on_stall()
                return
