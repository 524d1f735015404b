"""The exporter `spans`: judged spans are written once more, with their scores as attributes of their own.

It only appends evaluations to the log of judged spans, by trace; the fold over that log does the rest.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import ClassVar

from collector.backoff import Backoff
from collector.export.exporter import ExportContext
from collector.export.judged_spans import destinations
from collector.export.judged_spans.fold import GROUP, JudgedSpansStage
from collector.export.otlp_client import open_otlp_client
from collector.logs.log import Log, OpenFold, append_until_durable
from collector.logs.memory import MemoryLog
from collector.records.judged_spans import evaluation_record
from evaluators.results import Evaluation


class JudgedSpansExporter:
    """Appends evaluations to the log of judged spans, which has their spans already."""

    Settings: ClassVar[type[destinations.JudgedSpansSettings]] = destinations.JudgedSpansSettings

    def __init__(self, settings: destinations.JudgedSpansSettings, log: Log, stage: JudgedSpansStage) -> None:
        self._settings = settings
        self._log = log
        self._stage = stage

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: destinations.JudgedSpansSettings, context: ExportContext, *, backoff: Backoff | None = None
    ) -> "AsyncGenerator[JudgedSpansExporter]":
        """Open the destination; an OTLP endpoint need not be there yet, a topic must.

        Raises:
            ConfigError: the topic is not there, or a file with a secret cannot be read.
        """
        async with AsyncExitStack() as stack:
            stage = JudgedSpansStage(
                await stack.enter_async_context(_destination(settings, context, backoff or Backoff())),
                context.telemetry,
                remember=settings.remember,
                max_bytes=settings.max_bytes,
                explanation=settings.explanation,
                own=context.own,
            )
            yield cls(settings, context.judged_spans or MemoryLog("judged_spans", 1), stage)

    @property
    def problem(self) -> str | None:
        """Why the destination takes no spans now; None if it does."""
        return self._stage.destination.problem

    @property
    def second_log(self) -> tuple[Log, str, OpenFold]:
        """The log to follow besides the evaluations log, with the group and its folds."""
        return self._log, GROUP, self._stage.open_fold

    async def export(self, batch: Sequence[Evaluation]) -> None:
        """Append evaluations; evaluations of subjects without a span cannot be written on one."""
        wanted = [evaluation for evaluation in batch if self._settings.skipped or evaluation.outcome != "skipped"]
        records = [record for evaluation in wanted if (record := evaluation_record(evaluation)) is not None]
        if records:
            await append_until_durable(self._log, records)


@asynccontextmanager
async def _destination(
    settings: destinations.JudgedSpansSettings, context: ExportContext, backoff: Backoff
) -> AsyncGenerator[destinations.SpanDestination]:
    if settings.kafka is not None:
        async with destinations.open_topic(
            settings.kafka, context.telemetry, backoff=backoff, confirm=context.confirm_spans
        ) as topic:
            yield topic
    else:
        assert settings.otlp is not None  # one of the two is there
        name, confirm = destinations.EXPORTER, context.confirm_spans
        async with open_otlp_client(settings.otlp, context, backoff, exporter=name, confirm=confirm) as client:
            yield destinations.OtlpSpans(client, settings.otlp.batch_size)
