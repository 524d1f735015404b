import asyncio

import pytest
from pydantic import BaseModel

from evaluators.errors import JudgeUnavailable
from evaluators.judge import Answer, Prompt, Verdict
from evaluators.judges.answer_cache import AnswerCache
from evaluators.judges.circuit_breaker import BreakerOpen, CircuitBreaker, CircuitBreakerJudge
from evaluators.judges.rate_limited import EndpointLimiter, RateLimited, RateLimiter, duration
from evaluators.results import Usage


class Reply(BaseModel):
    text: str = ""


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


class Judge:
    model = "m"

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked: list[float] = []
        self.error: JudgeUnavailable | None = None
        self.gate: asyncio.Event | None = None
        self.running = self.most = 0

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        self.asked.append(self.clock.now)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.gate:
                await self.gate.wait()
            if self.error:
                raise self.error
        finally:
            self.running -= 1
        return Verdict([Answer(reply(), "")], "m", None, Usage(input_tokens=900, output_tokens=100, calls=1), 0.01)


def paced(most: int = 100, **limits: float) -> tuple[Judge, RateLimited, RateLimiter, Clock]:
    clock = Clock()
    judge, pacing = Judge(clock), RateLimiter(most, **limits)
    return judge, RateLimited(judge, EndpointLimiter(pacing, clock=clock, sleep=clock.sleep)), pacing, clock


QUESTION = Prompt("Is it good?", {"input": "x"}, max_tokens=10)


async def test_no_more_requests_a_minute_than_allowed() -> None:
    judge, asker, _, _ = paced(requests_per_minute=10)
    await asyncio.gather(*(asker.ask(QUESTION, Reply) for _ in range(40)))
    for start in range(40):
        within = [each for each in judge.asked if judge.asked[start] <= each < judge.asked[start] + 60]
        assert len(within) <= 20, "a full allowance, and what flowed back meanwhile"
    assert judge.asked[-1] == pytest.approx(180.0)


async def test_tokens_are_counted_as_they_were_used() -> None:
    judge, asker, _, _ = paced(tokens_per_minute=2000)
    for _ in range(10):
        await asker.ask(QUESTION, Reply)
    assert 210 < judge.asked[-1] < 245, "1,000 tokens each, whatever was guessed"


async def test_as_many_at_once_as_the_limit_says_which_halves_when_refused_and_grows_again() -> None:
    judge, asker, pacing, _ = paced(most=8)
    judge.gate = asyncio.Event()
    asking = [asyncio.create_task(asker.ask(QUESTION, Reply)) for _ in range(30)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert judge.most == 8
    judge.error = JudgeUnavailable("busy")
    judge.gate.set()
    await asyncio.gather(*asking, return_exceptions=True)
    assert pacing.limit == 4.0, "those that were on their way together count once"
    judge.error = None
    for _ in range(30):
        await asker.ask(QUESTION, Reply)
    assert 7.0 < pacing.limit <= 8.0
    assert pacing.running == 0


async def test_the_time_that_the_endpoint_names_is_waited_for() -> None:
    judge, asker, pacing, clock = paced()
    judge.error = JudgeUnavailable("busy", retry_after=7.0)
    with pytest.raises(JudgeUnavailable):
        await asker.ask(QUESTION, Reply)
    judge.error = None
    await asker.ask(QUESTION, Reply)
    assert judge.asked == [0.0, 7.0]
    pacing.observe_headers({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"}, clock.now)
    pacing.observe_headers({"x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "6m0s"}, clock.now)
    await asker.ask(QUESTION, Reply)
    assert judge.asked[-1] == 69.0


async def test_who_gives_up_waiting_takes_no_place() -> None:
    judge, asker, pacing, _ = paced(most=1)
    judge.gate = asyncio.Event()
    first, second, third = (asyncio.create_task(asker.ask(QUESTION, Reply)) for _ in range(3))
    for _ in range(10):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    judge.gate.set()
    await asyncio.gather(first, third)
    assert (len(judge.asked), pacing.running) == (2, 0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("20ms", 0.02), ("6m0s", 360.0), ("1h2m3.5s", 3723.5), ("7", 7.0), ("soon", None), ("", None), (None, None)]
)  # fmt: skip
def test_durations_as_endpoints_write_them(text: str | None, seconds: float | None) -> None:
    assert duration(text) == seconds


async def test_identical_questions_are_answered_once_and_cost_nothing_again() -> None:
    judge, results = Judge(Clock()), []
    cached = AnswerCache(judge, capacity=2, count=results.append)
    first = await cached.ask(QUESTION, Reply)
    again = await cached.ask(Prompt("Is it good?", {"input": "x"}, max_tokens=10), Reply)
    assert (first.cost_usd, again.cost_usd, again.usage.calls, again.answers) == (0.01, None, 0, first.answers)
    for material in ("y", "z", "x"):
        await cached.ask(Prompt("Is it good?", {"input": material}, max_tokens=10), Reply)
    await cached.ask(QUESTION, Reply, samples=2)
    assert results == ["miss", "hit", "miss", "miss", "miss", "miss"]
    judge.error = JudgeUnavailable("down")
    for _ in range(2):
        with pytest.raises(JudgeUnavailable):
            await cached.ask(Prompt("new"), Reply)


async def test_what_a_breaker_holds_back_takes_no_tokens_from_the_allowance() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    judge = Judge(clock)
    endpoint = EndpointLimiter(RateLimiter(100, tokens_per_minute=60_000), clock=clock, sleep=clock.sleep)
    asker = RateLimited(CircuitBreakerJudge(judge, breaker), endpoint)
    breaker.record_failure(probe=False)
    for _ in range(10):
        with pytest.raises(BreakerOpen):
            await asker.ask(Prompt("x" * 200_000, {}, max_tokens=10), Reply)
    assert judge.asked == []
    assert clock.now == 0.0, "nobody waited for what was never sent"
    assert endpoint.limiter.running == 0
