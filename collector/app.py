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
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

from collector.config.loading import Config
from collector.errors import ConfigError
from collector.evaluate.definitions import Definitions
from collector.evaluate.plan import Plan
from collector.evaluate.purse import Purse
from collector.export.stage import ExportStage
from collector.guards import Guards
from collector.judges import open_judges
from collector.logging_json import log_as_json
from collector.opening import Logs, open_logs
from collector.planning import plan_of
from collector.starting.assemble import start_assemble
from collector.starting.evaluate import start_evaluate
from collector.starting.export import open_exporters, serving_metrics
from collector.starting.link import start_link
from collector.starting.page import start_page
from collector.starting.process import Process, open_tasks
from collector.starting.receive import start_grpc, start_http, start_sources
from collector.starting.retention import start_retention
from collector.starting.watch import Watching, start_watch
from collector.telemetry import BUILD_INFO, CONFIG_INFO, Telemetry
from evaluators.judges.openai import prepare

logger = logging.getLogger(__name__)

STAGES = ("receive", "assemble", "evaluate", "export", "watch", "page")


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
        what = ", ".join(each for each in STAGES if each in stages)
        logger.info("ready: %s%s", what, _where(config, service))
        await stop.wait()
        logger.info("stopping: no more is taken, what runs may end; a second signal ends it now")
    logger.info("stopped")


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(1)
    stop.set()


def _where(config: Config, service: Running) -> str:
    """What the service listens on, for its log."""
    where = "" if service.otlp_port is None else f"; OTLP/HTTP on port {service.otlp_port}"
    where += "" if service.grpc_port is None else f"; OTLP/gRPC on port {service.grpc_port}"
    if config.settings.page and service.page_port is not None:
        scheme = "https" if config.settings.page.tls else "http"
        where += f"; page on {scheme}://{config.settings.page.host}:{service.page_port}/"
    return where


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
        linking = config.settings.assemble.link is not None
        logs = await stack.enter_async_context(open_logs(config.settings.log, linking=linking))
        judges = await stack.enter_async_context(
            open_judges(config, await Definitions.read(logs.definitions), telemetry)
        )
        plan = plan_of(config, judges)
        exporters: Sequence[ExportStage] = ()
        if "export" in stages:
            exporters = await stack.enter_async_context(open_exporters(config, plan, telemetry, guards.health))
        else:
            await stack.enter_async_context(serving_metrics(config, telemetry, guards.health))
        stack.push_async_callback(guards.safeguards.close)
        tasks = await stack.enter_async_context(open_tasks(telemetry))
        process = Process(
            config=config, plan=plan, logs=logs, telemetry=telemetry, guards=guards, tasks=tasks, stack=stack
        )
        start_retention(process)
        for exporter in exporters:
            tasks.follow(logs.evaluations, exporter.group, exporter.open_fold)
        watching = await start_watch(process) if "watch" in stages else Watching()
        purse = Purse(plan, logs.turns.partitions) if "evaluate" in stages else None
        page_port = await start_page(process, watching, purse) if "page" in stages else None
        if purse is not None:
            start_evaluate(process, purse)
        if "assemble" in stages:
            start_link(process)
            start_assemble(process)
        otlp_port = grpc_port = None
        if "receive" in stages:
            await start_sources(process)
            otlp_port, grpc_port = await start_http(process), await start_grpc(process)
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
