"""Ends the process when a loop has stood still: kafka-python 3.0 can wait for ever, and then only a restart helps."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

STALLED = 70
"""Exit status of a process that ended itself because it stood still (EX_SOFTWARE)."""

LOOKS = 6
"""How often to look within the limit. Beats are counted, not timed, so that a frozen machine is no stall."""


def exit_stalled() -> None:
    """Write down where every thread stands and exit at once; whoever supervises the process starts it again."""
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(STALLED)


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
        """Begin to watch."""
        self._thread.start()

    def beat(self) -> None:
        """The loop has turned."""
        self._beats += 1

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()

    def _watch(self) -> None:
        seen, missed = -1, 0
        while not self._stopped.wait(self._limit / LOOKS):
            missed = missed + 1 if self._beats == seen else 0
            seen = self._beats
            if missed >= LOOKS:
                logger.critical("%s has stood still for %g s", self._what, self._limit)
                self._on_stall()
                return
