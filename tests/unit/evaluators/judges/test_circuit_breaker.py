"""A judge's endpoint that is out is left alone; its questions wait or are given up, and every one is counted."""

from __future__ import annotations

import contextlib

import pytest
from pydantic import BaseModel

from evaluators.errors import JudgeDenied, JudgeRejected, JudgeUnavailable, NoCompletion
from evaluators.judge import Answer, Prompt, Verdict
from evaluators.judges.circuit_breaker import BreakerOpen, CircuitBreaker, CircuitBreakerJudge, QueueWhileOpen
from evaluators.judges.retrying import Retrying


class Reply(BaseModel):
    score: int = 1


class Endpoint:
    model = "m"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.calls = 0

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        self.calls += 1
        if self.error:
            raise self.error
        return Verdict((Answer(Reply(), ""),), "m")


class World:
    def __init__(self, **breaker) -> None:
        self.now = 0.0
        self.opened = 0
        self.endpoint = Endpoint()
        self.breaker = CircuitBreaker(
            failures=3, first_wait=5.0, longest_wait=15.0, clock=lambda: self.now, on_open=self.open, **breaker
        )
        self.judge = CircuitBreakerJudge(self.endpoint, self.breaker)

    def open(self) -> None:
        self.opened += 1

    async def fail(self, count: int) -> None:
        self.endpoint.error = JudgeUnavailable("down")
        for _ in range(count):
            with pytest.raises(JudgeUnavailable):
                await self.judge.ask(Prompt("x"), Reply)


async def test_opens_after_failures_in_a_row_and_asks_nothing_then():
    world = World()
    await world.fail(3)

    with pytest.raises(BreakerOpen) as raised:
        await world.judge.ask(Prompt("x"), Reply)

    assert world.endpoint.calls == 3
    assert world.opened == 1
    assert raised.value.wait == 5.0
    assert raised.value.type == "judge_shed"
    assert str(raised.value) == "the circuit breaker of the judge's endpoint is open, as it failed: down"


@pytest.mark.parametrize("between", [None, JudgeRejected("401"), JudgeUnavailable("later", type="judge_rate_limited")])
async def test_any_answer_ends_the_row(between):
    world = World()
    await world.fail(2)
    world.endpoint.error = between
    with contextlib.suppress(JudgeRejected, JudgeUnavailable):
        await world.judge.ask(Prompt("x"), Reply)
    await world.fail(2)

    assert world.breaker.state == "closed"


async def test_one_question_probes_and_waits_double():
    world = World()
    await world.fail(3)
    waits = []
    for _ in range(3):
        waits.append(world.breaker.wait)
        world.now += world.breaker.wait
        await world.fail(1)

    assert waits == [5.0, 10.0, 15.0]
    assert world.opened == 1, "each probe that failed was counted as an opening, and warned of"
    world.now += 15.0
    world.endpoint.error = None
    await world.judge.ask(Prompt("x"), Reply)
    assert world.breaker.state == "closed"
    await world.fail(3)
    assert world.opened == 2


async def test_while_one_probes_the_others_wait():
    world = World()
    await world.fail(3)
    world.now += 5.0

    assert world.breaker.admit()
    with pytest.raises(BreakerOpen):
        world.breaker.admit()
    world.breaker.abandon_probe()
    assert world.breaker.admit(), "a probe that was given up is made again"


async def test_paused_questions_are_asked_when_it_is_back():
    world = World()
    waiting = []

    async def sleep(seconds: float) -> None:
        world.now += seconds
        if world.now > 30:
            world.endpoint.error = None

    pausing = QueueWhileOpen(world.judge, world.breaker, sleep=sleep, clock=lambda: world.now, on_wait=waiting.append)
    await world.fail(3)
    verdict = await pausing.ask(Prompt("x"), Reply)

    assert verdict.model == "m"
    assert sum(waiting) == 0
    assert waiting.count(1) >= 2


@pytest.mark.parametrize("longest", [0.0, 20.0])
async def test_beyond_the_longest_pause_they_are_given_up_and_counted(longest):
    world = World()
    shed = []

    async def sleep(seconds: float) -> None:
        world.now += seconds

    pausing = QueueWhileOpen(
        world.judge,
        world.breaker,
        longest=longest,
        sleep=sleep,
        clock=lambda: world.now,
        on_shed=lambda: shed.append(1),
    )
    await world.fail(3)
    with pytest.raises(BreakerOpen, match="as it failed: down"):
        await pausing.ask(Prompt("x"), Reply)

    assert shed == [1]
    assert world.now <= longest + 0.01


