"""What is told of a judge that does not answer: soon, rarely, and nothing of what is judged."""

from __future__ import annotations

import pytest

from collector.config.settings import JudgeSettings
from collector.judge_notices import Manner, Noticing
from evaluators.errors import JudgeError, JudgeReplyInvalid, JudgeUnavailable, JudgeUnreachable
from evaluators.judge import Prompt
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge

REPLY = Scale(0, 10).reply
PROMPT = Prompt("Judge.", {"a": "what the user said"})
GOOD = {"reason": "so", "score": 5}
REFUSED = JudgeUnreachable("no connection to the judge: connection refused")
DOWN = JudgeUnavailable("the judge answered HTTP 503")
SETTINGS = JudgeSettings(model="m", base_url="http://judge.example/v1?key=secret", deadline=300.0)
TROUBLE = (
    "judge main at http://judge.example/v1 does not answer (the judge answered HTTP 503); questions are asked again"
)


class Told:
    """A judge by a script, whose every question takes no time unless the test says so."""

    def __init__(self, *script, awaited=True):
        self.notices = []
        self.now = 0.0
        manner = Manner(self.notices.append, again_after=60.0, awaited=awaited)
        self.judge = Noticing(ScriptedJudge(script), "main", SETTINGS, manner, lambda: self.now)

    async def ask(self, after=0.0):
        self.now += after
        try:
            await self.judge.ask(PROMPT, REPLY)
        except JudgeError as error:
            return error
        return None


async def test_what_passes_within_a_second_is_not_told():
    told = Told(DOWN, DOWN, GOOD, DOWN)
    for _ in range(4):
        await told.ask(after=0.4)
    assert told.notices == []


async def test_what_lasts_is_told_once_and_then_rarely_and_so_is_its_end():
    told = Told(*[DOWN] * 70, GOOD, GOOD)
    for _ in range(72):
        await told.ask(after=1.0)
    assert told.notices == [f"{TROUBLE} for up to 300 s"] * 2 + ["judge main answers now"]


async def test_a_long_wait_that_the_judge_asks_for_is_told_at_once():
    told = Told(JudgeUnavailable("the judge answered HTTP 429", retry_after=30.0))
    await told.ask()
    assert len(told.notices) == 1


@pytest.mark.parametrize("answer", [GOOD, JudgeReplyInvalid("the answer holds no JSON object")])
async def test_nobody_where_somebody_was_is_asked_again(answer):
    told = Told(answer, REFUSED)
    await told.ask()
    assert await told.ask() is REFUSED


async def test_nobody_where_nobody_ever_was_is_not_asked_again():
    told = Told(REFUSED, REFUSED)
    for _ in range(2):
        error = await told.ask()
        assert error is not None
        assert not isinstance(error, JudgeUnavailable)
        assert error.type == "judge_unavailable"
    [notice] = told.notices
    assert notice == (
        "judge main at http://judge.example/v1 has never answered (no connection to the judge: connection refused), "
        "so its evaluations fail at once; start it, or mend judges.main.base_url"
    )


async def test_the_service_waits_for_a_judge_that_is_not_there_yet():
    told = Told(REFUSED, REFUSED, awaited=False)
    assert await told.ask() is REFUSED
    assert await told.ask(after=1.0) is REFUSED
    assert told.notices == [TROUBLE.replace("the judge answered HTTP 503", str(REFUSED))]


async def test_a_judge_that_says_nothing_at_all_is_told_of_before_its_deadline(monkeypatch):
    monkeypatch.setattr("collector.judge_notices.SILENCE", 0.0)
    told = Told()

    async def says_nothing(*_args, **_kwargs):
        import asyncio

        for _ in range(3):
            await asyncio.sleep(0)
        raise DOWN

    told.judge._judge.ask = says_nothing
    assert await told.ask() is DOWN
    [notice] = told.notices
    assert notice.endswith("has not answered yet after 0 s; a request may take 60 s (judges.main.timeout)")
