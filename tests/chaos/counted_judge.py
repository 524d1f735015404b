"""A stand-in judge that remembers who asked what, and what became of it."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass

from aiohttp import web
from faulty_judge import NO_FAULTS, Faults, FaultyJudge

_NUMBER = re.compile(rb"turn-(\d{6})-")


@dataclass(slots=True)
class Call:
    """A question about a turn. `failed` if it was answered with an error, or not at all: nobody paid for that."""

    number: int
    worker: str
    asked_at: float
    failed: bool = False


class CountedJudge(FaultyJudge):
    """Takes the worker's name for its API key."""

    def __init__(self, faults: Faults = NO_FAULTS) -> None:
        super().__init__(faults)
        self.asked: list[Call] = []

    async def _complete(self, request: web.Request) -> web.Response:
        found = _NUMBER.search(await request.read())
        if found is None:
            return await super()._complete(request)
        worker = request.headers.get("Authorization", "").removeprefix("Bearer ")
        call = Call(int(found[1]), worker, time.time(), failed=self.faults.hang)
        self.asked.append(call)
        answer = await super()._complete(request)
        garbage = self.faults.reply is not None and answer.text == self.faults.reply[1]
        call.failed = answer.status != 200 or garbage
        return answer

    def paid(self) -> Counter[int]:
        """How often each turn was judged: its calls that did not fail."""
        return Counter(call.number for call in self.asked if not call.failed)
