"""Judges the golden set on its schedule, and at once when an evaluator's version or its judge's model is new.

What was found is kept beside the evaluation steps in the definitions log, so that a restart judges nothing again: a run
under evaluator, version, model and the number of its period, references under evaluator and case.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from collector.evaluate.dispatch import utc_now
from collector.evaluate.plan import Assignment
from collector.golden.cases import GoldenCase
from collector.golden.shift import Shift, shift
from collector.telemetry import GOLDEN_CASES, GOLDEN_LAST_RUN, GOLDEN_SHIFT, GOLDEN_SHIFT_STDERR, Telemetry
from evaluators.outcome import Score
from evaluators.run import run

logger = logging.getLogger(__name__)

LOOK_EVERY = 60.0
"""Seconds between two looks whether a run is due."""
CONCURRENCY = 4
"""Cases judged at once: the traffic goes first."""


class Kept(Protocol):
    """Texts kept for good by key; the first one wins."""

    async def load(self, key: str) -> str | None:
        """The text of a key."""
        ...

    async def save(self, key: str, text: str) -> str:
        """Keep a text; returns the one that was first."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """An evaluator whose judge is looked after. `judge` is the judge's name in the configuration."""

    assignment: Assignment
    judge: str

    @property
    def key(self) -> str:
        """Evaluator, version and model: what a run belongs to."""
        return f"{self.assignment.evaluator.name}/{self.assignment.version}/{self.assignment.judge.model}"


class GoldenRuns:
    """The runs of all evaluators that have a judge. `every` in seconds; a shift of `borne` counts for nothing."""

    def __init__(
        self,
        cases: Sequence[GoldenCase],
        judged: Sequence[Judged],
        kept: Kept,
        telemetry: Telemetry,
        *,
        every: float,
        borne: float,
        clock: Callable[[], float] = time.time,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._cases = cases
        self._judged = judged
        self._kept = kept
        self._telemetry = telemetry
        self._every = every
        self._borne = borne
        self._clock = clock
        self._now = now
        self._done: dict[str, int] = {}
        self._shifts: dict[str, Shift] = {}

    def moved(self, evaluator: str) -> bool:
        """Whether the judge of an evaluator has moved, by its newest run."""
        found = self._shifts.get(evaluator)
        return found is not None and found.moved(self._borne)

    async def run_forever(self) -> None:
        """Judge whenever a run is due."""
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_EVERY, self._every))

    async def look(self) -> None:
        """Make the runs that are due."""
        for each in self._judged:
            period = int(self._clock() // self._every)
            if self._done.get(each.key) != period:
                await self._catch_up(each, period)

    async def _catch_up(self, judged: Judged, period: int) -> None:
        """Take the period's run if somebody made it, else make it; what cannot be made is tried at the next look."""
        key = f"golden.run/{judged.key}/{period}"
        text = await self._kept.load(key)
        if text is None:
            scores = await self._scores(judged)
            if scores is None:
                return
            record = orjson.dumps({"at": self._clock(), "scores": scores}).decode()
            text = await self._kept.save(key, record)
        found: Any = orjson.loads(text)
        await self._publish(judged, found["scores"], found["at"])
        self._done[judged.key] = period

    async def _scores(self, judged: Judged) -> dict[str, float | None] | None:
        """The score of every case by its id, None for a case without one; None if fewer than half have one."""
        places = asyncio.Semaphore(CONCURRENCY)
        evaluator = judged.assignment.evaluator

        async def score(case: GoldenCase) -> tuple[str, float | None]:
            async with places:
                result = await run(evaluator, case.case, judged.assignment.judge, now=self._now)
            return case.case_id, result.outcome.value if isinstance(result.outcome, Score) else None

        wanted = [case for case in self._cases if case.scope == evaluator.scope]
        scores = dict(await asyncio.gather(*map(score, wanted)))
        if sum(each is not None for each in scores.values()) * 2 < len(scores):
            logger.warning("golden set: %s could not score most of its cases; trying again", evaluator.name)
            return None
        return scores

    async def _publish(self, judged: Judged, scores: Mapping[str, float | None], at: float) -> None:
        evaluator, version = judged.assignment.evaluator.name, judged.assignment.version
        labels = (evaluator, version, judged.judge)
        scored = sum(each is not None for each in scores.values())
        self._telemetry.gauge(GOLDEN_CASES, *labels, "scored").set(scored)
        self._telemetry.gauge(GOLDEN_CASES, *labels, "unscored").set(len(scores) - scored)
        self._telemetry.gauge(GOLDEN_LAST_RUN, *labels).set(at)
        found = shift(scores, await self._references(evaluator, scores))
        if found is None:
            return
        self._shifts[evaluator] = found
        self._telemetry.gauge(GOLDEN_SHIFT, *labels).set(found.mean)
        self._telemetry.gauge(GOLDEN_SHIFT_STDERR, *labels).set(found.stderr)

    async def _references(self, evaluator: str, scores: Mapping[str, float | None]) -> dict[str, float]:
        references: dict[str, float] = {}
        for case in self._cases:
            score = scores.get(case.case_id)
            if evaluator in case.scores:
                references[case.case_id] = case.scores[evaluator]
            elif score is not None:
                key = f"golden.reference/{evaluator}/{case.case_id}"
                kept = await self._kept.load(key)
                references[case.case_id] = float(kept if kept is not None else await self._kept.save(key, repr(score)))
        return references
