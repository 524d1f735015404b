"""The exporters of a process, /metrics of one without exporters, and the reading of corrections.

People correct scores on other platforms. Their corrections are read from time to time and stored as feedback in the
labels log, by the process that exports the first partition. A stored correction is known by its id, also after a
restart.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import orjson

from collector import plugins
from collector.backoff import FailureLog
from collector.config.configured import Config
from collector.errors import BadInput
from collector.evaluate.plan import Plan
from collector.export.exporter import (
    ExportContext,
    ExporterOfEvaluators,
    ExporterPlugin,
    ExportUnavailable,
    MonitoredEvaluator,
)
from collector.export.judged_spans.fold import GROUP
from collector.export.platforms.corrections import CorrectionReading
from collector.export.scrape import serve_metrics
from collector.export.stage import ExportStage, FeedbackExport, FeedbackExporter, feedback_group_of, group_of
from collector.logs.log import Confirm, Log, LogUnavailable, Record, StoredRecord, certain, confirm_of
from collector.logs.whole_log import IncrementalReader, first_offsets, read_partitions
from collector.otlp.own_items import OwnItems
from collector.receive.feedback_ingest import FeedbackRules, parse_feedback
from collector.receive.rejection import Rejected
from collector.records.feedback import is_feedback
from collector.records.json import evaluation_from_json, readable
from collector.redact.redactor import Redactor
from collector.service.open_logs import Logs
from collector.service.plan_builder import known_usd
from collector.service.process import Process, without_preparation
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from evaluators.results import Subject

_PARTITION = 0
MOST_SUBJECTS = 20_000
"""Of so many subjects, the newest, a platform that needs their ids is asked for corrections."""


@runtime_checkable
class CorrectedExporter(Protocol):
    """An exporter that can read what people said of its scores."""

    @property
    def corrections(self) -> CorrectionReading | None:
        """How to read that; None if not configured."""
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
        self._stored_keys: set[bytes] | None = None
        self._failures = FailureLog(f"reading corrections from {name}")

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            with self._failures.attempt(ExportUnavailable, LogUnavailable):
                await self.step()
            await asyncio.sleep(self.reading.every)

    async def step(self) -> int:
        """Read once; gives how many corrections were new. Raises ExportUnavailable, LogUnavailable."""
        if not self.ownership.owns():
            self._stored_keys = None  # another process stores them meanwhile
            return 0
        since = self.clock() - self.reading.back
        subjects = await self._subjects.read_new(since) if self.reading.platform.asks_by_subject else []
        documents = await self.reading.read(datetime.fromtimestamp(since, UTC), subjects)
        if self._stored_keys is None:
            self._stored_keys = await _feedback_since(self._labels, since)
        records: dict[bytes, Record] = {}
        for document in documents:
            for record in self._records_of(document):
                if record.key is not None and record.key not in self._stored_keys:
                    records[record.key] = record
        if records:
            await self.ownership.confirm()
            await self._labels.append(list(records.values()))
            self._stored_keys |= records.keys()
        return len(records)

    def _records_of(self, document: dict[str, Any]) -> Sequence[Record]:
        try:
            parsed = parse_feedback(orjson.dumps(document), self.rules, tenant=None, redactor=self.redactor)
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
                stage.name, reading, (logs.evaluations, logs.labels), rules, process.telemetry,
                redactor=process.resources.redactors.everybody,
                ownership=Ownership(partial(stage.owns, _PARTITION), confirm_of(logs.evaluations, stage.group)),
            )  # fmt: skip
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
        if (evaluation := readable(evaluation_from_json, record.value)) is None:
            return
        self._subjects.pop(subject := evaluation.subject, None)
        self._subjects[subject] = record.timestamp
        if len(self._subjects) > MOST_SUBJECTS:
            del self._subjects[next(iter(self._subjects))]


async def _feedback_since(log: Log, since: float) -> set[bytes]:
    """The ids of the feedback that the log took since a time."""
    known: set[bytes] = set()
    async for batch in read_partitions(log, await first_offsets(log, since)):
        known.update(record.key for record in batch if is_feedback(record) and record.key)
    return known


@dataclass(frozen=True, slots=True)
class Exporters:
    """The stages of the exporters, and those exporters that want to know the evaluators in use."""

    stages: Sequence[ExportStage] = ()
    informed: Sequence[ExporterOfEvaluators] = ()

    async def take_over(self, process: Process) -> None:
        """See `Apply`."""
        for exporter in self.informed:
            exporter.take_evaluators(tuple(_watched(process.config, process.plan)))


def start_exporters(process: Process, exporters: Exporters) -> None:
    """Consume the evaluations log for each exporter, a log of its own for one that has it, and feedback."""
    evaluations = process.logs.evaluations
    process.changes.append(without_preparation(exporters.take_over))
    for stage in exporters.stages:
        process.follow("export", evaluations, stage.group, stage.open_fold, on_void=partial(stage.count, "void"))
        if stage.second_log is not None:
            log, group, folds = stage.second_log
            process.follow("export", log, group, folds)
    _start_feedback_exports(process, exporters.stages)


@asynccontextmanager
async def open_exporters(
    config: Config,
    plan: Plan,
    telemetry: Telemetry,
    health: Health,
    own: OwnItems,
    logs: Logs,
    metrics_socket: Path | None = None,
) -> AsyncGenerator[Exporters]:
    """The stages of the exporters that are configured; each consumes the evaluations log by itself.

    Raises:
        ConfigError: an exporter cannot work here.
    """
    context = ExportContext(
        telemetry=telemetry, evaluators=tuple(_watched(config, plan)), health=health, own=own,
        judged_spans=logs.judged_spans,
        confirm_spans=confirm_of(logs.judged_spans, GROUP) if logs.judged_spans is not None else certain,
        page=config.settings.page.url if config.settings.page is not None else None, metrics_socket=metrics_socket,
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        opened: list[ExportStage] = []
        informed: list[ExporterOfEvaluators] = []
        for name, settings in config.exporters.items():
            plugin: ExporterPlugin = plugins.load(plugins.EXPORTERS, name)
            confirm = confirm_of(logs.evaluations, group_of(name))
            of_feedback = confirm_of(logs.labels, feedback_group_of(name))
            own_context = replace(context, confirm=confirm, confirm_feedback=of_feedback)
            exporter = await stack.enter_async_context(plugin.open(settings, own_context))
            opened.append(ExportStage(name, exporter, telemetry, confirm=confirm))
            if isinstance(exporter, ExporterOfEvaluators):
                informed.append(exporter)
        health.add(
            "exporters", lambda: "; ".join(stage.problem for stage in opened if stage.problem) or None, vital=False
        )
        yield Exporters(opened, informed)


def _start_feedback_exports(process: Process, stages: Sequence[ExportStage]) -> None:
    """Consume the labels log for every exporter that takes feedback, and append to it what people correct elsewhere."""
    labels = process.logs.labels
    for stage in stages:
        if isinstance(stage.exporter, FeedbackExporter):
            group = feedback_group_of(stage.name)
            export = FeedbackExport(stage.name, stage.exporter, process.telemetry, confirm=confirm_of(labels, group))
            process.follow("export", labels, group, export.open_fold)
    start_correction_readers(process, stages)


async def show_metrics(
    stack: AsyncExitStack, config: Config, telemetry: Telemetry, health: Health, socket: Path | None
) -> None:
    """For a process that does not export, serve its metrics and health where the Prometheus exporter would, until the
    stack closes.

    Raises:
        ConfigError: the address cannot be bound.
    """
    if settings := config.prometheus:
        server = serve_metrics(telemetry, host=settings.host, port=settings.port, health=health, socket=socket)
        await stack.enter_async_context(server)


def _watched(config: Config, plan: Plan) -> Iterator[MonitoredEvaluator]:
    cascades = config.settings.cascades
    for monitor in plan.monitors:
        shares = config.settings.monitors[monitor.name].alerts.shares
        for assignment in monitor.assignments:
            evaluator = assignment.evaluator
            watched = {label: share.at_most is not None for label, share in shares.get(evaluator.name, {}).items()}
            for version in filter(None, (assignment.version, assignment.fallback_version)):
                yield MonitoredEvaluator(
                    evaluator=evaluator.name, evaluator_version=version, monitor=monitor.name, scope=evaluator.scope,
                    threshold=evaluator.threshold, lower_is_better=evaluator.direction == "lower_is_better",
                    labels=evaluator.label_names,
                    cascade_share=cascades[assignment.judge_name].share if assignment.judge_name in cascades else None,
                    audit_version=assignment.audit_version, watched_labels=watched, judged=assignment.asks_judge,
                    priced=assignment.asks_judge and known_usd(config, evaluator.name) is not None,
                    by_segment=config.settings.alerts.by_segment,
                )  # fmt: skip
