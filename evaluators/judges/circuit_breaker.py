"""Circuit breakers for judge endpoints that are unavailable, and what happens to questions while one is open."""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Literal

from evaluators.errors import ENDPOINT_ERRORS, JudgeError
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.audited import Audited
from evaluators.judges.cascade import Cascade
from evaluators.judges.divided import DividedJudge
from evaluators.judges.jury import Jury
from evaluators.judges.wrapper import JudgeWrapper, members_of

_WINDOW = 4
"""The share of failures is counted over the last 4 × `failures` calls."""
_MOSTLY = 0.9
"""The share of failures in a full window that opens the breaker."""
_FEWEST = 3
"""Failures in a row, over `patience`, that open the breaker: a lone retried question makes fewer than `failures`."""
_PATIENCE_ONCE_ANSWERED = 180.0
"""Seconds of failures alone that open the breaker of an endpoint that has answered before."""
_LONGEST_LIMITED = 300.0
"""The most seconds until a question is tried again, even if the endpoint asks for a longer wait: its limit may be
raised."""
State = Literal["closed", "half_open", "open"]


class BreakerOpen(JudgeError):
    """The breaker is open, so the endpoint was not asked. `wait` is the number of seconds until the next probe, `cause`
    the message of the endpoint's last failure.
    """

    type = "judge_shed"

    def __init__(self, wait: float, cause: str = "") -> None:
        why = f", as it failed: {cause}" if cause else ""
        super().__init__(f"the circuit breaker of the judge's endpoint is open{why}")
        self.wait = wait


@dataclass(eq=False, repr=False, kw_only=True)
class CircuitBreaker:
    """Opens after `failures` failures in a row, or if 90 % of the last 4 × `failures` calls failed. Then one question
    probes.

    The first probe comes after `first_wait` seconds; each further probe after twice the wait.

    `longest_wait` (s) bounds the doubling.

    It also opens after three failures in a row over `patience` seconds; once the endpoint has answered, over at least
    180 seconds.

    `on_open` is called each time it opens: not when a probe fails, since it is open then. A rate limit is no failure,
    because the endpoint works.
    """

    failures: InitVar[int] = 10
    first_wait: float = 5.0
    longest_wait: float = 60.0
    patience: float = math.inf
    clock: Callable[[], float] = time.monotonic
    on_open: Callable[[], None] = lambda: None

    def __post_init__(self, failures: int) -> None:
        self._limit = failures
        self._failures = 0
        self._recent = deque[bool](maxlen=_WINDOW * failures)  # whether each failed
        self._answered = False
        self._failing_since = 0.0
        self._wait = self.first_wait
        self._probe_at = 0.0
        self._cause = ""
        self.state: State = "closed"

    @property
    def wait(self) -> float:
        """Seconds until a question may be asked; 0 if it may now."""
        if self.state == "open":
            return max(0.0, self._probe_at - self.clock())
        return 0.0 if self.state == "closed" else self.first_wait  # the result of the probe is not known yet

    @property
    def lone(self) -> bool:
        """Whether the endpoint's last answer was a success, so that a failure now may be the question's own fault."""
        return self.state == "closed" and self._answered and not self._failures

    @property
    def fails(self) -> bool:
        """Whether the endpoint answers no question at present."""
        return self.state != "closed" or self._failures >= _FEWEST

    def admit(self) -> bool:
        """Admit a question; returns whether it is the probe.

        Raises:
            BreakerOpen: the question must not be asked.
        """
        if self.state == "closed":
            return False
        if self.wait > 0:
            raise self.refusal()
        self.state = "half_open"
        return True

    def refusal(self) -> BreakerOpen:
        """The error of a question that must not be asked."""
        return BreakerOpen(self.wait, self._cause)

    def record_success(self, *, probe: bool) -> None:
        """Note an answer. It does not close an open breaker, unless the probe got it."""
        if self.state != "closed" and not probe:
            return
        self.state = "closed"
        self._recent.append(False)
        self._answered = True
        self._failures = 0
        self._wait = self.first_wait

    def record_failure(self, *, probe: bool, cause: str = "") -> None:
        """Note a failure and its message. Once the breaker is open, only a failure of the probe counts."""
        now, self._cause = self.clock(), cause
        self._failing_since = self._failing_since if self._failures else now
        self._failures += 1
        self._recent.append(True)
        patience = max(self.patience, _PATIENCE_ONCE_ANSWERED) if self._answered else self.patience
        long = self._failures >= _FEWEST and now - self._failing_since >= patience
        mostly = len(self._recent) == self._recent.maxlen and sum(self._recent) >= _MOSTLY * len(self._recent)
        if probe:
            self._wait = min(2 * self._wait, self.longest_wait)
            self._open()
        elif self.state == "closed" and (mostly or long or self._failures >= self._limit):
            self._open()
            self.on_open()

    def abandon_probe(self) -> None:
        """Give the probe up; another call may be made at once."""
        if self.state == "half_open":
            self.state, self._probe_at = "open", self.clock()

    def _open(self) -> None:
        self.state = "open"
        self._probe_at = self.clock() + self._wait
        self._recent.clear()


