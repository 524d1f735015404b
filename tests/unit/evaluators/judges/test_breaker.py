"""A judge's endpoint that is out is left alone; its questions wait or are given up, and every one is counted."""

from __future__ import annotations

import contextlib

import pytest
from pydantic import BaseModel

from evaluators.errors import JudgeRejected, JudgeUnavailable
from evaluators.judge import Answer, Prompt, Verdict
from evaluators.judges.breaker import Breaker, BreakerOpen, Breaking, Pausing


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
        self.breaker = Breaker(
            failures=3, first_wait=5.0, longest_wait=15.0, clock=lambda: self.now, on_open=self.open, **breaker
        )
        self.judge = Breaking(self.endpoint, self.breaker)

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
    world.now += 15.0
    world.endpoint.error = None
    await world.judge.ask(Prompt("x"), Reply)
    assert world.breaker.state == "closed"


async def test_while_one_probes_the_others_wait():
    world = World()
    await world.fail(3)
    world.now += 5.0

    assert world.breaker.enter()
    with pytest.raises(BreakerOpen):
        world.breaker.enter()
    world.breaker.left()
    assert world.breaker.enter(), "a probe that was given up is made again"


async def test_paused_questions_are_asked_when_it_is_back():
    world = World()
    waiting = []

    async def sleep(seconds: float) -> None:
        world.now += seconds
        if world.now > 30:
            world.endpoint.error = None

    pausing = Pausing(world.judge, world.breaker, sleep=sleep, clock=lambda: world.now, on_wait=waiting.append)
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

    pausing = Pausing(
        world.judge,
        world.breaker,
        longest=longest,
        sleep=sleep,
        clock=lambda: world.now,
        on_shed=lambda: shed.append(1),
    )
    await world.fail(3)
    with pytest.raises(BreakerOpen):
        await pausing.ask(Prompt("x"), Reply)

    assert shed == [1]
    assert world.now <= longest + 0.01


async def test_one_failure_is_the_questions_own():
    world = World()
    world.endpoint.error = JudgeUnavailable("down")
    with pytest.raises(JudgeUnavailable):
        await Pausing(world.judge, world.breaker).ask(Prompt("x"), Reply)
