"""Corrections that people make on other platforms: read from time to time, stored as feedback in the labels log.

Of several processes the one that exports the first partition reads. Nothing is stored twice: what is there already is
known by its id, after a restart, too.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, runtime_checkable

import orjson

from collector.backoff import FailureLog
from collector.errors import BadInput
from collector.export.exporter import ExportUnavailable
from collector.export.platforms.corrections import CorrectionReading
from collector.export.stage import ExportStage
from collector.logs.log import Confirm, Log, LogUnavailable, Record, StoredRecord
from collector.logs.whole_log import IncrementalReader, first_offsets, read_partitions
from collector.receive.feedback_ingest import FeedbackRules, parse_feedback
from collector.receive.rejection import Rejected
from collector.records.feedback import is_feedback
from collector.records.json import evaluation_from_json
from collector.redact.redactor import Redactor
from collector.service.process import Process
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from evaluators.results import Subject

_PARTITION = 0
MOST_SUBJECTS = 20_000
"""Subjects of which a platform is asked that lists corrections by ids alone: the newest."""


@runtime_checkable
class CorrectedExporter(Protocol):
    """An exporter that can read what people said of its scores."""

    @property
    def corrections(self) -> CorrectionReading | None:
        """How; None if its settings do not ask for it."""
        ...


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whether this process is the one that reads, as far as it knows; `confirm` waits until that is certain."""

    owns: Callable[[], bool]
    confirm: Confirm


@dataclass(eq=False, repr=False)
class CorrectionReader:
    """Reads the corrections of one platform. `clock` gives seconds since the epoch."""

    name: InitVar[str]
    reading: CorrectionReading
    logs: InitVar[tuple[Log, Log]]
    rules: FeedbackRules
    telemetry: Telemetry
    _: KW_ONLY
    redactor: Redactor | None
    ownership: Ownership
    clock: Callable[[], float] = time.time

    def __post_init__(self, name: str, logs: tuple[Log, Log]) -> None:
        self._source = f"corrections.{name}"
        evaluations, self._labels = logs
        self._subjects = _RecentSubjects(evaluations)
        self._known: set[bytes] | None = None
        self._failures = FailureLog(f"reading corrections from {name}")

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                await self.step()
            except (ExportUnavailable, LogUnavailable) as error:
                self._failures.failed(error)
            else:
                self._failures.succeeded()
            await asyncio.sleep(self.reading.every)

    async def step(self) -> int:
        """Read once; gives how many corrections were new. Raises ExportUnavailable, LogUnavailable."""
        if not self.ownership.owns():
            self._known = None  # another process stores them meanwhile
            return 0
        since = self.clock() - self.reading.back
        subjects = await self._subjects.read_new(since) if self.reading.platform.asks_by_subject else []
        documents = await self.reading.read(datetime.fromtimestamp(since, UTC), subjects)
        if self._known is None:
            self._known = await _feedback_since(self._labels, since)
        records: dict[bytes, Record] = {}
        for document in documents:
            for record in self._records_of(document):
                if record.key is not None and record.key not in self._known:
                    records[record.key] = record
        if records:
            await self.ownership.confirm()
            await self._labels.append(list(records.values()))
            self._known |= records.keys()
        return len(records)

    def _records_of(self, document: dict[str, Any]) -> Sequence[Record]:
        try:
            body = orjson.dumps(document)
            parsed = parse_feedback(body, self.rules, tenant=None, redactor=self.redactor)
        except (BadInput, Rejected, orjson.JSONEncodeError):
            self.telemetry.drop(self._source, DropReason.UNREADABLE)
            return ()
        return parsed.records


def start_correction_readers(process: Process, stages: Sequence[ExportStage]) -> None:
    """Read the corrections of every exporter whose settings ask for it."""
    logs, settings = process.logs, process.config.settings
    rules = FeedbackRules(comments=settings.store_text, experts=None)
    for stage in stages:
        reading = stage.exporter.corrections if isinstance(stage.exporter, CorrectedExporter) else None
        if reading is not None:
            reader = CorrectionReader(
                stage.name,
                reading,
                (logs.evaluations, logs.labels),
                rules,
                process.telemetry,
                redactor=process.resources.redactors.everybody,
                ownership=Ownership(partial(stage.owns, _PARTITION), partial(logs.evaluations.confirm, stage.group)),
            )
            process.tasks.start("corrections", reader.run, f"corrections of {stage.name}")


class _RecentSubjects:
    """The subjects of the newest evaluations, read on each time; MOST_SUBJECTS at most."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader: IncrementalReader | None = None
        self._subjects: dict[Subject, float] = {}

    async def read_new(self, since: float) -> list[Subject]:
        """Read on, the first time from what the log took at `since` (s); gives those that are no older."""
        if self._reader is None:
            self._reader = IncrementalReader(self._log, await first_offsets(self._log, since))
        async for record in self._reader.records():
            self._add(record)
        self._subjects = {subject: at for subject, at in self._subjects.items() if at >= since}
        return list(self._subjects)

    def _add(self, record: StoredRecord) -> None:
        if record.headers or not record.value:
            return
        try:
            subject = evaluation_from_json(record.value).subject
        except BadInput:
            return  # the exporter reports it
        self._subjects.pop(subject, None)
        self._subjects[subject] = record.timestamp
        if len(self._subjects) > MOST_SUBJECTS:
            del self._subjects[next(iter(self._subjects))]


async def _feedback_since(log: Log, since: float) -> set[bytes]:
    """The ids of the feedback that the log took since a time."""
    known: set[bytes] = set()
    async for batch in read_partitions(log, await first_offsets(log, since)):
        known.update(record.key for record in batch if is_feedback(record) and record.key)
    return known
