"""Not asking an endpoint that is out: a breaker per endpoint, and what becomes of the questions meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judge import Judge, Prompt, R, Verdict

State = Literal["closed", "half_open", "open"]


class BreakerOpen(JudgeError):
    """The endpoint is out and was not asked. `wait` is how many seconds it will not be."""

    type = "judge_shed"

    def __init__(self, wait: float) -> None:
        super().__init__("the judge's endpoint is out and is not asked for now")
        self.wait = wait


class Breaker:
    """Opens after `failures` in a row; after `first_wait` seconds one question probes, then after twice as long.

    `longest_wait` (s) bounds the doubling.

    `on_open` is called each time it opens. Being rate limited is no failure: the endpoint works.
    """

    def __init__(
        self,
        *,
        failures: int = 10,
        first_wait: float = 5.0,
        longest_wait: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = failures
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._clock = clock
        self._on_open = on_open
        self._failures = 0
        self._wait = first_wait
        self._probe_at = 0.0
        self.state: State = "closed"

    @property
    def wait(self) -> float:
        """Seconds until a question may be asked; 0 if it may now."""
        match self.state:
            case "closed":
                return 0.0
            case "half_open":
                return self._first_wait  # what the probe comes to is not known yet
            case "open":
                return max(0.0, self._probe_at - self._clock())

    def enter(self) -> bool:
        """Ask for leave to ask; says whether this question is the probe.

        Raises:
            BreakerOpen: no.
        """
        if self.state == "closed":
            return False
        if self.wait > 0:
            raise BreakerOpen(self.wait)
        self.state = "half_open"
        return True

    def succeeded(self) -> None:
        """The endpoint has answered."""
        self.state = "closed"
        self._failures = 0
        self._wait = self._first_wait

    def failed(self, *, probe: bool) -> None:
        """The endpoint has not answered. Questions sent before it opened change nothing any more."""
        self._failures += 1
        if probe:
            self._wait = min(2 * self._wait, self._longest_wait)
            self._open()
        elif self.state == "closed" and self._failures >= self._limit:
            self._open()

    def left(self) -> None:
        """The probe was given up; another may be made at once."""
        if self.state == "half_open":
            self.state, self._probe_at = "open", self._clock()

    def _open(self) -> None:
        self.state = "open"
        self._probe_at = self._clock() + self._wait
        self._on_open()


class Breaking:
    """A judge around a judge, inside the retries: tells the breaker how attempts went, and obeys it."""

    def __init__(self, judge: Judge, breaker: Breaker) -> None:
        self._judge = judge
        self._breaker = breaker

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, unless the breaker is open."""
        probe = self._breaker.enter()
        try:
            verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except JudgeUnavailable as error:
            if error.type == "judge_rate_limited":
                self._breaker.succeeded()
            else:
                self._breaker.failed(probe=probe)
            raise
        except JudgeError:
            self._breaker.succeeded()  # it answers; what is wrong is another matter
            raise
        except BaseException:
            if probe:
                self._breaker.left()
            raise
        self._breaker.succeeded()
        return verdict


class Pausing:
    """A judge around a judge, outside the retries: questions wait while the breaker is open, and are asked again.

    `longest` (s) is how long a question waits at most before it is given up with `BreakerOpen`; None is for ever, 0 at
    once. `on_wait` is told +1 and -1, `on_shed` each question given up.
    """

    def __init__(
        self,
        judge: Judge,
        breaker: Breaker,
        *,
        longest: float | None = None,
        on_wait: Callable[[int], None] = lambda _change: None,
        on_shed: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._judge = judge
        self._breaker = breaker
        self._longest = longest
        self._on_wait = on_wait
        self._on_shed = on_shed
        self._sleep = sleep
        self._clock = clock
        self._uniform = uniform

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask when the endpoint is back."""
        give_up = None if self._longest is None else self._clock() + self._longest
        while True:
            try:
                return await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
            except (BreakerOpen, JudgeUnavailable) as error:
                if isinstance(error, JudgeUnavailable) and self._breaker.state == "closed":
                    raise
                if give_up is not None and self._clock() >= give_up:
                    self._on_shed()
                    raise BreakerOpen(self._breaker.wait) from None
            await self._pause(give_up)

    async def _pause(self, give_up: float | None) -> None:
        """Until the next probe is due, and a little longer: not everybody shall come at once."""
        wait = self._breaker.wait + self._uniform(0.01, 0.5)
        if give_up is not None:
            wait = min(wait, max(0.0, give_up - self._clock()))
        self._on_wait(1)
        try:
            await self._sleep(wait)
        finally:
            self._on_wait(-1)
