"""Answers to constant questions, asked once and kept: a definition's evaluation steps are generated once, for good."""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections import OrderedDict
from typing import Any, Protocol

import orjson

from evaluators.errors import JudgeError, JudgeReplyInvalid
from evaluators.judge import Answer, Judge, Prompt, R, Verdict
from evaluators.outcome import Usage
from evaluators.reading import read
from evaluators.schemas import schema_text


class AnswerStore(Protocol):
    """Where answers outlive the process. Processes that share one agree on them: the first to be saved wins."""

    async def load(self, key: str) -> str | None:
        """The answer's text, None if there is none yet."""
        ...

    async def save(self, key: str, text: str) -> str:
        """Keep an answer's text; returns the text that was kept first, which may be another's."""
        ...


class Remembered:
    """A judge around a judge that keeps the answers to constant prompts, those without material.

    Many who ask the same at the same time cause one question. A failure is not kept: the next to ask tries again. At
    most `capacity` answers are held in memory, the least recently used leave first. With a `store` an answer is looked
    up there before it is asked for, and saved there after. The bill goes to the one who caused the question; for the
    others usage is zero.
    """

    def __init__(self, judge: Judge, *, store: AnswerStore | None = None, capacity: int = 1000) -> None:
        self._judge = judge
        self._store = store
        self._capacity = capacity
        self._kept: OrderedDict[str, Verdict[Any]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Verdict[Any]]] = {}

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer from memory where the prompt is constant and one plain answer is wanted; else ask."""
        if not prompt.constant or logprobs or samples != 1:
            return await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        key = _key(self.model, prompt, reply)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        task = self._asking.get(key)
        if task is not None:
            return await _follow(task)
        task = asyncio.create_task(self._find_out(key, prompt, reply), name=f"remember {key}")
        self._asking[key] = task
        task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)  # the others' answer survives this asker's cancellation

    def _done(self, key: str, task: asyncio.Task[Verdict[Any]]) -> None:
        del self._asking[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._kept[key] = _for_free(task.result())
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)

    async def _find_out(self, key: str, prompt: Prompt, reply: type[R]) -> Verdict[R]:
        if self._store is None:
            return await self._judge.ask(prompt, reply)
        text = await self._store.load(key)
        if text is not None and (loaded := self._readable(text, reply)) is not None:
            return loaded
        verdict = await self._judge.ask(prompt, reply)
        won = await self._store.save(key, verdict.answers[0].text)
        first = self._readable(won, reply)
        return verdict if first is None else _billed(first, verdict)

    def _readable(self, text: str, reply: type[R]) -> Verdict[R] | None:
        """A kept text as a verdict; None if a change of the reading rules has made it unreadable."""
        try:
            return Verdict([Answer(read(text, reply), text)], self.model)
        except JudgeReplyInvalid:
            return None

    async def aclose(self) -> None:
        """Give up questions that nobody waits for any more."""
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)


def _key(model: str, prompt: Prompt, reply: type[R]) -> str:
    """32 hex digits that stand for the question: who is asked, what, and in which form the answer comes."""
    parts = [model, prompt.instructions, prompt.temperature, prompt.max_tokens, schema_text(reply)]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


async def _follow(task: asyncio.Task[Verdict[Any]]) -> Verdict[Any]:
    """What another's question brings, without its bill."""
    try:
        return _for_free(await asyncio.shield(task))
    except JudgeError as error:
        own = copy.copy(error)
        own.usage, own.cost_usd = Usage(), None
        raise own from None


def _for_free(verdict: Verdict[R]) -> Verdict[R]:
    return Verdict(verdict.answers, verdict.model, verdict.fingerprint, Usage(), None)


def _billed(verdict: Verdict[R], paid: Verdict[R]) -> Verdict[R]:
    return Verdict(verdict.answers, paid.model, paid.fingerprint, paid.usage, paid.cost_usd)
