"""The export stage: folds that feed one exporter, from the evaluations log and, for feedback, from the labels log.

Each exporter follows a log in a group of its own, so an exporter whose destination is down delays no other exporter.
After a crash, or if the partition moves while commits fail, the records since the last commit, of about two seconds,
are exported again, with the same ids. While commits fail, a fold waits, so that these do not become more. An exporter
with the method `export_feedback` also gets feedback, as soon as the turns that it is about are known.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.export.exporter import Exporter, ExportUnavailable
from collector.export.otlp_messages import event_record, logs_request
from collector.logs.log import Committed, Confirm, Log, OpenFold, StoredRecord, UntimedFold, certain
from collector.otlp.own_items import OwnItems
from collector.records.epochs import RecentIds
from collector.records.feedback import FeedbackSubject, JoinedFeedback, is_joined_feedback, parse_joined_feedback
from collector.records.json import evaluation_from_json, readable
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EXPORT_EVALUATIONS, EXPORT_FAILURES, EXPORT_LAG
from evaluators.cases import Json
from evaluators.results import Evaluation

OnBadRecord = Callable[[StoredRecord, BadInput], None]


async def _attempt(confirm: Confirm, export: Callable[[Any], Awaitable[int | None]], batch: Sequence[Any]) -> int:
    """Export a batch once; returns how many of it were rejected. An exporter that ends the program has failed, as with
    any other exception.
    """
    await confirm()
    try:
        return min(max(0, await export(batch) or 0), len(batch))  # it may count several records per evaluation
    except SystemExit as error:
        raise RuntimeError(f"the exporter has called sys.exit({error})") from error


def group_of(name: str) -> str:
    """The group under which the cursor of the exporter with this name is stored."""
    return f"export.{name}"


@dataclass(eq=False, repr=False)
class ExportStage:
    """Opens the folds that feed one exporter. `name` is the exporter's name in the configuration.

    Before each attempt `confirm` waits until this process certainly owns its partitions.
    """

    name: str
    exporter: Exporter
    telemetry: Telemetry
    _: KW_ONLY
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.time
    on_bad_record: OnBadRecord = lambda _record, _error: None
    confirm: Confirm = certain

    def __post_init__(self) -> None:
        self._problem: str | None = None
        self._open: set[int] = set()

    @property
    def problem(self) -> str | None:
        """Why the exporter cannot export now; None if no problem is known.

        An exporter that retries by itself has its own attribute `problem`, which is included.
        """
        own: str | None = getattr(self.exporter, "problem", None)
        return self._problem or (f"{self.name}: {own}" if own else None)

    @property
    def second_log(self) -> tuple[Log, str, OpenFold] | None:
        """A second log that the exporter follows: the log, its group and its folds; None for most exporters."""
        return getattr(self.exporter, "second_log", None)

    @property
    def group(self) -> str:
        """The group under which this exporter's cursor is stored."""
        return group_of(self.name)

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> "AsyncGenerator[ExportFold]":
        """Open the fold of a partition. It has no state, so it ignores the commit."""
        self._open.add(partition)
        try:
            yield ExportFold(self)
        finally:
            self._open.discard(partition)

    def owns(self, partition: int) -> bool:
        """Whether this process exports a partition now. The owner of the first partition does tasks that only one
        process may do.
        """
        return partition in self._open

    async def deliver(self, batch: Sequence[Evaluation]) -> None:
        """Export a batch, with retries until the exporter has accepted it. Count exported and rejected evaluations."""
        attempt = partial(_attempt, self.confirm, self.exporter.export, batch)
        rejected = await self.backoff.repeat(
            attempt, ExportUnavailable, action=f"exporting to {self.name}", on_failure=self._failed
        )
        self._problem = None
        self.count("exported", len(batch) - rejected)
        if rejected:
            self.count("rejected", rejected)

    def count(self, result: str, number: int = 1) -> None:
        """Count evaluations by result."""
        self.telemetry.counter(EXPORT_EVALUATIONS, self.name, result).inc(number)

    def report_unreadable(self, record: StoredRecord, error: BadInput) -> None:
        """Report a record in which no evaluation can be read."""
        self.count("unreadable")
        self.telemetry.drop("export", DropReason.UNREADABLE)
        self.on_bad_record(record, error)

    def record_lag(self, timestamp: float) -> None:
        """Record the age of a batch's newest record at the time of export."""
        self.telemetry.gauge(EXPORT_LAG, self.name).set(max(0.0, self.clock() - timestamp))

    def _failed(self, error: ExportUnavailable) -> None:
        self._problem = f"{self.name}: {error}"
        self.telemetry.counter(EXPORT_FAILURES, self.name, error.reason).inc()


