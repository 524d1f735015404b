import asyncio

import pytest

from evaluators.judge import Prompt
from evaluators.judges.limited import Limited
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge

REPLY = Scale(0, 10).reply


class Slow(ScriptedJudge):
    """Answers when told to, and counts how many wait for it."""

    under_way = 0
    most = 0

    async def ask(self, prompt, reply, **options):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().ask(prompt, reply, **options)


async def test_no_more_than_the_limit_at_once():
    slow = Slow({"reason": "so", "score": 5})
    judge = Limited(slow, concurrency=3)
    await asyncio.gather(*(judge.ask(Prompt("Judge.", {"n": n}), REPLY) for n in range(20)))
    assert slow.most == 3
    assert len(slow.questions) == 20


def test_a_limit_is_at_least_one():
    with pytest.raises(ValueError):
        Limited(ScriptedJudge(""), concurrency=0)
