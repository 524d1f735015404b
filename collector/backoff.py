"""Waiting between attempts at something that is down for now."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Full-jitter exponential back-off without end.

    The wait (s) before attempt n + 1 is drawn evenly from 0 to `first * 2**n`, at most `cap`. Where the error has a
    `retry_after` (s), the wait is at least that, at most `patience`.
    """

    first: float = 0.2
    cap: float = 30.0
    patience: float = 600.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        error: type[E],
        *,
        what: str,
        on_failure: Callable[[E], None] = lambda _error: None,
    ) -> T:
        """Repeat `attempt` until it raises no `error`; anything else it raises goes through at once.

        The log gets one line when it fails first and one when it works again. `what` says what is attempted.
        """
        failures = 0
        while True:
            try:
                result = await attempt()
            except error as caught:
                if not failures:
                    logger.warning("%s does not work now (%s); trying again until it does", what, caught)
                on_failure(caught)
                await self.sleep(self._wait(failures, caught))
                failures += 1
            else:
                if failures:
                    logger.info("%s works again after %d failed attempts", what, failures)
                return result

    def _wait(self, failures: int, error: Exception) -> float:
        asked: float = getattr(error, "retry_after", None) or 0.0
        drawn = self.chance() * min(self.cap, self.first * 2.0 ** min(failures, 30))
        return max(drawn, min(asked, self.patience))
