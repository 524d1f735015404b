"""Asking again when a judge cannot answer now."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.outcome import Usage

_DOUBLINGS = 40  # beyond that a wait is longer than anybody's longest


class Retrying:
    """A judge around a judge that asks again after `JudgeUnavailable`, and after nothing else.

    Waits grow as `first_wait` * 2^n seconds up to `longest_wait`, and each is drawn evenly from 0 to that (full
    jitter), so that many askers do not come back together. A wait that the judge asks for is obeyed, with the jitter
    on top. No attempt begins later than `deadline` seconds after the first: where a wait would end beyond it, the
    last error is raised at once.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        attempts: int = 5,
        first_wait: float = 0.5,
        longest_wait: float = 20.0,
        deadline: float = 120.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempts < 1:
            raise ValueError("attempts must be at least 1")
        self._judge = judge
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._deadline = deadline
        self._sleep = sleep
        self._uniform = uniform
        self._clock = clock

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask until there is an answer, a refusal, no attempt left or no time left."""
        give_up = self._clock() + self._deadline
        tab = _Tab()
        attempt = 1
        while True:
            try:
                verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
                return tab.settle(verdict)
            except JudgeError as error:
                tab.add(error)
                wait = self._wait(attempt, error)
                if attempt >= self._attempts or wait is None or self._clock() + wait > give_up:
                    error.usage, error.cost_usd = tab.usage, tab.cost_usd
                    raise
            await self._sleep(wait)
            attempt += 1

    def _wait(self, attempt: int, error: JudgeError) -> float | None:
        """Seconds to wait before the next attempt; None if there shall be none."""
        if not isinstance(error, JudgeUnavailable):
            return None
        ceiling = min(self._longest_wait, self._first_wait * 2 ** min(attempt - 1, _DOUBLINGS))
        return (error.retry_after or 0.0) + self._uniform(0.0, ceiling)


class _Tab:
    """What failed attempts were paid for."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cost_usd: float | None = None

    def add(self, error: JudgeError) -> None:
        self.usage = self.usage + error.usage
        if error.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + error.cost_usd

    def settle(self, verdict: Verdict[R]) -> Verdict[R]:
        """The verdict with the failed attempts on its bill."""
        if not self.usage.calls:
            return verdict
        cost = None if verdict.cost_usd is None else verdict.cost_usd + (self.cost_usd or 0.0)
        return replace(verdict, usage=verdict.usage + self.usage, cost_usd=cost)