class _StatelessFold(UntimedFold):
    """A fold without state that a restart would miss."""

    low_watermark = None
    awaits_commits = True
    """A restart exports again what was not committed. Prometheus, and most destinations, would count it twice."""

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Do nothing: delivered records were exported already."""


class ExportFold(_StatelessFold):
    """Feeds one exporter with the evaluations of one partition."""

    def __init__(self, stage: ExportStage) -> None:
        self._stage = stage
        self._seen = RecentIds()

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Export new evaluations. Returns when the exporter has accepted them, however long that takes."""
        if batch := list(filter(None, map(self._read, records))):
            await self._stage.deliver(batch)
        if records:
            self._stage.record_lag(records[-1].timestamp)

    def _read(self, record: StoredRecord) -> Evaluation | None:
        if record.headers:  # a decision of the evaluate stage, or a tick
            return None
        try:
            evaluation = evaluation_from_json(record.value)
        except BadInput as error:
            self._stage.report_unreadable(record, error)
            return None
        if self._seen.repeats(evaluation.evaluation_id):
            self._stage.count("duplicate")
            return None
        return evaluation


EVENT_NAME = "evalstream.feedback"


@runtime_checkable
class FeedbackExporter(Protocol):
    """An exporter that also takes feedback."""

    async def export_feedback(self, batch: Sequence[JoinedFeedback]) -> int | None:
        """Export a batch. Returns how many of its items the destination refused for good. After a crash the same batch
        may come again.

        Raises:
            ExportUnavailable: the batch cannot be exported now; the caller tries again with the same batch.
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
    backoff: Backoff = field(default_factory=Backoff)
    confirm: Confirm = certain

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> "AsyncGenerator[FeedbackExportFold]":
        """Open the fold of a partition. It has no state, so it ignores the commit."""
        yield FeedbackExportFold(self)

    async def deliver(self, batch: Sequence[JoinedFeedback]) -> None:
        """Export a batch, with retries until the exporter has accepted it."""
        attempt = partial(_attempt, self.confirm, self.exporter.export_feedback, batch)
        rejected = await self.backoff.repeat(attempt, ExportUnavailable, action=f"exporting feedback to {self.name}")
        if rejected:
            self.telemetry.drop("export", DropReason.FEEDBACK_REJECTED, rejected)


class FeedbackExportFold(_StatelessFold):
    """Feeds one exporter with the feedback in one partition of the labels log."""

    def __init__(self, export: FeedbackExport) -> None:
        self._export = export
        self._seen = RecentIds()

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Export joined feedback. Returns when the exporter has accepted it, however long that takes."""
        if batch := list(self._read(records)):
            await self._export.deliver(batch)

    def _read(self, records: Sequence[StoredRecord]) -> Iterator[JoinedFeedback]:
        for record in filter(is_joined_feedback, records):
            joined = readable(parse_joined_feedback, record.value)  # None: a later version wrote it
            if joined is not None and joined.subjects and not self._seen.repeats(joined.entry.feedback_id):
                yield joined


def by_monitor(joined: JoinedFeedback) -> dict[str, FeedbackSubject]:
    """The subject of each monitor that was the likeliest to be sampled: feedback about several turns counts once, and
    joins if any of them was sampled.
    """
    subjects: dict[str, FeedbackSubject] = {}
    for subject in sorted(joined.subjects, key=lambda each: -each.sampling.probability):
        subjects.setdefault(subject.monitor, subject)
    return subjects


def feedback_events(
    batch: Sequence[JoinedFeedback], *, service: str, comment: bool = True, own: OwnItems | None = None
) -> ExportLogsServiceRequest:
    """One `evalstream.feedback` event for each feedback and monitor, with the trace id and span id of the subject."""
    records = [
        _event(feedback, subject, comment=comment) for feedback in batch for subject in by_monitor(feedback).values()
    ]
    return logs_request(records, service=service, own=own)


def _event(joined: JoinedFeedback, subject: FeedbackSubject, *, comment: bool) -> LogRecord:
    return event_record(
        EVENT_NAME,
        time=joined.entry.at or joined.received_at,
        observed=joined.received_at,
        trace_id=subject.trace_id,
        span_id=subject.span_id,
        attributes={name: value for name, value in _attributes(joined, subject, comment=comment) if value is not None},
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
