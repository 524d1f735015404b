"""The composition root: the logs and stages of a configuration, started, run and stopped in order.

Downstream stages start first, so that none sends to one that is not there yet; upstream stages stop first, so that each
can hand over what it has. The health checks of a process, the guard against records that end it, the
retention of its logs and the note of how many partitions its topics had at first stand here, too.

Why that note: a record goes to the partition that its key's hash selects. With another number of partitions, the next
turns of an open conversation go to another partition, and finished evaluations are looked for in the wrong one.
"""

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from collector.admission.listener import Address, require_free
from collector.backoff import Backoff, FailureLog
from collector.config.configured import Config
from collector.config.settings import KafkaLogSettings, LogSettings, Settings
from collector.errors import ConfigError
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.stage import GROUP
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.logs.journal.guard import FatalUnits, Guard
from collector.logs.journal.journal_file import JournalFile, private_folder
from collector.logs.journal.stall_watchdog import StallWatchdog, exit_stalled
from collector.logs.log import Log, LogError, LogUnavailable
from collector.logs.sqlite_shares import has_consumer
from collector.page.score_series import RETENTION
from collector.service.assembly_builder import follow_wanted, start_assemble, start_link
from collector.service.evaluate import EvaluateTask
from collector.service.export import Exporters, open_exporters, show_metrics, start_exporters
from collector.service.gauges import show_build
from collector.service.kafka_settings import settings_of_log
from collector.service.live.exchange import Exchange, OpenedJudges
from collector.service.live.history import ConfigurationHistory, NumberedConfiguration
from collector.service.live.reload import Reload
from collector.service.live.status import ConfigurationStatus
from collector.service.open_logs import COPIED, Logs, open_logs, own_items
from collector.service.page import start_page
from collector.service.process import PrepareChange, Process, without_preparation
from collector.service.process_resources import ProcessResources
from collector.service.receive import start_receive
from collector.service.tasks import Tasks, Work, open_tasks, run_despite_exits
from collector.service.watch import Watching, start_watch
from collector.service.workers.worker import Worker
from collector.telemetry.logging import LogLevel, level_of, log_as_json, set_level
from collector.telemetry.registry import Telemetry
from collector.wording import unknown

PROBE_EVERY, PROBE_TOPICS_EVERY = 1.0, 5.0
"""Seconds between two probes of the logs in a file, and in topics."""

ANSWERS_WITHIN = 5.0
"""Seconds after which a probe that has not ended is a problem."""

LOW_DISK = 256 << 20
"""Free bytes below which the disk of a file is nearly full: it may grow by 64 MiB at once."""


def start_health_checks(process: Process) -> None:
    """Add the checks of logs, consumers and disk, and start probing."""
    health, settings = process.resources.health, process.config.settings.log
    probe = LogProbe(process.logs)
    health.add("log", probe.problem, vital=True)
    health.add("consumers", process.tasks.stalled_consumers, vital=False)
    health.add("tasks", process.tasks.problem, vital=False)
    if settings.kind == "sqlite":
        health.add("disk", partial(disk_problem, Path(settings.path)), vital=False)
    interval = PROBE_TOPICS_EVERY if settings.kind == "kafka" else PROBE_EVERY
    process.tasks.start("log probe", partial(probe.run_forever, interval))


class LogProbe:
    """Sees again and again that the logs can be written, and that no reading of them is refused."""

    def __init__(self, logs: Iterable[Log], clock: Callable[[], float] = time.monotonic) -> None:
        self._logs = list(logs)
        self._clock = clock
        self._problem: str | None = None
        self._started: float | None = None
        self._using = FailureLog("using the logs")

    def problem(self) -> str | None:
        """The problem that the last probe found, else that the one in progress takes long."""
        waited = 0.0 if self._started is None else self._clock() - self._started
        return self._problem or (f"has not answered for {waited:.0f} s" if waited > ANSWERS_WITHIN else None)

    async def run_forever(self, interval: float) -> None:
        """Probe until cancelled, with `interval` seconds between."""
        while True:
            await self.probe()
            await asyncio.sleep(interval)

    async def probe(self) -> None:
        """Probe each log once, up to the first that cannot be used."""
        self._started = self._clock()
        try:
            for log in self._logs:
                await log.probe()
        except LogError as error:
            self._problem = str(error)
            self._using.failed(error)
        except Exception as error:
            self._problem = repr(error)
            raise
        else:
            self._problem = None
            self._using.succeeded()
        finally:
            self._started = None


