"""Retries with full-jitter back-off, and the two log lines of a failure: when it starts and when it ends."""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

logger = logging.getLogger(__name__)


_AGAIN_AFTER = 60.0
"""Seconds until a state that begins again has another line."""


class StateLines:
    """Bad states with a line at their begin and one at their end, in the log or on a terminal.

    `open` has those whose begin has a line and whose end has none. The begin of a state that comes and goes has a line
    once a minute at most, as such lines would bury all others. `clock` gives seconds.
    """

    def __init__(self, repeat_after: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self.open = set[str]()
        self._repeat_after = repeat_after
        self._clock = clock
        self._written: dict[str, float] = {}

    def is_due(self, state: str) -> bool:
        """Whether a state that lasts has a line now: at its begin, and `repeat_after` seconds after its last one."""
        now = self._clock()
        if now - self._written.get(state, -math.inf) < (self._repeat_after if state in self.open else _AGAIN_AFTER):
            return False
        self._written[state] = now
        self.open.add(state)
        return True

    def forget(self, state: str) -> None:
        """Let the next line of a state be due at once."""
        self._written.pop(state, None)


class FailureLog:
    """The log lines of something that is retried: a line for the first failure, one for each other class of errors that
    comes, as a broker that is back may refuse us, and one for the recovery.

    Not a line for each attempt: an outage of an hour would bury everything else. `action` says what is attempted, as in
    `writing to the turns log`.
    """

    def __init__(self, action: str) -> None:
        self._action = action
        self._failures = 0
        self._lines = StateLines(_AGAIN_AFTER)

    def failed(self, error: object) -> None:
        """Count a failed attempt; the first of a row and of each class of errors in it is logged, unless one was a
        minute ago or less.

        It is logged again each minute. The service's log leaves that out, unless it left out the first line.
        """
        kind = type(error).__name__
        more = {"again": kind in self._lines.open}
        if self._lines.is_due(kind):
            logger.warning("%s failed (%s); retrying", self._action, error, extra=more)
        self._failures += 1

    def succeeded(self) -> None:
        """End a row of failures, and log it if the row was logged."""
        if self._lines.open:
            self._lines.open.clear()
            attempts = "failed attempt" if self._failures == 1 else "failed attempts"
            logger.info("%s succeeded after %d %s", self._action, self._failures, attempts)
        self._failures = 0

    @contextmanager
    def attempt(self, *errors: type[Exception]) -> Generator[None]:
        """Count the block as an attempt, which fails by one of `errors`: it ends the block and goes no further."""
        try:
            yield
        except errors as error:
            self.failed(error)
        else:
            self.succeeded()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Full-jitter exponential back-off.

    The wait (s) before attempt n + 1 is a random number from 0 to `first * 2**n`, at most `cap`. Where the error has a
    `retry_after` (s), the wait is at least that, at most `patience`. Attempts end `deadline` seconds after the first
    failure; None means never. `clock` gives seconds.
    """

    first: float = 0.2
    cap: float = 30.0
    patience: float = 600.0
    deadline: float | None = None
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    async def repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        error: type[E],
        *,
        action: str,
        on_failure: Callable[[E], None] = lambda _error: None,
        failed: E | None = None,
    ) -> T:
        """Repeat `attempt` until it raises no `error`; anything else it raises goes through at once.

        `action` names the attempt in the log: see `FailureLog`. `failed` is the error of an attempt that was made.

        Raises:
            E: the last error, once the deadline has passed.
        """
        log = FailureLog(action)
        give_up: float | None = None
        failures = 0
        while True:
            try:
                if failed is not None:
                    raise failed
                result = await attempt()
            except error as caught:
                failed = None
                now = self.clock()
                if give_up is None and self.deadline is not None:
                    give_up = now + self.deadline
                if give_up is not None and now >= give_up:
                    raise
                log.failed(caught)
                on_failure(caught)
                await self.sleep(self._wait(failures, caught))
                failures += 1
            else:
                log.succeeded()
                return result

    def _wait(self, failures: int, error: Exception) -> float:
        requested: float = getattr(error, "retry_after", None) or 0.0
        return max(self.chance() * min(self.cap, self.first * 2.0 ** min(failures, 30)), min(requested, self.patience))
