"""A limit on concurrent questions to a judge."""

import asyncio

from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper


class Limited(JudgeWrapper):
    """A judge with at most `concurrency` questions in flight; the others wait their turn."""

    def __init__(self, judge: Judge, *, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        super().__init__(judge)
        self._concurrency = concurrency
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(concurrency)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask when a slot is free."""
        if self._loop is not (loop := asyncio.get_running_loop()):  # a semaphore belongs to one loop for good
            self._loop, self._slots = loop, asyncio.Semaphore(self._concurrency)
        async with self._slots:
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