def disk_problem(path: Path) -> str | None:
    """Whether the disk of a file is nearly full."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        return f"{path.parent}: {error.strerror}"
    return f"{free >> 20} MiB are free at {path.parent}" if free < LOW_DISK else None


TRUNCATE_EVERY = 600.0
"""Seconds between two truncations."""
TRUNCATE_TEXT_EVERY = 10.0
"""The same where no text is stored."""


def start_retention(process: Process) -> None:
    """Truncate the logs periodically; topics have a retention of their own."""
    if process.config.settings.log.kind != "kafka":
        process.tasks.start("retention", partial(_truncate_forever, process.logs, process.config.settings))


async def _truncate_forever(logs: Logs, settings: Settings) -> None:
    consumers = {"spans": "assemble", "turns": "evaluate", "unlinked": "link", "judged_spans": JUDGED_SPANS_GROUP}
    truncated = [log for log in logs if log.name in {*consumers, "evaluations", "history"}]
    failures = {log.name: FailureLog(f"removing old records of {log.name}") for log in truncated}
    while True:
        for log in truncated:
            with failures[log.name].attempt(LogUnavailable):
                await log.truncate(time.time() - (RETENTION if log is logs.history else settings.log.retention))
                # Not before the consumer has read them: it may start later.
                if (consumer := consumers.get(log.name)) is not None and not settings.store_text:
                    await log.truncate(time.time(), (consumer,))
        await asyncio.sleep(TRUNCATE_EVERY if settings.store_text else TRUNCATE_TEXT_EVERY)


@asynccontextmanager
async def open_guard(
    settings: Settings, logs: Logs, on_stall: Callable[[], None] | None = None
) -> AsyncGenerator[Guard]:
    """The guard, until left. With `on_stall`, a record that blocks the event loop is noticed, too.

    Logs in memory end with the process, so nothing can come back.
    """
    fatal = FatalUnits(logs.definitions, settings.dead_letters.max_ends)
    file = JournalFile.open(prefix) if (prefix := _journal_prefix(settings.log)) is not None else None
    with ExitStack() as stack:
        if file is not None:
            stack.callback(file.close)
            ends = file.ended_in()
            await Backoff(cap=1.0).repeat(
                lambda: fatal.record_ends(ends), LogUnavailable, action="writing down what was in process"
            )
            file.begin()
        guard = Guard(file.journal if file is not None else None, fatal)
        if on_stall is not None:
            stack.enter_context(StallWatchdog(guard.journal, settings.dead_letters.stall_after, on_stall).watching())
        yield guard


def _journal_prefix(settings: LogSettings) -> Path | None:
    """How the paths of the journals begin; None if there can be none."""
    kafka = settings.kafka
    if kafka is None:
        path = Path(settings.path)
        return None if settings.kind == "memory" else path.with_name(f"{path.name}-in-process")
    if kafka.state_directory is not None:
        return Path(kafka.state_directory) / f"{kafka.prefix}-in-process"
    folder = private_folder(kafka.prefix, *kafka.bootstrap_servers)
    return None if folder is None else folder / "in-process"


_KEY = "log.kafka.partitions"


async def require_partitions(notes: GeneratedStepsStore, settings: KafkaLogSettings, *, noted: bool = True) -> None:
    """See that the topics have the partitions that they had before, or that a change is meant, which is then `noted`.

    Raises:
        ConfigError: somebody has added partitions to the topics.
    """
    before = await _noted_partitions(notes)
    if before not in (None, settings.partitions, settings.repartitioned_from):
        raise ConfigError(
            f"log.kafka.partitions: the topics had {before} partitions and have {settings.partitions}: conversations "
            "that are open would be judged in two halves, and turns that come again twice; use another "
            f"log.kafka.prefix, or, to accept that, set repartitioned_from: {before}"
        )
    if noted and before != settings.partitions:
        await notes.save(_key(before), str(settings.partitions))


async def require_startable(notes: GeneratedStepsStore, settings: LogSettings, *, noted: bool = True) -> None:
    """See that the logs were not copied, and that topics have the partitions that they had.

    Raises:
        ConfigError: they were, or have not.
    """
    if to := await notes.load(COPIED):
        raise ConfigError(
            f"log: these logs were copied for {to}, and both services would judge: start with that file; to go on with "
            "these logs after all, copy them to a new log.path or log.kafka.prefix"
        )
    if settings.kafka is not None:
        await require_partitions(notes, settings.kafka, noted=noted)


async def _noted_partitions(notes: GeneratedStepsStore) -> int | None:
    """The number after all changes that were meant; None before the first start."""
    number: int | None = None
    while (after := await notes.load(_key(number))) is not None:
        number = int(after)
    return number


def is_note(key: bytes | None) -> bool:
    """Whether a record of the definitions log says how many partitions the topics had, or that they were copied."""
    return key is not None and key.startswith((_KEY.encode(), COPIED.encode()))


def _key(before: int | None) -> str:
    return _KEY if before is None else f"{_KEY} after {before}"


logger = logging.getLogger(__name__)

STAGES = ("receive", "assemble", "evaluate", "export", "watch", "page")


@dataclass(frozen=True, slots=True)
class Running:
    """A service that runs. A port is None where this process does not receive over HTTP or gRPC, or shows no page.

    `plan` is the one that it started with; `changes` is what takes another configuration.
    """

    logs: Logs
    plan: Plan
    telemetry: Telemetry
    otlp_port: int | None
    reload: Reload
    changes: list[PrepareChange]
    page_port: int | None = None
    grpc_port: int | None = None


def stages_of(text: str, config: Config) -> frozenset[str]:
    """The stages named in `a,b,c`. If all are named, those that are not configured do nothing.

    Raises:
        ConfigError: one of them does not exist or has nothing to do, or none is named.
    """
    named = frozenset(part.strip() for part in text.split(",") if part.strip())
    wrong = sorted(named - set(STAGES))
    if wrong or not named:
        problem = unknown("stage", wrong[0], STAGES) if wrong else f"is empty; choose from {', '.join(STAGES)}"
        raise ConfigError(f"--stages: {problem}")
    for stage, what in without_section(config, named if len(named) < len(STAGES) else ()).items():
        raise ConfigError(f"--stages: {config.source} has no {what}; write one, or leave {stage} out of --stages")
    return named


def without_section(config: Config, stages: Collection[str]) -> dict[str, str]:
    """The stages that do nothing, each with what the configuration lacks."""
    receive = config.settings.receive
    lacking = {
        "receive": ("receiver", receive.otlp_http or receive.otlp_grpc or receive.kafka or receive.files),
        "export": ("exporter", config.exporters),
        "page": ("section page", config.settings.page),
    }
    return {stage: what for stage, (what, there) in lacking.items() if stage in stages and not there}


def serve(
    config: Config, stages: frozenset[str], *, log_level: LogLevel | None = None, worker: Worker | None = None
) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once.

    `log_level` is the lowest level of the lines of its log; without it, the configuration's, also when that changes.
    `worker` is this process's place among several of one command.
    """
    import uvloop

    log_as_json(level_of(log_level or config.settings.log_level))
    serving = _until_stopped(config, stages, fixed_level=log_level is not None, worker=worker)
    run_despite_exits(serving, uvloop.new_event_loop)


