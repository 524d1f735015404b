"""Measures what goes through a port: requests to a judge, and how far behind the readers of the logs are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from collector.logs.around import FoldAround
from collector.logs.log import Committed, Fold, Log, LogUnavailable, OpenFold, Stored
from collector.telemetry import (
    JUDGE_IN_FLIGHT,
    JUDGE_REQUEST_DURATION,
    JUDGE_REQUESTS,
    STAGE_AGE,
    STAGE_BACKLOG,
    Telemetry,
)
from evaluators.errors import EvaluationError
from evaluators.judge import Judge, Prompt, R, Verdict

LOOK_EVERY = 5.0
"""Seconds between two looks at how far behind the readers are."""


class MeasuredJudge:
    """A judge whose requests are counted and timed under its name in the configuration."""

    def __init__(self, judge: Judge, name: str, telemetry: Telemetry) -> None:
        self._judge = judge
        self._name = name
        self._telemetry = telemetry
        self._in_flight = telemetry.gauge(JUDGE_IN_FLIGHT, name)
        self._duration = telemetry.histogram(JUDGE_REQUEST_DURATION, name)
        telemetry.counter(JUDGE_REQUESTS, name, "ok")

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, and count what came of it."""
        began = time.monotonic()
        self._in_flight.inc()
        try:
            verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except EvaluationError as error:
            self._ended(error.type, began)
            raise
        finally:
            self._in_flight.dec()
        self._ended("ok", began)
        return verdict

    def _ended(self, result: str, began: float) -> None:
        self._telemetry.counter(JUDGE_REQUESTS, self._name, result).inc()
        self._duration.observe(time.monotonic() - began)


@dataclass(slots=True)
class _Place:
    """Where a reader is in a partition: behind `position`, whose record was of `timestamp` (s since the epoch)."""

    position: int
    timestamp: float


class Backlog:
    """How far the readers of the logs are behind, in this process."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.time) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._readers: dict[tuple[str, str], tuple[Log, dict[int, _Place]]] = {}

    def measured(self, reader: str, log: Log, open_fold: OpenFold) -> OpenFold:
        """The same folds, with a note of how far each has come. `reader` is what they are called in the metrics."""
        places: dict[int, _Place] = {}
        self._readers[reader, log.name] = (log, places)
        self._telemetry.gauge(STAGE_BACKLOG, reader, log.name).set(0)
        self._telemetry.gauge(STAGE_AGE, reader, log.name).set(0)

        @asynccontextmanager
        async def opened(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            async with open_fold(partition, committed) as fold:
                if committed is not None:
                    places[partition] = _Place(committed.position, self._clock())
                try:
                    yield _Measured(fold, partition, places)
                finally:
                    places.pop(partition, None)

        return opened

    async def look_forever(self) -> None:
        """Keep the gauges up."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Measure once. A log that cannot be reached keeps its last figures."""
        for (reader, name), (log, places) in list(self._readers.items()):  # some may come meanwhile
            records, age = 0, 0.0
            for partition, place in list(places.items()):
                try:
                    behind = max(0, await log.end(partition) - place.position)
                except LogUnavailable:
                    break
                records += behind
                age = max(age, self._clock() - place.timestamp if behind else 0.0)
            else:
                self._telemetry.gauge(STAGE_BACKLOG, reader, name).set(records)
                self._telemetry.gauge(STAGE_AGE, reader, name).set(max(0.0, age))


class _Measured(FoldAround):
    """A fold whose progress is noted."""

    def __init__(self, fold: Fold, partition: int, places: dict[int, _Place]) -> None:
        super().__init__(fold)
        self._partition = partition
        self._places = places

    @property
    def takes_unreadable(self) -> bool:
        return getattr(self._fold, "takes_unreadable", False)

    async def deliver(self, records: Sequence[Stored]) -> None:
        await super().deliver(records)
        if records:
            self._places[self._partition] = _Place(records[-1].position + 1, records[-1].timestamp)
