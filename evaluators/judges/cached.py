"""Identical questions answered once: the same instructions about the same material, put to the same judge."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import orjson

from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.outcome import Usage
from evaluators.schemas import schema_text


class Cached:
    """A judge around a judge that remembers its last `capacity` answers; what is remembered costs nothing.

    For traffic that repeats itself. Where a judge wavers, all who ask the same get what the first one got. `count` is
    told of each question whether it was a `hit` or a `miss`. Failures are not remembered.
    """

    def __init__(self, judge: Judge, *, capacity: int, count: Callable[[str], None] = lambda _result: None) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._judge = judge
        self._capacity = capacity
        self._count = count
        self._kept: OrderedDict[bytes, Verdict[Any]] = OrderedDict()

    @property
    def uncached(self) -> Judge:
        """The judge behind, for those who need a fresh answer."""
        return self._judge

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Answer from memory, else ask."""
        key = _key(prompt, reply, logprobs=logprobs, samples=samples)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            self._count("hit")
            return kept
        self._count("miss")
        verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self._kept[key] = Verdict(verdict.answers, verdict.model, verdict.fingerprint, Usage(), None)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return verdict


def _key(prompt: Prompt, reply: type[R], *, logprobs: bool, samples: int) -> bytes:
    """A hash over all that the answer depends on. The evaluator's version is in it by its instructions."""
    parts = [
        prompt.instructions, prompt.material, prompt.temperature, prompt.max_tokens, schema_text(reply), logprobs,
        samples,
    ]  # fmt: skip
    return hashlib.sha256(orjson.dumps(parts, default=str, option=orjson.OPT_SORT_KEYS)).digest()