async def test_one_failure_is_the_questions_own():
    world = World()
    world.endpoint.error = JudgeUnavailable("down")
    with pytest.raises(JudgeUnavailable):
        await QueueWhileOpen(world.judge, world.breaker).ask(Prompt("x"), Reply)


@pytest.mark.parametrize("error", [JudgeDenied("401", remedy="key"), NoCompletion("a page")])
async def test_denials_and_what_is_not_a_completion_open_it(error):
    world = World()
    world.endpoint.error = error
    for _ in range(3):
        with pytest.raises(type(error)):
            await world.judge.ask(Prompt("x"), Reply)
    assert world.breaker.state == "open"


@pytest.mark.parametrize("error", [JudgeDenied("403", remedy="key"), NoCompletion("blocked")])
async def test_a_question_that_fails_alone_among_answers_is_given_up_and_nothing_opens(error):
    world = World()

    async def sleep(_seconds: float) -> None:
        world.endpoint.error = None
        await world.judge.ask(Prompt("another"), Reply)
        world.endpoint.error = error

    await world.judge.ask(Prompt("another"), Reply)
    world.endpoint.error = error
    retrying = Retrying(world.judge, attempts=1000, denied=True, sleep=sleep)
    with pytest.raises(type(error)):
        await QueueWhileOpen(retrying, world.breaker).ask(Prompt("x"), Reply)

    assert world.endpoint.calls == 1 + 5 + 4
    assert world.opened == 0


async def test_before_the_first_answer_no_failure_is_the_questions_own():
    world = World()
    world.endpoint.error = NoCompletion("a page")
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(BreakerOpen):
        await Retrying(world.judge, attempts=1000, denied=True, sleep=sleep).ask(Prompt("x"), Reply)
    assert (world.opened, world.endpoint.calls, len(waits)) == (1, 3, 3)


async def test_a_judge_that_fails_nineteen_of_twenty_calls_is_an_outage():
    """It never fails so often in a row as opens the breaker, and burnt evaluations."""
    now, opened = [0.0], list[float]()
    breaker = CircuitBreaker(failures=20, first_wait=5.0, clock=lambda: now[0], on_open=lambda: opened.append(now[0]))
    for number in range(1, 200):
        if breaker.state == "open":
            break
        breaker.record_success(probe=False) if number % 19 == 0 else breaker.record_failure(probe=False)
    assert (breaker.state, number) == ("open", 81)
    breaker.record_success(probe=False)  # in flight when it opened
    assert breaker.state == "open"
    now[0] += 5.0
    assert breaker.admit()
    breaker.record_success(probe=True)
    assert breaker.state == "closed"
    for _ in range(60):  # half of the calls: it works badly, and works
        breaker.record_failure(probe=False)
        breaker.record_success(probe=False)
    assert breaker.state == "closed"
    assert opened == [0.0]


async def test_a_rate_limit_is_waited_for_like_an_outage_however_long():
    """A quota that is used up until midnight burns no question; each is tried again every five minutes at most."""
    world = World()
    limited = JudgeUnavailable("quota", retry_after=28_800.0, type="judge_rate_limited")
    world.endpoint.error = limited
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        world.now += seconds
        if world.now > 8 * 3600:
            world.endpoint.error = None

    retrying = Retrying(world.judge, sleep=sleep, clock=lambda: world.now)
    queueing = QueueWhileOpen(retrying, world.breaker, sleep=sleep, clock=lambda: world.now)
    assert (await queueing.ask(Prompt("x"), Reply)).model == "m"
    assert max(waits) <= 300.5
    assert world.breaker.state == "closed"


async def test_a_command_does_not_wait_for_a_rate_limit():
    world = World()
    world.endpoint.error = JudgeUnavailable("quota", type="judge_rate_limited")
    with pytest.raises(JudgeUnavailable, match="quota"):
        await QueueWhileOpen(world.judge, world.breaker, longest=0.0, clock=lambda: world.now).ask(Prompt("x"), Reply)


@pytest.mark.parametrize(("answered", "seconds"), [(False, 30.0), (True, 180.0)])
async def test_one_question_that_alone_is_asked_again_opens_it(answered, seconds):
    """Steps of `g_eval` come first: one question for all that wait, which makes few failures in a row."""
    world = World()
    world.breaker = CircuitBreaker(failures=20, patience=30.0, clock=lambda: world.now, on_open=world.open)
    world.judge = CircuitBreakerJudge(world.endpoint, world.breaker)
    if answered:
        await world.judge.ask(Prompt("x"), Reply)
    for moment in (0.0, 1.0, 4.0, 12.0, seconds - 1.0):
        world.now = moment
        await world.fail(1)
    assert world.breaker.state == "closed"
    world.now = seconds
    await world.fail(1)
    assert (world.breaker.state, world.opened) == ("open", 1)
