"""Keeps the agreement of judges with people as metrics, from the log of labels.

It must see all labels, so one process runs it: that of the `watch` stage. At a start it reads the log, later what has
come since, once a minute. Only what has new labels is computed again, in a thread, from the newest labels and with
fewer draws than `evalstream calibrate` makes: at most about a second a minute for each evaluator that is labelled.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping

from collector.calibration.given import LabelBook, Reader, Version
from collector.calibration.measures import FEWEST, Interval, Scale, agreement
from collector.logs.log import Log, LogUnavailable
from collector.telemetry import AGREEMENT, AGREEMENT_BOUND, AGREEMENT_LABELS, Telemetry

logger = logging.getLogger(__name__)

DRAWS = 200
"""Resamples of the bootstrap: the bounds are good to about a tenth of their distance."""


class AgreementWatch:
    """Reads labels and sets the metrics. `judged` are the evaluators in use with what passes on their scores."""

    def __init__(
        self, labels: Log, judged: Mapping[Version, Scale], telemetry: Telemetry, *, every: float = 60.0
    ) -> None:
        """Look once in `every` seconds."""
        self._reader = Reader(labels)
        self._judged = judged
        self._telemetry = telemetry
        self._every = every
        self._book = LabelBook([name for (name, _), scale in judged.items() if scale.lower_is_better])
        self._published: set[tuple[Version, str]] = set()

    async def run_forever(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Read what is new, and measure what it changes."""
        changed: set[Version] = set()
        try:
            async for record in self._reader.records():
                version = self._book.add(record)
                if version is not None and version in self._judged:
                    changed.add(version)
        except LogUnavailable as error:
            logger.warning("labels cannot be read now (%s); trying again", error)
        for version in sorted(changed):
            await self._measure(version)

    async def _measure(self, version: Version) -> None:
        pairs = [(label.judge, label.human) for label in self._book.labels(version)]
        self._telemetry.gauge(AGREEMENT_LABELS, *version).set(len(pairs))
        if len(pairs) >= FEWEST:
            found = await asyncio.to_thread(agreement, "all", pairs, self._judged[version], samples=DRAWS)
            for name, (value, bounds) in found.measures.items():
                self._publish(version, name, value, bounds)

    def _publish(self, version: Version, name: str, value: float, bounds: Interval) -> None:
        """A measure without a value is no zero: its series comes with its first value."""
        if math.isnan(value) and (version, name) not in self._published:
            return
        self._published.add((version, name))
        self._telemetry.gauge(AGREEMENT, *version, name).set(value)
        for bound, at in zip(("low", "high"), bounds or (math.nan, math.nan), strict=True):
            self._telemetry.gauge(AGREEMENT_BOUND, *version, name, bound).set(at)
