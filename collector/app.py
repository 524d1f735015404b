"""The composition root: opens the logs and the stages out of a configuration, runs them, and stops them in order.

What lies downstream starts first, so that nobody sends to something that is not there yet; what lies upstream stops
first, so that everybody can hand over what they have.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from collector import plugins
from collector.assemble.open_traces import Waits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.config.loading import Config
from collector.config.settings import KafkaSourceSettings, Settings
from collector.dialects.registry import Dialects
from collector.errors import ConfigError, first_of
from collector.evaluate.budget import PERIODS
from collector.evaluate.counted import Counted
from collector.evaluate.definitions import Definitions
from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.fold import Bounds
from collector.evaluate.lanes import Room
from collector.evaluate.plan import Plan
from collector.evaluate.purse import Purse
from collector.evaluate.stage import EvaluateStage
from collector.export.exporter import ExportContext, Watched
from collector.export.prometheus import PrometheusSettings
from collector.export.scrape import serve_metrics
from collector.export.stage import ExportStage
from collector.guards import Guards
from collector.judges import open_judges
from collector.logging_json import log_as_json
from collector.logs.clock import SteadyClock
from collector.logs.log import Log, LogError, LogUnavailable, OpenFold
from collector.measured import Backlog
from collector.opening import Logs, open_logs
from collector.otlp import Signal
from collector.page.door import Door
from collector.page.server import Page
from collector.page.settings import PageSettings
from collector.page.sources import Budget, Sources
from collector.page.wiring import budgets_of, sources_of, spendings_seen, watched_by
from collector.planning import plan_of
from collector.receive.access import Tokens
from collector.receive.files import read_files
from collector.receive.kafka import KafkaReceiver
from collector.receive.otlp_http import OtlpHttpReceiver
from collector.starting_watch import Watching, alerts_for_page, start_watch
from collector.telemetry import (
    ASSEMBLED,
    BUDGET_FACTOR,
    BUDGET_SPENT,
    BUDGET_USD,
    BUILD_INFO,
    CONFIG_INFO,
    EVALUATIONS_IN_FLIGHT,
    EVALUATIONS_WAITING,
    HELD_BACK,
    OPEN_CONVERSATIONS,
    OPEN_TRACES,
    Telemetry,
)
from evaluators.judges.openai import prepare

logger = logging.getLogger(__name__)

STAGES = ("receive", "assemble", "evaluate", "export", "watch", "page")
TRUNCATE_EVERY = 600.0
"""Seconds between two looks for records that nobody needs any more."""
TRUNCATE_TEXT_EVERY = 10.0
"""The same where no text is to be stored."""


@dataclass(frozen=True, slots=True)
class Running:
    """A service that runs. A port is None where this process does not receive over HTTP or gRPC, or shows no page."""

    logs: Logs
    plan: Plan
    telemetry: Telemetry
    otlp_port: int | None
    page_port: int | None = None
    grpc_port: int | None = None


def stages_of(text: str) -> frozenset[str]:
    """The stages named in `a,b,c`.

    Raises:
        ConfigError: one of them does not exist, or none is named.
    """
    named = frozenset(part.strip() for part in text.split(",") if part.strip())
    wrong = sorted(named - set(STAGES))
    if wrong or not named:
        raise ConfigError(f"--stages: {', '.join(wrong) or 'nothing'} is no stage; there are {', '.join(STAGES)}")
    return named


def serve(config: Config, stages: frozenset[str]) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once."""
    import uvloop

    log_as_json()
    uvloop.run(_until_stopped(config, stages))


