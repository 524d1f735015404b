"""Feedback on its way out: a fold over the labels log that feeds one exporter, and its OTLP event.

An exporter that has `export_feedback` is given what has joined; after a crash the last second goes out again, with the
same ids.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Protocol, runtime_checkable

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.export.exporter import ExportUnavailable
from collector.export.otlp_messages import event_record, logs_request
from collector.export.stage import RecentIds
from collector.logs.log import Committed, Confirm, StoredRecord, certain
from collector.otlp.own_items import OwnItems
from collector.records.feedback import FeedbackSubject, JoinedFeedback, is_joined_feedback, parse_joined_feedback
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from evaluators.cases import Json

EVENT_NAME = "evalstream.feedback"


@runtime_checkable
class FeedbackExporter(Protocol):
    """An exporter that takes feedback, too."""

    async def export_feedback(self, batch: Sequence[JoinedFeedback]) -> int | None:
        """Take a batch out; returns how many of it the destination refused for good. It may come again after a crash.

        Raises:
            ExportUnavailable: not now; the caller gives the same batch again.
        """
        ...


def feedback_group_of(name: str) -> str:
    """The group under which the cursor of an exporter's feedback is stored."""
    return f"export.{name}.feedback"


@dataclass(eq=False, repr=False)
class FeedbackExport:
    """Opens the folds of the labels log that feed one exporter."""

    name: str
    exporter: FeedbackExporter
    telemetry: Telemetry
    _: KW_ONLY
    backoff: InitVar[Backoff | None] = None
    confirm: Confirm = certain

    def __post_init__(self, backoff: Backoff | None) -> None:
        self._backoff = backoff or Backoff()

    @property
    def group(self) -> str:
        """The group under which the cursor is stored."""
        return feedback_group_of(self.name)

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[FeedbackExportFold]:
        """Open the fold of a partition; it needs nothing of what was committed."""
        del partition, committed
        yield FeedbackExportFold(self)

    async def deliver(self, batch: Sequence[JoinedFeedback]) -> None:
        """Export a batch, with retries until the exporter has accepted it."""

        async def attempt() -> int | None:
            await self.confirm()
            return await self.exporter.export_feedback(batch)

        action = f"exporting feedback to {self.name}"
        rejected = await self._backoff.repeat(attempt, ExportUnavailable, action=action)
        if rejected := min(max(0, rejected or 0), len(batch)):
            self.telemetry.drop("export", DropReason.FEEDBACK_REJECTED, rejected)


class FeedbackExportFold:
    """One partition's way to one exporter. It has no state that a restart would miss."""

    due_at = None
    low_watermark = None
    metadata = ""

    def __init__(self, export: FeedbackExport) -> None:
        self._export = export
        self._seen = RecentIds()

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Nothing: what was delivered is out."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Export what has joined; returns when it is out, however long the destination takes."""
        batch = list(self._read(records))
        if batch:
            await self._export.deliver(batch)

    def _read(self, records: Sequence[StoredRecord]) -> Iterator[JoinedFeedback]:
        for record in filter(is_joined_feedback, records):
            try:
                joined = parse_joined_feedback(record.value)
            except BadInput:
                continue  # of a later version
            if joined.subjects and not self._seen.repeats(joined.entry.feedback_id):
                yield joined


def by_monitor(joined: JoinedFeedback) -> dict[str, FeedbackSubject]:
    """The first subject of every monitor: one piece of feedback counts once there, however many turns it is about."""
    subjects: dict[str, FeedbackSubject] = {}
    for subject in joined.subjects:
        subjects.setdefault(subject.monitor, subject)
    return subjects


def feedback_events(
    batch: Sequence[JoinedFeedback], *, service: str, comment: bool = True, own: OwnItems | None = None
) -> ExportLogsServiceRequest:
    """One `evalstream.feedback` event for each piece and monitor, with the trace and span id of what it is about."""
    records = [
        _event(feedback, subject, comment=comment) for feedback in batch for subject in by_monitor(feedback).values()
    ]
    return logs_request(records, service=service, own=own)


def _event(joined: JoinedFeedback, subject: FeedbackSubject, *, comment: bool) -> LogRecord:
    attributes = {name: value for name, value in _attributes(joined, subject, comment=comment) if value is not None}
    return event_record(
        EVENT_NAME,
        time=joined.entry.at or joined.received_at,
        observed=joined.received_at,
        trace_id=subject.trace_id,
        span_id=subject.span_id,
        attributes=attributes,
    )


def _attributes(joined: JoinedFeedback, subject: FeedbackSubject, *, comment: bool) -> Iterator[tuple[str, Json]]:
    entry = joined.entry
    value = entry.value
    yield "evalstream.feedback.id", entry.feedback_id
    yield "evalstream.feedback.source", entry.source
    yield "evalstream.feedback.score", joined.score
    yield "evalstream.feedback.weight", 1.0 / subject.sampling.probability
    yield "gen_ai.evaluation.name", entry.name
    yield "gen_ai.evaluation.score.value", float(value) if isinstance(value, bool | int | float) else None
    yield "gen_ai.evaluation.score.label", entry.label or (value if isinstance(value, str) else None)
    yield "gen_ai.evaluation.explanation", entry.comment if comment else None
    yield "gen_ai.response.id", subject.response_id
    own_conversation = subject.conversation_id in (subject.trace_id, subject.turn_id)
    yield "gen_ai.conversation.id", None if own_conversation else subject.conversation_id
    yield "evalstream.evaluation.id", entry.evaluation_id
    yield "evalstream.subject.turn_id", subject.turn_id
    yield "evalstream.monitor", subject.monitor