async def _until_stopped(config: Config, stages: frozenset[str], *, fixed_level: bool, worker: Worker | None) -> None:
    stop = _Stop()
    loop = asyncio.get_running_loop()
    for signals in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signals, stop.request)
    # without a handler, the signal would end the process at once
    loop.add_signal_handler(signal.SIGHUP, logger.info, "SIGHUP: the service is still starting, with the file as read")
    if worker is not None:
        worker.stop_when_alone(stop.request)
    try:
        async with running(config, stages, on_stall=exit_stalled, path=Path(config.source), worker=worker) as service:
            loop.add_signal_handler(signal.SIGHUP, service.reload.request)
            if not fixed_level:
                service.changes.append(without_preparation(take_log_level))
                await take_log_level(service.reload.exchange.process)  # it may not have started with its file's
            what = ", ".join(stage for stage in STAGES if stage in stages.difference(without_section(config, stages)))
            logger.info("ready: %s%s", what, _addresses(config, service))
            await stop.requested()
            logger.info("shutting down: finishing in-flight work; signal again to exit now%s", unread_note(config))
    except asyncio.CancelledError:
        if not stop.before_ready:
            raise
    logger.info("stopped")


def unread_note(config: Config) -> str:
    """The end of the line at a stop, for a process that brokers know by a name: its partitions wait for it."""
    log, sources = config.settings.log.kafka, config.settings.receive.kafka
    named = (log is not None and log.group_instance_id) or any(source.group_instance_id for source in sources)
    seconds = 45.0 if log is None else log.session_timeout
    return f"; brokers keep its partitions for {seconds:g} s, unread, for its group_instance_id" if named else ""