async def _until_stopped(config: Config, stages: frozenset[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, _on_signal, stop)
    async with running(config, stages) as service:
        where = "" if service.otlp_port is None else f"; OTLP/HTTP on port {service.otlp_port}"
        where += "" if service.grpc_port is None else f"; OTLP/gRPC on port {service.grpc_port}"
        if config.settings.page and service.page_port is not None:
            scheme = "https" if config.settings.page.tls else "http"
            where += f"; page on {scheme}://{config.settings.page.host}:{service.page_port}/"
        logger.info("ready: %s%s", ", ".join(each for each in STAGES if each in stages), where)
        await stop.wait()
        logger.info("stopping: no more is taken, what runs may end; a second signal ends it now")
    logger.info("stopped")


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(1)
    stop.set()


@asynccontextmanager
async def running(config: Config, stages: Collection[str] = STAGES) -> AsyncGenerator[Running]:
    """Run stages of the service until left; then stop them, upstream first.

    Raises:
        ConfigError: the configuration cannot work here: a port is taken, a topic has another number of partitions.
    """
    telemetry = Telemetry()
    guards = Guards(config, telemetry)
    _say_what_runs(config, telemetry)
    async with AsyncExitStack() as stack:
        logs = await stack.enter_async_context(open_logs(config.settings.log))
        judges = await stack.enter_async_context(
            open_judges(config, await Definitions.read(logs.definitions), telemetry)
        )
        plan = plan_of(config, judges)
        exporters = await _open_exporters(config, plan, telemetry, guards, stack) if "export" in stages else []
        if "export" not in stages:
            await _show_metrics(config, telemetry, guards, stack)
        stack.push_async_callback(guards.safeguards.close)
        tasks = await stack.enter_async_context(_tasks(Backlog(telemetry)))
        if config.settings.log.kind != "kafka":  # topics have a retention of their own
            tasks.start(_truncate_forever(logs, config.settings))
        for exporter in exporters:
            tasks.follow(logs.evaluations, exporter.group, exporter.open_fold)
        watching = Watching()
        if "watch" in stages:
            watching = await start_watch(config, plan, logs, telemetry, tasks, stack)
        clock = SteadyClock()  # money and waiting: a clock that is set must not open or close a budget
        purse = Purse(plan, logs.turns.partitions) if "evaluate" in stages else None
        page_port = None
        if "page" in stages and config.settings.page is not None:
            alerts = alerts_for_page(config, watching, logs, telemetry, tasks)
            sources = replace(sources_of(telemetry), alerts=alerts)
            door = _door(config.settings, config.settings.page)
            page_port = await _start_page(config.settings.page, door, plan, logs, purse, sources, tasks, stack, clock)
        if purse is not None:
            _start_evaluate(config, plan, logs, telemetry, tasks, guards, purse, clock)
        if "assemble" in stages:
            _start_assemble(config, logs, telemetry, tasks, guards)
        otlp_port = grpc_port = None
        if "receive" in stages:
            await _start_sources(config, logs, telemetry, tasks, guards)
            otlp_port = await _start_http(config, logs, telemetry, stack, guards)
            grpc_port = await _start_grpc(config, logs, telemetry, stack, guards)
        guards.health.start()
        if judges and purse is not None:
            tasks.start(prepare())
        try:
            yield Running(logs, plan, telemetry, otlp_port, page_port, grpc_port)
        finally:
            guards.health.drain()


def _say_what_runs(config: Config, telemetry: Telemetry) -> None:
    """Version and configuration, so that dashboards can show when either changed. Secrets are masked before hashing."""
    telemetry.gauge(BUILD_INFO, version("evalstream")).set(1)
    digest = hashlib.sha256(config.settings.model_dump_json().encode()).hexdigest()
    telemetry.gauge(CONFIG_INFO, digest[:12]).set(1)


class _Tasks:
    """The tasks of a service in the order of their start; they stop the other way round, one after the other."""

    def __init__(self, group: asyncio.TaskGroup, backlog: Backlog) -> None:
        self._group = group
        self._backlog = backlog
        self._tasks: list[asyncio.Task[None]] = []
        self.evaluate: EvaluateStage | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; if it dies, the service ends."""
        self._tasks.append(self._group.create_task(work))

    def follow(self, log: Log, group: str, open_fold: OpenFold) -> None:
        """Start a task that follows a log, measured."""
        self.start(log.follow(group, self._backlog.measured(group, log, open_fold)))

    async def stop(self) -> None:
        """Stop all tasks, the newest first."""
        if self.evaluate is not None:
            self.evaluate.stopping = True
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def _tasks(backlog: Backlog) -> AsyncGenerator[_Tasks]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = _Tasks(group, backlog)
            tasks.start(backlog.look_forever())
            try:
                yield tasks
            finally:
                await tasks.stop()
    except BaseExceptionGroup as failures:
        raise first_of(failures) from None


async def _open_exporters(
    config: Config, plan: Plan, telemetry: Telemetry, guards: Guards, stack: AsyncExitStack
) -> list[ExportStage]:
    context = ExportContext(telemetry=telemetry, watched=tuple(_watched(plan)), health=guards.health)
    opened: list[ExportStage] = []
    for name, settings in config.exporters.items():
        exporter = await stack.enter_async_context(plugins.load(plugins.EXPORTERS, name).open(settings, context))
        opened.append(ExportStage(name, exporter, telemetry))
    return opened


async def _show_metrics(config: Config, telemetry: Telemetry, guards: Guards, stack: AsyncExitStack) -> None:
    """Serve the metrics of a process that does not export where the Prometheus exporter would serve them."""
    settings = config.exporters.get("prometheus")
    if not isinstance(settings, PrometheusSettings):
        return
    try:
        server = serve_metrics(telemetry.registry, host=settings.host, port=settings.port, health=guards.health)
        await stack.enter_async_context(server)
    except OSError as error:  # several processes of one file on one machine: the first has the port
        where = f"{settings.host}:{settings.port}"
        logger.warning("the metrics of this process are not served: %s (%s)", where, error.strerror)


def _watched(plan: Plan) -> Iterator[Watched]:
    for monitor in plan.monitors:
        for each in monitor.assignments:
            evaluator = each.evaluator
            for version_ in filter(None, (each.version, each.fallback_version)):
                yield Watched(
                    evaluator=evaluator.name,
                    evaluator_version=version_,
                    monitor=monitor.name,
                    scope=evaluator.scope,
                    threshold=evaluator.threshold,
                )


def _door(settings: Settings, page: PageSettings) -> Door | None:
    """Who may look at the page: whoever has a token, where there are any."""
    auth = settings.page_auth
    if auth is None:
        return None
    where = "page" if page.auth else "receive.otlp_http"
    return Door(Tokens(auth, where), secure=page.tls is not None)


async def _start_page(
    settings: PageSettings,
    door: Door | None,
    plan: Plan,
    logs: Logs,
    purse: Purse | None,
    sources: Sources,
    tasks: _Tasks,
    stack: AsyncExitStack,
    clock: Callable[[], float],
) -> int:
    def budgets() -> Sequence[Budget]:
        now = clock()
        return budgets_of(spendings_seen(plan, page.view, now) if purse is None else purse.spendings(now))

    sources = replace(sources, budgets=budgets)
    page = Page(settings, logs.evaluations, logs.labels, tuple(watched_by(plan)), sources=sources, door=door)
    tasks.start(page.follow(logs.turns))
    return await stack.enter_async_context(page.serve())


def _start_evaluate(
    config: Config,
    plan: Plan,
    logs: Logs,
    telemetry: Telemetry,
    tasks: _Tasks,
    guards: Guards,
    purse: Purse,
    clock: Callable[[], float],
) -> None:
    settings = config.settings.evaluate
    letters = guards.letters("evaluate", logs.turns.name, logs)
    for name, limits in purse.limits.items():
        telemetry.gauge(BUDGET_FACTOR, name or "all").set_function(partial(purse.factor, name))
        telemetry.gauge(BUDGET_SPENT, name or "all").set_function(lambda name=name: purse.used(name, clock()))
        for period, usd in limits.windows():
            telemetry.gauge(BUDGET_USD, name or "all", PERIODS[period]).set(usd)
    dispatcher = Dispatcher(
        logs.evaluations,
        room=Room(places=settings.concurrency, waiting=settings.waiting, bytes=settings.waiting_bytes),
        clock=clock,
        purse=purse,
        shed_after=settings.shed_after,
        run=guards.safeguards.run,
    )
    for name in plan.judge_names:
        lane = dispatcher.lanes.of(name)
        telemetry.gauge(EVALUATIONS_WAITING, name or "none").set_function(partial(getattr, lane, "waiting"))
        telemetry.gauge(HELD_BACK, name or "none").set_function(partial(getattr, lane, "held_back"))
    stage = EvaluateStage(
        plan,
        logs.evaluations,
        dispatcher,
        turns=logs.turns,
        bounds=Bounds(
            conversations=settings.open_conversations,
            bytes=settings.open_bytes,
            records=settings.carry_records,
            seconds=settings.carry_after,
            ahead=settings.carry_records,
        ),
        grace=settings.grace,
        tally=Counted(telemetry, plan),
        purse=purse,
        clock=clock,
        on_bad_record=letters.take,
    )
    telemetry.gauge(OPEN_CONVERSATIONS).set_function(lambda: stage.open_conversations)
    telemetry.gauge(EVALUATIONS_IN_FLIGHT).set_function(lambda: stage.jobs)
    tasks.evaluate = stage
    tasks.follow(logs.turns, "evaluate", letters.guarding(stage.open_fold))


def _start_assemble(config: Config, logs: Logs, telemetry: Telemetry, tasks: _Tasks, guards: Guards) -> None:
    settings = config.settings.assemble
    letters = guards.letters("assemble", logs.spans.name, logs)
    stage = AssembleStage(
        Assembler(Dialects.installed()),
        logs.turns,
        Waits(quiet=settings.quiet, linger=settings.linger),
        count=lambda dialect, what, number: telemetry.counter(ASSEMBLED, dialect, what).inc(number),
        on_bad_record=letters.take,
    )
    telemetry.gauge(OPEN_TRACES).set_function(lambda: stage.open_traces)
    tasks.follow(logs.spans, "assemble", letters.guarding(stage.open_fold))


async def _start_sources(config: Config, logs: Logs, telemetry: Telemetry, tasks: _Tasks, guards: Guards) -> None:
    receive = config.settings.receive
    for settings in receive.kafka:
        await _start_source(settings, logs, telemetry, tasks, guards)
    if receive.files:
        tasks.start(_read_files([Path(each) for each in receive.files], logs, telemetry, guards))


async def _start_http(
    config: Config, logs: Logs, telemetry: Telemetry, stack: AsyncExitStack, guards: Guards
) -> int | None:
    settings = config.settings.receive.otlp_http
    if settings is None:
        return None
    receiver = OtlpHttpReceiver(settings, logs.spans, telemetry, redactor=guards.redactor)
    try:
        return await stack.enter_async_context(receiver.serve())
    except OSError as error:
        why = f"{settings.host}:{settings.port} cannot be listened on ({error.strerror})"
        raise ConfigError(f"receive.otlp_http: {why}; write another port, or 0 for any free one") from error


async def _start_grpc(
    config: Config, logs: Logs, telemetry: Telemetry, stack: AsyncExitStack, guards: Guards
) -> int | None:
    settings = config.settings.receive.otlp_grpc
    if settings is None:
        return None
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else senders can make it write to stderr, in lines of its own
    from collector.receive.otlp_grpc import OtlpGrpcReceiver  # an extra, which need not be installed

    receiver = OtlpGrpcReceiver(settings, logs.spans, telemetry, redactor=guards.redactor)
    return await stack.enter_async_context(receiver.serve())


async def _start_source(
    settings: KafkaSourceSettings, logs: Logs, telemetry: Telemetry, tasks: _Tasks, guards: Guards
) -> None:
    from collector.logs.kafka import KafkaSettings, KafkaSource

    to_kafka = KafkaSettings(bootstrap_servers=settings.bootstrap_servers, group_instance_id=settings.group_instance_id)
    signals: list[tuple[Signal, list[str]]] = [("traces", settings.traces), ("logs", settings.logs)]
    for kind, topics in signals:
        if topics:
            try:
                source = await KafkaSource.open(to_kafka, topics, start=settings.start)
            except LogError as error:
                raise ConfigError(f"receive.kafka: {error}") from error
            letters = guards.letters("receive", source.topic_of, logs, signal=kind)
            receiver = KafkaReceiver(
                ", ".join(topics), kind, logs.spans, telemetry,
                encoding=settings.encoding, on_poison=letters.poisoned, redactor=guards.redactor,
            )  # fmt: skip
            tasks.start(source.follow(f"{settings.group}.{kind}", letters.guarding(receiver.open_fold)))


async def _read_files(paths: Sequence[Path], logs: Logs, telemetry: Telemetry, guards: Guards) -> None:
    count = await read_files(paths, logs.spans, telemetry, redactor=guards.redactor)
    logger.info("files: %d requests read, %d could not be read", count.requests, count.unreadable)


async def _truncate_forever(logs: Logs, settings: Settings) -> None:
    retention = settings.log.retention
    text_retention = retention if settings.store_text else 0.0  # of what is judged, once nobody needs it any more
    kept = ((logs.spans, text_retention), (logs.turns, text_retention), (logs.evaluations, retention))
    while True:
        for log, how_long in kept:
            try:
                await log.truncate(time.time() - how_long)
            except LogUnavailable as error:
                logger.warning("old records of %s cannot be removed now: %s", log.name, error)
        await asyncio.sleep(TRUNCATE_EVERY if settings.store_text else TRUNCATE_TEXT_EVERY)
