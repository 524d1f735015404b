"""A cache of answers to identical questions: same instructions, same material, same judge."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import orjson

from evaluators.answers.schemas import schema_text
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.packs.packed_prompt import PackPrompt, PackReply
from evaluators.results import Usage


class AnswerCache(JudgeWrapper):
    """A judge whose last `capacity` answers are cached; a cached answer costs nothing.

    It is for repetitive traffic, and for a composite beside its members. Equal questions get the first answer, even if
    the judge would waver. `count` is called with `hit` or `miss` for each question. Failures are not cached.
    """

    def __init__(self, judge: Judge, *, capacity: int, count: Callable[[str], None] = lambda _result: None) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        super().__init__(judge)
        self._capacity = capacity
        self._count = count
        self._verdicts: OrderedDict[bytes, Verdict[Any]] = OrderedDict()
        self._running: dict[bytes, asyncio.Event] = {}

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer from the cache, else ask. An equal question that comes meanwhile waits for the same answer."""
        key = _key(prompt, reply, logprobs=logprobs, samples=samples)
        if (running := self._running.get(key)) is not None:
            await running.wait()  # once: if that question fails, all that waited ask side by side
        cached = self._verdicts.get(key)
        if cached is not None:
            self._verdicts.move_to_end(key)
            self._count("hit")
            return cached
        self._count("miss")
        ended = self._running.setdefault(key, asyncio.Event())
        try:
            verdict = await self._ask(key, prompt, reply, logprobs=logprobs, samples=samples)
        finally:
            ended.set()
            if self._running.get(key) is ended:
                del self._running[key]
        return verdict

    async def _ask(self, key: bytes, prompt: Prompt, reply: type[R], *, logprobs: bool, samples: int) -> Verdict[R]:
        """Ask, and cache the answer."""
        verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        if isinstance(verdict.reply, PackReply) and not verdict.reply.complete:
            return verdict  # a question that failed is asked again
        self._verdicts[key] = Verdict(verdict.answers, verdict.model, verdict.fingerprint, Usage(), None)
        if len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)
        return verdict


def _key(prompt: Prompt, reply: type[R], *, logprobs: bool, samples: int) -> bytes:
    """A hash over everything that the answer depends on. The instructions stand for the evaluator's version."""
    parts = [
        prompt.instructions, prompt.material, prompt.temperature, prompt.max_tokens, schema_text(reply), logprobs,
        samples, [attachment.sha256 or attachment.url for attachment in prompt.media],
    ]  # fmt: skip
    if isinstance(prompt, PackPrompt):
        # They say which question each field of the material is for, and tell apart packs with the same instructions.
        parts += [prompt.reminder, [schema_text(question.reply) for question in prompt.questions]]
    return hashlib.sha256(orjson.dumps(parts, default=str, option=orjson.OPT_SORT_KEYS)).digest()