async def _number(process: Process, history: ConfigurationHistory, config: Config, *, evaluates: bool) -> int:
    """Find the number of the configuration. A process that evaluates by a new one writes it, so that all take it.

    A file of an earlier configuration counts only if no other process evaluates (its machine may have missed a change),
    or if it differs in what only a start reads (see `ConfigurationHistory.earlier`).
    """
    if evaluates:
        turns = process.logs.turns
        await turns.claim(GROUP)  # a second process on one file ends here, before anybody follows it
        newest = await history.refresh()
        if turns.shared and (earlier := await earlier_than_others(history, config)) is not None:
            history.number = earlier.number
        else:
            history.number = await history.take(config)
            if newest is not None and history.number != newest.number:
                history.report_change(history.number)
    else:
        await history.find_own(config)
    if (own := history.entry(history.number)) is not None:
        process.status.begin(own.number, own.since)
    return history.number


async def _start_judging(evaluating: EvaluateTask | None, watching: Watching, reload: Reload) -> Process:
    """Judge and alert from now on, and not by the file if others have replaced it: first take the newest one."""
    starting = reload.exchange.process
    if evaluating is not None:
        starting.changes.append(without_preparation(evaluating.take_over))
    await reload.follow_log()
    if evaluating is not None:
        evaluating.start(reload.exchange.process.number)
    if watching.alerts is not None:
        starting.tasks.start("alerts", watching.alerts)
    return reload.exchange.process


async def earlier_than_others(history: ConfigurationHistory, config: Config) -> NumberedConfiguration | None:
    """The earlier configuration that a file has, if a start does not take it, as others evaluate by a newer one."""
    earlier = history.earlier(config)
    return earlier if earlier is not None and await others_evaluate(config) else None


async def others_evaluate(config: Config) -> bool:
    """Whether brokers know another process that evaluates; one that was killed is known for its session_timeout."""
    if (kafka := config.settings.log.kafka) is None:
        return False
    from collector.logs.kafka.topics import inspect

    group = f"{kafka.prefix}.{GROUP}"
    try:
        state = await asyncio.to_thread(inspect, settings_of_log(kafka), [], [group])
    except LogError:
        return True
    return any(not member.startswith(f"{kafka.group_instance_id} on ") for member in state.members.get(group, ()))


class _Stop:
    """The request to stop. One that comes before the service is ready cancels the start, which may wait for a disk."""

    def __init__(self) -> None:
        self.before_ready = False
        self._requested = asyncio.Event()
        self._starting = asyncio.current_task()

    def request(self) -> None:
        """A signal has come; a second one ends the process at once."""
        if self._requested.is_set():
            os._exit(1)
        self._requested.set()
        if self._starting is not None:
            self.before_ready = True
            self._starting.cancel()

    async def requested(self) -> None:
        """Wait for the request, once the service is ready."""
        self._starting = None
        await self._requested.wait()


def _addresses(config: Config, service: Running) -> str:
    """The addresses that the service listens on, for its log."""
    ports = {"OTLP/HTTP": service.otlp_port, "OTLP/gRPC": service.grpc_port}
    where = "".join(f"; {name} on port {port}" for name, port in ports.items() if port is not None)
    if (page := config.settings.page) and service.page_port is not None:
        where += f"; page on http{'s' if page.tls else ''}://{page.host}:{service.page_port}/"
    return where


async def _serve_port(tasks: Tasks, serve: Work) -> None:
    """Of several processes of one file on one machine, the first has the port; when it ends, another one takes it."""
    try:
        await serve()
    except ConfigError as error:
        action = "serving /metrics, /healthz and /readyz"
        tasks.start("metrics", partial(Backoff().repeat, serve, ConfigError, action=action, failed=error))


