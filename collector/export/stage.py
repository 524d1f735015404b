"""The export stage: a fold over a partition of the evaluations log that feeds one exporter.

Each exporter follows the log in a group of its own, so that one whose destination is down waits alone. After a crash
the evaluations since the last commit (a second, usually) go out again: exporters outside are told the same id.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.export.exporter import Exporter, ExportUnavailable
from collector.logs.log import Committed, Stored
from collector.records import evaluation_from_json
from collector.telemetry import EXPORT_FAILURES, EXPORT_LAG, EXPORTED, Telemetry
from evaluators.outcome import Evaluation

REMEMBERED = 10_000
"""Evaluation ids a fold knows again. Duplicates in the log lie close together: an append that was made twice."""

OnBadRecord = Callable[[Stored, BadInput], None]


class ExportStage:
    """Opens the folds that feed one exporter. `name` is the exporter's in the configuration."""

    def __init__(
        self,
        name: str,
        exporter: Exporter,
        telemetry: Telemetry,
        *,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.time,
        on_bad_record: OnBadRecord = lambda _record, _error: None,
    ) -> None:
        self._name = name
        self._exporter = exporter
        self._telemetry = telemetry
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._on_bad_record = on_bad_record

    @property
    def group(self) -> str:
        """The group under which this exporter's cursor is kept."""
        return f"export.{self._name}"

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[ExportFold]:
        """Open the fold of a partition; it needs nothing of what was committed."""
        del partition, committed
        yield ExportFold(self)

    async def deliver(self, batch: Sequence[Evaluation]) -> None:
        """Export a batch, again and again until the exporter has taken it."""
        await self._backoff.repeat(
            lambda: self._exporter.export(batch),
            ExportUnavailable,
            what=f"exporter {self._name}",
            on_failure=self._failed,
        )

    def count(self, result: str, number: int = 1) -> None:
        """Count evaluations by what became of them."""
        self._telemetry.counter(EXPORTED, self._name, result).inc(number)

    def unreadable(self, record: Stored, error: BadInput) -> None:
        """Report a record that holds no evaluation."""
        self.count("unreadable")
        self._telemetry.drop("export", "unreadable")
        self._on_bad_record(record, error)

    def reached(self, timestamp: float) -> None:
        """Say how old the newest record of a batch was when the batch was out."""
        self._telemetry.gauge(EXPORT_LAG, self._name).set(max(0.0, self._clock() - timestamp))

    def _failed(self, error: ExportUnavailable) -> None:
        self._telemetry.counter(EXPORT_FAILURES, self._name, error.reason).inc()


class ExportFold:
    """One partition's way to one exporter. It has no state that a restart would miss."""

    due_at = None
    low_watermark = None
    note = ""

    def __init__(self, stage: ExportStage) -> None:
        self._stage = stage
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def replay(self, records: Sequence[Stored]) -> None:
        """Nothing: what was delivered is out."""

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Export new evaluations; returns when they are out, however long the destination takes."""
        batch = [each for each in map(self._read, records) if each is not None]
        if batch:
            await self._stage.deliver(batch)
            self._stage.count("exported", len(batch))
        if records:
            self._stage.reached(records[-1].timestamp)

    def _read(self, record: Stored) -> Evaluation | None:
        if record.headers:  # a decision of the evaluate stage, or a label
            return None
        try:
            evaluation = evaluation_from_json(record.value)
        except BadInput as error:
            self._stage.unreadable(record, error)
            return None
        if evaluation.evaluation_id in self._seen:
            self._stage.count("duplicate")
            return None
        self._seen[evaluation.evaluation_id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return evaluation
