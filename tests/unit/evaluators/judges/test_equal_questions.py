"""The answer cache, where equal questions come at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from evaluators import Composite, GEval, evaluate
from evaluators.errors import JudgeUnavailable
from evaluators.judge import Prompt
from evaluators.judges.answer_cache import AnswerCache
from evaluators.results import Failure, Score
from evaluators.testing import ScriptedJudge, a_turn, answer_any_form

HELPFUL = GEval(name="helpful", evaluation_steps=("x",), evaluation_params=("input", "actual_output"), threshold=0.5)
BOTH = Composite(name="both", of=(HELPFUL,), combine="weighted")


class SlowJudge:
    """Answers when told; counts who asks."""

    model = "slow"

    def __init__(self, *, fails: bool = False) -> None:
        self.go = asyncio.Event()
        self.asked = 0
        self._fails = fails
        self._inner = ScriptedJudge(answer_any_form(), cost_usd=0.01)

    async def ask(self, prompt: Prompt, reply: Any, **how: Any) -> Any:
        self.asked += 1
        await self.go.wait()
        if self._fails:
            raise JudgeUnavailable("not there")
        return await self._inner.ask(prompt, reply, **how)


async def both(slow: SlowJudge, judge: Any) -> tuple[Any, Any]:
    running = [asyncio.create_task(evaluate(each, a_turn(), judge)) for each in (BOTH, HELPFUL)]
    for _ in range(20):
        await asyncio.sleep(0)
    slow.go.set()
    return tuple(await asyncio.wait_for(asyncio.gather(*running), 30))


async def test_a_composite_and_its_member_ask_once() -> None:
    slow = SlowJudge()
    composite, member = await both(slow, AnswerCache(slow, capacity=10))
    assert slow.asked == 1
    assert isinstance(composite.outcome, Score)
    assert isinstance(member.outcome, Score)
    assert composite.outcome.value == member.outcome.value
    assert (composite.cost_usd or 0.0) + (member.cost_usd or 0.0) == 0.01


async def test_without_a_cache_they_ask_twice() -> None:
    slow = SlowJudge()
    await both(slow, slow)
    assert slow.asked == 2


async def test_where_the_first_fails_or_is_cancelled_the_others_ask() -> None:
    slow = SlowJudge(fails=True)
    results = await both(slow, AnswerCache(slow, capacity=10))
    assert [type(each.outcome) for each in results] == [Failure, Failure]
    assert slow.asked == 2
    slow = SlowJudge()
    cache = AnswerCache(slow, capacity=10)
    first, second = (asyncio.create_task(evaluate(HELPFUL, a_turn(), cache)) for _ in range(2))
    for _ in range(20):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    slow.go.set()
    assert isinstance((await asyncio.wait_for(second, 30)).outcome, Score)
    assert slow.asked == 2
