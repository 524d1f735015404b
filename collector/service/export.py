"""The exporters, and /metrics of a process without exporters."""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from collector import plugins
from collector.config.configured import Config
from collector.evaluate.plan import Plan
from collector.export.exporter import ExportContext, ExporterOfEvaluators, ExporterPlugin, MonitoredEvaluator
from collector.export.feedback import FeedbackExport, FeedbackExporter, feedback_group_of
from collector.export.judged_spans.fold import GROUP
from collector.export.prometheus import PrometheusSettings
from collector.export.scrape import serve_metrics
from collector.export.stage import ExportStage, group_of
from collector.logs.log import Log, certain
from collector.otlp.own_items import OwnItems
from collector.service.corrections import start_correction_readers
from collector.service.process import Process, unprepared
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from evaluators.judges.audited import Audited

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exporters:
    """The stages of the exporters, and those exporters that want to know the evaluators in use."""

    stages: Sequence[ExportStage] = ()
    informed: Sequence[ExporterOfEvaluators] = ()

    async def take_over(self, process: Process) -> None:
        """See `Apply`."""
        for evaluators in self.informed:
            evaluators.take_evaluators(tuple(_watched(process.config, process.plan)))


def start_exporters(process: Process, exporters: Exporters) -> None:
    """Consume the evaluations log for each exporter, and a log of its own for one that has it."""
    evaluations = process.logs.evaluations
    process.changes.append(unprepared(exporters.take_over))
    for exporter in exporters.stages:
        void = partial(exporter.count, "void")
        process.follow("export", evaluations, exporter.group, exporter.open_fold, on_void=void)
        if exporter.second_log is not None:
            log, group, folds = exporter.second_log
            process.follow("export", log, group, folds)


@asynccontextmanager
async def open_exporters(
    config: Config,
    plan: Plan,
    telemetry: Telemetry,
    health: Health,
    own: OwnItems,
    evaluations: Log,
    judged_spans: Log | None = None,
    metrics_socket: Path | None = None,
) -> AsyncGenerator[Exporters]:
    """The stages of the exporters that are configured; each consumes the evaluations log by itself.

    Raises:
        ConfigError: an exporter cannot work here.
    """
    context = ExportContext(
        telemetry=telemetry,
        evaluators=tuple(_watched(config, plan)),
        health=health,
        own=own,
        judged_spans=judged_spans,
        confirm_spans=partial(judged_spans.confirm, GROUP) if judged_spans is not None else certain,
        page=config.settings.page.url if config.settings.page is not None else None,
        metrics_socket=metrics_socket,
    )
    async with AsyncExitStack() as stack:
        opened: list[ExportStage] = []
        informed: list[ExporterOfEvaluators] = []
        for name, settings in config.exporters.items():
            plugin: ExporterPlugin = plugins.load(plugins.EXPORTERS, name)
            confirm = partial(evaluations.confirm, group_of(name))
            exporter = await stack.enter_async_context(plugin.open(settings, replace(context, confirm=confirm)))
            opened.append(ExportStage(name, exporter, telemetry, confirm=confirm))
            if isinstance(exporter, ExporterOfEvaluators):
                informed.append(exporter)
        health.add(
            "exporters", lambda: "; ".join(stage.problem for stage in opened if stage.problem) or None, vital=False
        )
        yield Exporters(opened, informed)


def start_feedback_exports(process: Process, stages: Sequence[ExportStage]) -> None:
    """Consume the labels log for every exporter that takes feedback, and append to it what people correct elsewhere."""
    labels = process.logs.labels
    for stage in stages:
        if isinstance(stage.exporter, FeedbackExporter):
            confirm = partial(labels.confirm, feedback_group_of(stage.name))
            export = FeedbackExport(stage.name, stage.exporter, process.telemetry, confirm=confirm)
            process.follow("export", labels, export.group, export.open_fold)
    start_correction_readers(process, stages)


@asynccontextmanager
async def serving_metrics(
    config: Config, telemetry: Telemetry, health: Health, socket: Path | None = None
) -> AsyncGenerator[None]:
    """Serve the metrics of a process that does not export where the Prometheus exporter would serve them."""
    settings = config.exporters.get("prometheus")
    async with AsyncExitStack() as stack:
        if isinstance(settings, PrometheusSettings):
            server = serve_metrics(telemetry, host=settings.host, port=settings.port, health=health, socket=socket)
            try:
                await stack.enter_async_context(server)
            except OSError as error:  # several processes of one file on one machine: the first has the port
                where = f"{settings.host}:{settings.port}"
                logger.warning("the metrics of this process are not served: %s (%s)", where, error.strerror)
        yield


def _watched(config: Config, plan: Plan) -> Iterator[MonitoredEvaluator]:
    cascades = config.settings.cascades
    for monitor in plan.monitors:
        shares = config.settings.monitors[monitor.name].alerts.shares
        for assignment in monitor.assignments:
            evaluator = assignment.evaluator
            for version in filter(None, (assignment.version, assignment.fallback_version)):
                yield MonitoredEvaluator(
                    evaluator=evaluator.name,
                    evaluator_version=version,
                    monitor=monitor.name,
                    scope=evaluator.scope,
                    threshold=evaluator.threshold,
                    lower_is_better=evaluator.direction == "lower_is_better",
                    labels=evaluator.label_names,
                    cascade_share=cascades[assignment.judge_name].share if assignment.judge_name in cascades else None,
                    audit_version=assignment.judge.audit_version(evaluator)
                    if isinstance(assignment.judge, Audited)
                    else None,
                    watched_labels={
                        label: share.at_most is not None for label, share in shares.get(evaluator.name, {}).items()
                    },
                )
