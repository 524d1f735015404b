"""A judge that is asked no faster than its endpoint allows."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import orjson

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.breaker import BreakerOpen
from evaluators.judges.pacing import Pacing

_BYTES_PER_TOKEN = 4
_ANSWER_TOKENS = 200
_SHORTEST = 0.001  # a wait that rounding leaves would never end


class Endpoint:
    """Lets questions out to an endpoint, in the order in which they came. Shared by all judges that ask it."""

    def __init__(
        self,
        pacing: Pacing,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pacing = pacing
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, tokens: float) -> None:
        """Wait until a question of about so many tokens may go out."""
        async with self._turn:
            while True:
                if self.pacing.full:
                    await self._place()
                elif wait := self.pacing.wait(tokens, self._clock()):
                    await self._sleep(max(wait, _SHORTEST))
                else:
                    self.pacing.begin(tokens)
                    return

    async def _place(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    def leave(self, guessed: float, used: float | None) -> None:
        """A question is answered or given up."""
        self.pacing.end(guessed, used)
        while self._waiting and not self.pacing.full:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return

    def went_well(self) -> None:
        """A question was answered."""
        self.pacing.went_well()

    def too_much(self, error: JudgeUnavailable) -> None:
        """A question was refused for now."""
        self.pacing.too_much(error.retry_after, self._clock())

    def told(self, headers: Mapping[str, str]) -> None:
        """A response came with these headers."""
        self.pacing.told(headers, self._clock())


class Paced:
    """A judge around a judge that asks when the endpoint may be asked."""

    def __init__(self, judge: Judge, endpoint: Endpoint) -> None:
        self._judge = judge
        self._endpoint = endpoint

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait, ask, and learn from what comes back."""
        guess = guessed_tokens(prompt, samples)
        await self._endpoint.enter(guess)
        used: float | None = None
        try:
            verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
            used = verdict.usage.input_tokens + verdict.usage.output_tokens or None
            self._endpoint.went_well()
        except BreakerOpen:
            used = 0.0  # nothing went out
            raise
        except JudgeError as error:
            used = error.usage.input_tokens + error.usage.output_tokens or None
            if isinstance(error, JudgeUnavailable):
                self._endpoint.too_much(error)
            raise
        else:
            return verdict
        finally:
            self._endpoint.leave(guess, used)


def guessed_tokens(prompt: Prompt, samples: int) -> float:
    """About how many tokens a question and its answers take, before it is known."""
    asked = (len(prompt.instructions) + len(orjson.dumps(prompt.material, default=str))) / _BYTES_PER_TOKEN
    return asked + samples * (prompt.max_tokens or _ANSWER_TOKENS)
