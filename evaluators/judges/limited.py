"""A bound on how much is asked of a judge at once."""

from __future__ import annotations

import asyncio

from evaluators.judge import Judge, Prompt, R, Verdict


class Limited:
    """A judge around a judge: at most `concurrency` questions are under way, the others wait their turn."""

    def __init__(self, judge: Judge, *, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self._judge = judge
        self._places = asyncio.Semaphore(concurrency)

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask when there is a free place."""
        async with self._places:
            return await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
