"""Requests to a judge that go out only while this process certainly owns what it evaluates."""

from __future__ import annotations

from collector.logs.log import Confirm
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper


class ConfirmedJudge(JudgeWrapper):
    """A judge that is asked after `confirm`.

    It is near the request, behind what a question may wait for: while the process stood still in such a wait, another
    one may have asked the same.
    """

    def __init__(self, judge: Judge, confirm: Confirm) -> None:
        super().__init__(judge)
        self._confirm = confirm

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait, and ask."""
        await self._confirm()
        return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
