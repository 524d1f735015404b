"""A cache of answers to constant questions: the evaluation steps of a definition are generated once."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Protocol

import orjson

from evaluators.answers.reply_parser import parse_reply
from evaluators.answers.schemas import schema_text
from evaluators.errors import JudgeError, JudgeReplyInvalid
from evaluators.judge import Answer, Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.results import Usage


class AnswerStore(Protocol):
    """A store in which answers outlive the process. Processes that share a store agree: the first saved answer wins."""

    async def load(self, key: str) -> str | None:
        """The answer's text, None if there is none yet."""
        ...

    async def save(self, key: str, text: str) -> str:
        """Save an answer's text; returns the text that was saved first, which may be another process's."""
        ...


class DefinitionCache(JudgeWrapper):
    """A judge whose answers to constant prompts, those without material, are cached.

    Concurrent equal questions are asked once. Failures are not cached: the next question is asked. At most `capacity`
    answers are in memory; the least recently used leave first. With a `store` an answer is looked up there first, and
    saved there afterwards. The question that was asked has the usage; for the others it is zero.
    """

    def __init__(self, judge: Judge, *, store: AnswerStore | None = None, capacity: int = 1000) -> None:
        super().__init__(judge)
        self._store = store
        self._capacity = capacity
        self._verdicts: OrderedDict[str, Verdict[Any]] = OrderedDict()
        self._pending: dict[str, asyncio.Task[Verdict[Any]]] = {}

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer from the cache if the prompt is constant and one plain answer is required; else ask."""
        if not prompt.constant or logprobs or samples != 1:
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        key = _key(self.model, prompt, reply)
        if (cached := self._verdicts.get(key)) is not None:
            self._verdicts.move_to_end(key)
            return cached
        task = self._pending.get(key)
        if task is not None:
            return await _follow(task)
        task = asyncio.create_task(self._look_up(key, prompt, reply), name=f"definition {key}")
        self._pending[key] = task
        task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)  # the answer that others wait for survives this call's cancellation

    def _done(self, key: str, task: asyncio.Task[Verdict[Any]]) -> None:
        del self._pending[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._verdicts[key] = _without_bill(task.result())
        while len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)

    async def _look_up(self, key: str, prompt: Prompt, reply: type[R]) -> Verdict[R]:
        if self._store is None:
            return await self.inner.ask(prompt, reply)
        text = await self._store.load(key)
        if text is not None and (loaded := self._readable(text, reply)) is not None:
            return loaded
        verdict = await self.inner.ask(prompt, reply)
        first = self._readable(await self._store.save(key, verdict.answers[0].text), reply)
        return verdict if first is None else replace(verdict, answers=first.answers)

    def _readable(self, text: str, reply: type[R]) -> Verdict[R] | None:
        """A stored text as a verdict; None if a change of the parsing rules has made it unreadable."""
        try:
            return Verdict([Answer(parse_reply(text, reply), text)], self.model)
        except JudgeReplyInvalid:
            return None

    async def aclose(self) -> None:
        """Cancel the questions that are still pending."""
        for task in list(self._pending.values()):
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)


def _key(model: str, prompt: Prompt, reply: type[R]) -> str:
    """The key of a question, 32 hex digits: model, instructions, their settings, and the form of the answer."""
    parts = [model, prompt.instructions, prompt.temperature, prompt.max_tokens, schema_text(reply)]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


async def _follow(task: asyncio.Task[Verdict[Any]]) -> Verdict[Any]:
    """The answer to another caller's question, without its bill."""
    try:
        return _without_bill(await asyncio.shield(task))
    except JudgeError as error:
        raise error.with_bill(Usage(), None) from None


def _without_bill(verdict: Verdict[R]) -> Verdict[R]:
    return Verdict(verdict.answers, verdict.model, verdict.fingerprint, Usage(), None)
