"""Wrong tokens: whoever sends many of them is answered slowly, counted, and reported once."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

FREE = 10
"""Wrong tokens from an address that are answered at once."""
WAIT = 5.0
"""Seconds until each further one is answered."""
QUIET = 60.0
"""Seconds without a wrong token after which an address is forgotten."""
MOST_ADDRESSES = 10_000
_MOST_WAITING = 2000
_MOST_REPORTED = 20


@dataclass(slots=True)
class _Address:
    wrong: int = 0
    last: float = 0.0
    reported: bool = False


class TokenGuesses:
    """The addresses that sent wrong tokens lately. A right token always passes: it never comes here.

    `where` is the receiver in log lines; `count` is called for each. Memory is bounded: the address that was quiet the
    longest is forgotten first.
    """

    def __init__(self, where: str, clock: Callable[[], float], count: Callable[[], object] = lambda: None) -> None:
        self._where = where
        self._clock = clock
        self._count = count
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0
        self._reported = 0

    def add(self, address: str) -> float:
        """Note a wrong token; gives how long (s) its answer has to wait."""
        now = self._clock()
        self._count()
        self._forget(now)
        entry = self._addresses.setdefault(address, _Address())
        self._addresses.move_to_end(address)
        entry.wrong += 1
        entry.last = now
        if entry.wrong <= FREE:
            return 0.0
        if not entry.reported and self._reported < _MOST_REPORTED:
            entry.reported = True
            self._reported += 1
            logger.warning("%s: wrong tokens from %s; its answers now take %g s", self._where, address, WAIT)
        return WAIT

    async def slow_down(self, address: str) -> None:
        """Note a wrong token, and wait before it is answered."""
        wait = self.add(address)
        if wait and self._waiting < _MOST_WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting -= 1
        if wait:
            asyncio.get_running_loop().call_later(QUIET, self._look)

    def _look(self) -> None:
        self._forget(self._clock())

    def _forget(self, now: float) -> None:
        while self._addresses:
            address, entry = next(iter(self._addresses.items()))
            if entry.last > now - QUIET and len(self._addresses) < MOST_ADDRESSES:
                return
            del self._addresses[address]
            if entry.reported:
                self._reported -= 1
                logger.info("%s: %d wrong tokens from %s; none for %g s", self._where, entry.wrong, address, QUIET)
