"""Rate limiting of questions to a judge's endpoint.

The rate limit itself has no clock. Requests and tokens flow back evenly, a minute's worth at most. The number of
requests at once grows by one after a whole round of successes, and halves when the endpoint refuses (AIMD), so that
many processes share the endpoint. No request goes out before the time that the endpoint names (`Retry-After`, or the
reset of an exhausted limit).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import orjson

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.circuit_breaker import BreakerOpen
from evaluators.judges.error_mapping import duration
from evaluators.judges.wrapper import JudgeWrapper

_MINUTE = 60.0
_LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class TokenBucket:
    """An allowance per minute that flows back evenly. It falls below 0 if a request used more than was estimated."""

    per_minute: float
    left: float = field(init=False)
    time: float | None = None

    def __post_init__(self) -> None:
        self.left = self.per_minute

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` may be used. An amount above a minute's allowance may be used once the full allowance
        is there.
        """
        if self.time is not None:
            self.left = min(self.per_minute, self.left + (now - self.time) * self.per_minute / _MINUTE)
        self.time = now
        return max(0.0, (min(amount, self.per_minute) - self.left) * _MINUTE / self.per_minute)

    def take(self, amount: float) -> None:
        """Use an amount; a negative one gives back."""
        self.left -= amount


class RateLimiter:
    """The state of one endpoint. `max_concurrency` bounds the questions at a time; a rate of None is no limit."""

    def __init__(
        self, max_concurrency: int, *, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        self.max_concurrency = max_concurrency
        self.limit = float(max_concurrency)
        """The present limit on questions at a time."""
        self.running = 0
        self.paused_until = 0.0
        self._requests = TokenBucket(requests_per_minute) if requests_per_minute else None
        self._tokens = TokenBucket(tokens_per_minute) if tokens_per_minute else None
        self._shrunk_at = float("-inf")

    @property
    def full(self) -> bool:
        """Whether no further request may run now."""
        return self.running >= int(self.limit)

    def wait(self, tokens: float, now: float) -> float:
        """Seconds until a request of about so many tokens may go out."""
        waits = [self.paused_until - now]
        waits += [self._requests.wait(1.0, now)] if self._requests else []
        waits += [self._tokens.wait(tokens, now)] if self._tokens else []
        return max(0.0, *waits)

    def start(self, tokens: float) -> None:
        """A request goes out."""
        self.running += 1
        if self._requests:
            self._requests.take(1.0)
        if self._tokens:
            self._tokens.take(tokens)

    def finish(self, estimated: float, used: float | None) -> None:
        """A request is over; `used` tokens, if known, replace the estimate."""
        self.running -= 1
        if self._tokens and used is not None:
            self._tokens.take(used - estimated)

    def record_success(self) -> None:
        """Grow the limit by about one request per round: a round has as many successes as requests may run."""
        self.limit = min(float(self.max_concurrency), self.limit + 1.0 / self.limit)

    def record_rejection(self, retry_after: float | None, now: float) -> None:
        """The endpoint refused. Refusals within one second halve the limit only once."""
        if now - self._shrunk_at >= 1.0:
            self.limit = max(1.0, self.limit / 2)
            self._shrunk_at = now
        if retry_after is not None:
            self.pause(retry_after, now)

    def pause(self, seconds: float, now: float) -> None:
        """No request goes out for so many seconds."""
        self.paused_until = max(self.paused_until, now + min(seconds, _LONGEST_PAUSE))

    def observe_headers(self, headers: Mapping[str, str], now: float) -> None:
        """Obey a response's headers about the rest of a limit: `x-ratelimit-remaining-…` and `x-ratelimit-reset-…`."""
        for what in ("requests", "tokens"):
            left = headers.get(f"x-ratelimit-remaining-{what}")
            if left is None or left.strip() != "0":
                continue
            if (reset := duration(headers.get(f"x-ratelimit-reset-{what}"))) is not None:
                self.pause(reset, now)


_BYTES_PER_TOKEN = 4
_ANSWER_TOKENS = 200
_PICTURE_TOKENS = 1000
_SHORTEST = 0.001  # a wait that rounding leaves would never end


@dataclass(eq=False, repr=False)
class EndpointLimiter:
    """Lets questions out to an endpoint, in their order of arrival. All judges of the endpoint share it."""

    limiter: RateLimiter
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, tokens: float) -> None:
        """Wait until a question of about so many tokens may go out."""
        async with self._turn:
            while True:
                if self.limiter.full:
                    await self._wait_for_place()
                elif wait := self.limiter.wait(tokens, self.clock()):
                    await self.sleep(max(wait, _SHORTEST))
                else:
                    self.limiter.start(tokens)
                    return

    async def _wait_for_place(self) -> None:
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

    def record_rejection(self, error: JudgeUnavailable) -> None:
        """A question was refused for now."""
        self.limiter.record_rejection(error.retry_after, self.clock())

    def observe_headers(self, headers: Mapping[str, str]) -> None:
        """A response came with these headers."""
        self.limiter.observe_headers(headers, self.clock())


class RateLimited(JudgeWrapper):
    """A judge whose questions wait until the endpoint's limiter admits them."""

    def __init__(self, judge: Judge, endpoint: EndpointLimiter) -> None:
        super().__init__(judge)
        self._endpoint = endpoint

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait, ask, and learn from the response."""
        guess = estimate_tokens(prompt, samples)
        await self._endpoint.acquire(guess)
        used: float | None = None
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
            used = verdict.usage.input_tokens + verdict.usage.output_tokens or None
            self._endpoint.limiter.record_success()
        except BreakerOpen:
            used = 0.0  # no request went out
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
    """An estimate of the tokens that a question and its answers will take."""
    question = (len(prompt.instructions) + len(orjson.dumps(prompt.material, default=str))) / _BYTES_PER_TOKEN
    question += _PICTURE_TOKENS * len(prompt.media)
    return question + samples * (prompt.max_tokens or prompt.answers * _ANSWER_TOKENS)