async def require_ports(config: Config, stages: Collection[str]) -> None:
    """See that these stages can listen on their ports.

    Raises:
        ConfigError: one is taken. It says first if the log's file is in use: the same service may run already.
    """
    settings = config.settings
    sections = {
        "receive.otlp_http": settings.receive.otlp_http,
        "receive.otlp_grpc": settings.receive.otlp_grpc,
        "page": settings.page,
        "export.prometheus": config.prometheus,
    }
    named = ((name, section) for name, section in sections.items() if name.partition(".")[0] in stages)
    try:
        await require_free([Address(name, at.host, at.port) for name, at in named if at is not None])
    except ConfigError as error:
        file = settings.log.path
        if settings.log.kind != "sqlite" or not has_consumer(Path(file)):
            raise
        already = f"log: {file}: a process consumes this file already; if it is this service, stop it first"
        raise ConfigError(f"{already}\n{error}") from error


@asynccontextmanager
async def running(
    config: Config,
    stages: Collection[str] = STAGES,
    *,
    on_stall: Callable[[], None] | None = None,
    path: Path | None = None,
    worker: Worker | None = None,
) -> AsyncGenerator[Running]:
    """Run stages of the service until left; then stop them, upstream first.

    `on_stall` is called, in a thread, when one record holds the event loop; only for a process of its own. Changes of
    the configuration's file at `path` are taken. `worker` is the process's place among several of one command.

    Raises:
        ConfigError: the configuration cannot work here: a port is taken, a topic has another number of partitions,
            another process consumes the same file.
    """
    telemetry = Telemetry()
    resources = ProcessResources(config, telemetry)
    show_build(telemetry, config, stages)
    async with AsyncExitStack() as stack:
        if worker is None:
            await require_ports(config, stages)  # before there is a file that a failed start would leave
        opening = partial(open_logs, config.settings.log, page=config.settings.page is not None, telemetry=telemetry)
        logs = await stack.enter_async_context(opening(share=worker.share if worker else None, **config.optional_logs))
        steps = await logs.generated_steps()
        await require_startable(steps, config.settings.log)
        own = await own_items(steps)
        history, status = ConfigurationHistory(steps, config, warn=logger.warning), ConfigurationStatus(telemetry)
        resources.health.add("configuration", lambda: status.problem, vital=False)
        judges = OpenedJudges(steps, telemetry, resources, logs.turns, own)
        stack.push_async_callback(judges.close)
        plan, exporters, metrics = await judges.open_first(config), Exporters(), worker and worker.metrics
        guard = await stack.enter_async_context(open_guard(config.settings, logs, on_stall))
        if "export" in stages:
            exporters = await stack.enter_async_context(
                open_exporters(config, plan, telemetry, resources.health, own, logs, metrics)
            )
        before_tasks = await stack.enter_async_context(AsyncExitStack())
        tasks = await stack.enter_async_context(open_tasks(telemetry, guard))
        if "export" not in stages:
            await _serve_port(tasks, partial(show_metrics, before_tasks, config, telemetry, resources.health, metrics))
        process = Process(
            config=config, plan=plan, logs=logs, telemetry=telemetry, resources=resources, tasks=tasks, stack=stack,
            guard=guard, own=own, history=history, status=status, worker=worker, steps=steps,
        )  # fmt: skip
        start_health_checks(process)
        start_retention(process)
        evaluating = EvaluateTask(process) if "evaluate" in stages else None
        if evaluating is not None:
            before_tasks.push_async_callback(evaluating.close)
        start_exporters(process, exporters)
        watching = await start_watch(process, evaluating) if "watch" in stages else Watching()
        page_port = await start_page(process, watching, evaluating) if "page" in stages else None
        process = replace(process, number=await _number(process, history, config, evaluates=evaluating is not None))
        reload = Reload(Exchange(process, judges), history, path=path, evaluates=evaluating is not None)
        process = await _start_judging(evaluating, watching, reload)
        wanted = follow_wanted(process, stages)
        if "assemble" in stages:
            start_link(process)
            await start_assemble(process, wanted)
        await tasks.claim_groups()
        otlp_port, grpc_port = await start_receive(process, wanted) if "receive" in stages else (None, None)
        tasks.start("configuration", reload.run_forever)
        resources.health.start()
        try:
            yield Running(logs, process.plan, telemetry, otlp_port, reload, process.changes, page_port, grpc_port)
        finally:
            resources.health.drain()


async def take_log_level(process: Process) -> None:
    """See `Apply`."""
    set_level(level_of(process.config.settings.log_level))
