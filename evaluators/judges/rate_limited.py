"""Rate limiting of questions to a judge's endpoint."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import orjson

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.circuit_breaker import BreakerOpen
from evaluators.judges.rate_limiter import RateLimiter
from evaluators.judges.wrapper import JudgeWrapper

_BYTES_PER_TOKEN = 4
_ANSWER_TOKENS = 200
_PICTURE_TOKENS = 1000
_SHORTEST = 0.001  # a wait that rounding leaves would never end


class EndpointLimiter:
    """Lets questions out to an endpoint, in the order in which they came. Shared by all judges that ask it."""

    def __init__(
        self,
        limiter: RateLimiter,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limiter = limiter
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, tokens: float) -> None:
        """Wait until a question of about so many tokens may go out."""
        async with self._turn:
            while True:
                if self.limiter.full:
                    await self._place()
                elif wait := self.limiter.wait(tokens, self._clock()):
                    await self._sleep(max(wait, _SHORTEST))
                else:
                    self.limiter.start(tokens)
                    return

    async def _place(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    def release(self, guessed: float, used: float | None) -> None:
        """A question is answered or given up."""
        self.limiter.finish(guessed, used)
        while self._waiting and not self.limiter.full:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return

    def record_success(self) -> None:
        """A question was answered."""
        self.limiter.record_success()

    def record_rejection(self, error: JudgeUnavailable) -> None:
        """A question was refused for now."""
        self.limiter.record_rejection(error.retry_after, self._clock())

    def observe_headers(self, headers: Mapping[str, str]) -> None:
        """A response came with these headers."""
        self.limiter.observe_headers(headers, self._clock())


class RateLimited(JudgeWrapper):
    """A judge whose questions wait until the endpoint's limiter admits them."""

    def __init__(self, judge: Judge, endpoint: EndpointLimiter) -> None:
        super().__init__(judge)
        self._endpoint = endpoint

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait, ask, and learn from what comes back."""
        guess = estimate_tokens(prompt, samples)
        await self._endpoint.acquire(guess)
        used: float | None = None
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
            used = verdict.usage.input_tokens + verdict.usage.output_tokens or None
            self._endpoint.record_success()
        except BreakerOpen:
            used = 0.0  # nothing went out
            raise
        except JudgeError as error:
            used = error.usage.input_tokens + error.usage.output_tokens or None
            if isinstance(error, JudgeUnavailable):
                self._endpoint.record_rejection(error)
            raise
        else:
            return verdict
        finally:
            self._endpoint.release(guess, used)


def estimate_tokens(prompt: Prompt, samples: int) -> float:
    """About how many tokens a question and its answers take, before it is known."""
    question = (len(prompt.instructions) + len(orjson.dumps(prompt.material, default=str))) / _BYTES_PER_TOKEN
    question += _PICTURE_TOKENS * len(prompt.media)
    return question + samples * (prompt.max_tokens or prompt.answers * _ANSWER_TOKENS)
