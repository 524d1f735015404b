"""Metrics of the agreement between judges and people, from the labels log.

They need all labels, so one process computes them: that of the `watch` stage. At its start it reads the log, then the
new records once a minute. Only evaluators with new labels are computed again, in a thread, from the newest labels and
with fewer resamples than `evalstream calibrate` takes: at most about a second a minute for each labelled evaluator.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from collector.backoff import FailureLog
from collector.calibration.measures import FEWEST, Interval, ScoreScale, agreement
from collector.calibration.page_labels import IncrementalReader, LabelIndex, Version
from collector.logs.log import Log, LogUnavailable
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import AGREEMENT, AGREEMENT_BOUND, AGREEMENT_LABELS

RESAMPLES = 200
"""Resamples of the bootstrap: the bounds are good to about a tenth of their distance."""


class AgreementWatcher:
    """Reads labels and sets the metrics. `judged` are the evaluators in use with their scales."""

    def __init__(
        self, labels: Log, judged: Mapping[Version, ScoreScale], telemetry: Telemetry, *, every: float = 60.0
    ) -> None:
        """Measure once in `every` seconds."""
        self._reader = IncrementalReader(labels)
        self._judged = judged
        self._telemetry = telemetry
        self._every = every
        self._book = LabelIndex([name for (name, _), scale in judged.items() if scale.lower_is_better])
        self._reading = FailureLog("reading the labels log")
        self._published: set[tuple[Version, str]] = set()

    async def run_forever(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure_changes()
            await asyncio.sleep(self._every)

    async def measure_changes(self) -> None:
        """Read new labels and measure the evaluators that they change."""
        changed: set[Version] = set()
        try:
            async for record in self._reader.records():
                version = self._book.add(record)
                if version is not None and version in self._judged:
                    changed.add(version)
        except LogUnavailable as error:
            self._reading.failed(error)
        else:
            self._reading.succeeded()
        for version in sorted(changed):
            await self._measure(version)

    async def _measure(self, version: Version) -> None:
        pairs = [(label.judge, label.human) for label in self._book.labels(version)]
        self._telemetry.gauge(AGREEMENT_LABELS, *version).set(len(pairs))
        if len(pairs) >= FEWEST:
            result = await asyncio.to_thread(agreement, "all", pairs, self._judged[version], samples=RESAMPLES)
            for name, (value, bounds) in result.measures.items():
                self._publish(version, name, value, bounds)

    def _publish(self, version: Version, name: str, value: float, bounds: Interval) -> None:
        """A measure without a value is not zero: its series begins with its first value."""
        if math.isnan(value) and (version, name) not in self._published:
            return
        self._published.add((version, name))
        self._telemetry.gauge(AGREEMENT, *version, name).set(value)
        for bound, at in zip(("low", "high"), bounds or (math.nan, math.nan), strict=True):
            self._telemetry.gauge(AGREEMENT_BOUND, *version, name, bound).set(at)
