"""Warnings about a judge's endpoint: each kind at most once an hour."""

import logging
import math
import time
from collections.abc import Callable

from evaluators.results import Usage

logger = logging.getLogger(__name__)

_HOUR = 3600.0


class Notices:
    """Warnings about one judge. They hold no judged text."""

    def __init__(self, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._clock = clock
        self._last_times: dict[str, float] = {}

    def warn(self, kind: str, words: str) -> None:
        """Warn, unless a warning of this kind was given within the hour."""
        now = self._clock()
        if now - self._last_times.get(kind, -math.inf) >= _HOUR:
            self._last_times[kind] = now
            logger.warning("judge %s: %s", self._model, words)

    def look_at(self, usage: Usage) -> None:
        """Warn once of tokens that had to be estimated."""
        if usage.estimated_calls and "usage" not in self._last_times:
            self.warn("usage", _ESTIMATED)


_ESTIMATED = (
    "the endpoint reports no usable number of tokens (usage); tokens and cost of such answers are estimated from the "
    "texts, and budgets charge the estimates"
)
