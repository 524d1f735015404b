"""Questions about one subject: the first goes ahead, so that the others find the subject in the provider's cache."""

import asyncio

from evaluators.asking.prompt_isolation import subject_text
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper


class SharedPrefix(JudgeWrapper):
    """A judge whose questions about one subject wait until the first of them is answered, at most `longest` seconds.

    A provider caches a prompt when it has answered it, so questions that are asked at the same time would miss the
    cache. After the first question, even if it failed, the others are asked concurrently. Packs and questions without a
    subject do not wait.
    """

    def __init__(self, judge: Judge, *, longest: float) -> None:
        super().__init__(judge)
        self._longest = longest
        self._first: dict[str, asyncio.Future[None]] = {}

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait for the first question about the subject, unless this is the first."""
        if prompt.constant or prompt.answers > 1:
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        subject = subject_text(prompt.material)
        first = self._first.get(subject)
        if first is not None and first.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([first], timeout=self._longest)
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self._first[subject] = mine = asyncio.get_running_loop().create_future()
        try:
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        finally:
            mine.set_result(None)
            if self._first.get(subject) is mine:
                del self._first[subject]
