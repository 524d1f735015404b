"""A watchdog that ends the process when one unit holds the event loop: a restart leaves it out after some.

Two things watch. A thread sees that the journal names the same step again and again. Code that never gives the
interpreter back (an expression over a text, an extension) does not let that thread run: then the kernel's timer of
processor time, which the thread winds up again and again, runs out.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from collector.logs.journal.processing_journal import ProcessingJournal

logger = logging.getLogger(__name__)

CHECKS = 6
"""Checks within the limit. They are counted, not timed, so that a suspended machine is not a stall."""


STALLED = 70
"""Exit status of a process that ended itself because it hung (EX_SOFTWARE)."""


def exit_stalled() -> None:
    """Write the stack of every thread to stderr and exit at once; the supervisor of the process starts it again."""
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(STALLED)


class StallWatchdog:
    """Calls `on_stall` once when the journal was at the same step for about `limit` seconds."""

    def __init__(self, journal: ProcessingJournal, limit: float, on_stall: Callable[[], None]) -> None:
        self._journal = journal
        self._limit = limit
        self._on_stall = on_stall
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog of the event loop", daemon=True)

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch until left. In the main thread."""
        faulthandler.register(signal.SIGPROF, sys.stderr, all_threads=True, chain=True)
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.unregister(signal.SIGPROF)

    def _watch(self) -> None:
        seen, unchanged = -1, 0
        while True:
            signal.setitimer(signal.ITIMER_PROF, self._limit)
            if self._stopped.wait(min(1.0, self._limit / CHECKS)):
                return
            unit = self._journal.current
            unchanged = unchanged + 1 if unit is not None and self._journal.steps == seen else 0
            seen = self._journal.steps
            if unit is not None and unchanged * min(1.0, self._limit / CHECKS) >= self._limit:
                records = f"record {unit.first}" if unit.first == unit.last else f"records {unit.first} to {unit.last}"
                logger.critical("%s of %s has held the process for %g s: it ends", records, unit.place, self._limit)
                self._on_stall()
                return