class CircuitBreakerJudge(JudgeWrapper):
    """A judge, inside the retries, that is asked only while the breaker admits it; its results go to the breaker."""

    def __init__(self, judge: Judge, breaker: CircuitBreaker) -> None:
        super().__init__(judge)
        self.breaker = breaker

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, unless the breaker is open."""
        probe = self.breaker.admit()
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except JudgeError as error:
            if isinstance(error, ENDPOINT_ERRORS) and error.type != "judge_rate_limited":
                error.isolated = self.breaker.lone
                self.breaker.record_failure(probe=probe, cause=str(error))
            else:
                self.breaker.record_success(probe=probe)  # the endpoint answers, so the fault is elsewhere
            raise
        except BaseException:
            if probe:
                self.breaker.abandon_probe()
            raise
        self.breaker.record_success(probe=probe)
        return verdict


@dataclass(eq=False, repr=False)
class QueueWhileOpen(JudgeWrapper):
    """A judge, outside the retries, whose questions wait while the breaker is open, and are then asked again.

    Questions that the endpoint's rate limit still refuses after all retries wait too: a quota may be used up until
    midnight. A question that has waited for `longest` seconds is shed with `BreakerOpen`; None waits indefinitely, 0
    not at all. `on_wait` is called with +1 and -1, `on_shed` for each question that is shed.
    """

    judge: InitVar[Judge]
    breaker: CircuitBreaker
    _: KW_ONLY
    longest: float | None = None
    on_wait: Callable[[int], None] = lambda _change: None
    on_shed: Callable[[], None] = lambda: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self, judge: Judge) -> None:
        super().__init__(judge)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask when the breaker is closed or probes."""
        give_up = None if self.longest is None else self.clock() + self.longest
        while True:
            try:
                return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
            except (BreakerOpen, *ENDPOINT_ERRORS) as error:
                limited = error.type == "judge_rate_limited"
                if not isinstance(error, BreakerOpen) and self.breaker.state == "closed" and not limited:
                    raise
                if give_up is not None and self.clock() >= give_up:
                    if limited:
                        raise
                    self.on_shed()
                    raise self.breaker.refusal() from None
                requested_wait = getattr(error, "retry_after", None) or 0.0
            await self._pause(give_up, min(requested_wait, _LONGEST_LIMITED) if limited else 0.0)

    async def _pause(self, give_up: float | None, least: float) -> None:
        """Wait until the next probe is due, and a random moment longer, so that questions do not return together."""
        wait = max(self.breaker.wait, least) + random.uniform(0.01, 0.5)
        if give_up is not None:
            wait = min(wait, max(0.0, give_up - self.clock()))
        self.on_wait(1)
        try:
            await self.sleep(wait)
        finally:
            self.on_wait(-1)


def waits_for_endpoint(judge: Judge | JudgeWrapper) -> bool:
    """Whether questions to a judge wait, as its endpoint, or that of a member, answers none at present."""
    match judge:
        case CircuitBreakerJudge():
            return judge.breaker.fails
        case JudgeWrapper(inner=part) | Audited(judge=part):  # a score waits for its audit a short time alone
            return waits_for_endpoint(part)
        case DividedJudge():
            return waits_for_endpoint(judge.extract) or waits_for_endpoint(judge.decide)
        case _:
            return isinstance(judge, Jury | Cascade) and any(map(waits_for_endpoint, members_of(judge)))
