"""Questions to judges beside the traffic: the targets, a few cases at a time, and alerts that wait for an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from collector.evaluate.plan import Assignment
from collector.golden.cases import GoldenCase
from evaluators.evaluation import Result
from evaluators.results import Score

CONCURRENCY = 4
"""Cases evaluated at once: few, since traffic has priority."""
ANSWERED_WITHIN = 30.0
"""Seconds for which an alert waits for the run that it asked for."""


@dataclass(frozen=True, slots=True)
class GoldenTarget:
    """An evaluator whose judge is checked. `judge` is the judge's name in the configuration, `monitor` who pays."""

    assignment: Assignment
    judge: str
    monitor: str = ""

    @property
    def key(self) -> str:
        """Evaluator, version and model: what a run belongs to."""
        return f"{self.assignment.evaluator.name}/{self.assignment.version}/{self.assignment.judge.model}"

    @property
    def definition(self) -> tuple[str, str]:
        """Evaluator and version."""
        return self.assignment.evaluator.name, self.assignment.version


R = TypeVar("R", bound=Result | None)


async def results_of(cases: Iterable[GoldenCase], ask: Callable[[GoldenCase], Awaitable[R]]) -> dict[str, R]:
    """The result of every case by its id."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def score(case: GoldenCase) -> tuple[str, R]:
        async with slots:
            return case.case_id, await ask(case)

    return dict(await asyncio.gather(*map(score, cases)))


def score_of(result: Result | None) -> float | None:
    """Its score, if it has one."""
    return result.outcome.value if result is not None and isinstance(result.outcome, Score) else None


class Requests:
    """Requests for work of a task that otherwise runs by the clock."""

    def __init__(self) -> None:
        self._request, self._answer = asyncio.Event(), asyncio.Event()
        self._answer.set()

    def ask(self) -> None:
        """Have the work done at once."""
        self._answer.clear()
        self._request.set()

    async def wait_for_answer(self) -> bool:
        """Wait a little until it is done; whether it was asked for, and not done before."""
        if self._answer.is_set():
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._answer.wait(), ANSWERED_WITHIN)
        return True

    async def serve(self, work: Callable[[], Awaitable[None]], every: float) -> None:
        """Do the work every so many seconds, and when it is asked for."""
        while True:
            self._request.clear()
            await work()
            if not self._request.is_set():
                self._answer.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._request.wait(), every)
