import math

import pytest

from evaluators.errors import JudgeDenied, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable
from evaluators.judge import Prompt
from evaluators.judges.retrying import Retrying
from evaluators.results import Usage
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge

REPLY = Scale(0, 10).reply
PROMPT = Prompt("Judge.", {"a": "b"})
GOOD = {"reason": "so", "score": 5}


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def retrying(script, time, **options):
    options = {"uniform": lambda low, high: high} | options
    return Retrying(ScriptedJudge(script), sleep=time.sleep, clock=lambda: time.now, **options)


async def test_waits_double_up_to_the_cap():
    time = Time()
    judge = retrying([JudgeUnavailable("down")] * 5 + [GOOD], time, attempts=6, first_wait=1, longest_wait=5)
    assert (await judge.ask(PROMPT, REPLY)).reply.score == 5
    assert time.slept == [1, 2, 4, 5, 5]


async def test_jitter_starts_at_zero():
    time = Time()
    judge = retrying([JudgeUnavailable("down"), GOOD], time, uniform=lambda low, high: low)
    await judge.ask(PROMPT, REPLY)
    assert time.slept == [0]


async def test_the_judges_own_wait_is_obeyed():
    time = Time()
    judge = retrying([JudgeUnavailable("slow down", retry_after=30), GOOD], time, first_wait=1)
    await judge.ask(PROMPT, REPLY)
    assert time.slept == [31]


async def test_a_wait_beyond_the_deadline_is_not_begun():
    time = Time()
    judge = retrying([JudgeUnavailable("slow down", retry_after=3600), GOOD], time, deadline=60)
    with pytest.raises(JudgeUnavailable):
        await judge.ask(PROMPT, REPLY)
    assert time.slept == []


async def test_attempts_end():
    time = Time()
    judge = retrying([JudgeUnavailable("down")] * 3, time, attempts=3)
    with pytest.raises(JudgeUnavailable):
        await judge.ask(PROMPT, REPLY)
    assert len(time.slept) == 2


@pytest.mark.parametrize(
    "error", [JudgeRejected("too long"), JudgeDenied("wrong key", remedy="key"), JudgeReplyInvalid("prose")]
)
async def test_nothing_else_is_tried_again(error):
    time = Time()
    with pytest.raises(type(error)):
        await retrying([error, GOOD], time).ask(PROMPT, REPLY)
    assert time.slept == []


async def test_attempts_without_end_stay_finite_numbers():
    time = Time()
    judge = retrying([JudgeUnavailable("down")] * 2000 + [GOOD], time, attempts=10**6, deadline=math.inf)
    await judge.ask(PROMPT, REPLY)
    assert max(time.slept) == 20


async def test_failed_attempts_stay_on_the_bill():
    failed = JudgeUnavailable("late", type="judge_timeout")
    failed.usage, failed.cost_usd = Usage(input_tokens=7, calls=1), 0.5
    inner = ScriptedJudge([failed, GOOD], cost_usd=0.25)
    time = Time()
    verdict = await Retrying(inner, sleep=time.sleep, clock=lambda: time.now).ask(PROMPT, REPLY)
    assert (verdict.usage.input_tokens, verdict.usage.calls, verdict.cost_usd) == (107, 2, 0.75)
