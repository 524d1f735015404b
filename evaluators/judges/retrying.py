"""Retries of questions to a judge that is unavailable."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from evaluators.errors import ENDPOINT_ERRORS, JudgeDenied, JudgeError, JudgeUnavailable, NoCompletion
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.results import Usage

_DOUBLINGS = 40  # beyond that a wait exceeds any configured longest wait


class RetryingOptions(TypedDict, total=False):
    """The keyword arguments of `Retrying` that say when a question is asked again."""

    attempts: int
    first_wait: float
    longest_wait: float
    deadline: float
    denied: bool
    isolated_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryingSettings:
    """The values of `RetryingOptions`, with defaults. Times are in seconds."""

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 20.0
    deadline: float = 120.0
    denied: bool = False
    isolated_attempts: int = 5


class Retrying(JudgeWrapper):
    """A judge that is asked again after `JudgeUnavailable`, and after nothing else unless `denied` is set.

    Waits grow as `first_wait` * 2^n seconds up to `longest_wait`, and each is drawn evenly from 0 to that (full
    jitter), so that many callers do not return together. A wait that the judge requests is obeyed, with the jitter on
    top. With `denied`, it is also asked again after `JudgeDenied`: an operator may fix the key. A question that gets
    `isolated_attempts` answers that are not completions, or denials, while other questions get good answers, is given
    up: the cause is the question's own, like a firewall that takes offence at its text. No attempt begins later than
    `deadline` seconds after the first: if a wait would end later, the last error is raised at once.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[RetryingOptions],
    ) -> None:
        self._settings = settings = RetryingSettings(**options)
        if settings.attempts < 1:
            raise ValueError("attempts must be at least 1")
        super().__init__(judge)
        self._asks_again = ENDPOINT_ERRORS if settings.denied else (JudgeUnavailable,)
        self._sleep = sleep
        self._uniform = uniform
        self._clock = clock

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask until there is an answer, a refusal, no attempt left or no time left."""
        give_up = self._clock() + self._settings.deadline
        failed, cost_usd, isolated = Usage(), None, 0
        attempt = 1
        while True:
            try:
                verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
            except JudgeError as error:
                failed += error.usage
                cost_usd = error.cost_usd if cost_usd is None else cost_usd + (error.cost_usd or 0.0)
                isolated += error.isolated and isinstance(error, NoCompletion | JudgeDenied)
                wait = None if isolated >= self._settings.isolated_attempts else self._wait(attempt, error)
                if attempt >= self._settings.attempts or wait is None or self._clock() + wait > give_up:
                    error.usage, error.cost_usd = failed, cost_usd
                    raise
            else:
                if not failed.calls:
                    return verdict
                whole_cost = None if verdict.cost_usd is None else verdict.cost_usd + (cost_usd or 0.0)
                return replace(verdict, usage=verdict.usage + failed, cost_usd=whole_cost)
            await self._sleep(wait)
            attempt += 1

    def _wait(self, attempt: int, error: JudgeError) -> float | None:
        """Seconds to wait before the next attempt; None if there is no further attempt."""
        if not isinstance(error, self._asks_again):
            return None
        ceiling = min(self._settings.longest_wait, self._settings.first_wait * 2 ** min(attempt - 1, _DOUBLINGS))
        return (getattr(error, "retry_after", None) or 0.0) + self._uniform(0.0, ceiling)
