"""Several workers of one command: started together, told together, ended together, and shown as one process.

They are forked, so that everything is imported and read once. They share a SQLite file: each has partitions of the
stages that all of them run. One server of /metrics, /readyz and /healthz stands in front of them, and joins what they
report.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import aiohttp
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from collector.admission.listener import Address, serving
from collector.admission.shared_port import SharedPort
from collector.config.configured import Config
from collector.config.settings import LogSettings
from collector.errors import ConfigError
from collector.evaluate.stage import GROUP
from collector.export.scrape import MOST_CONNECTIONS, application_of
from collector.logs.sqlite_shares import PartitionShare, group_in_use, lock_path, reserve
from collector.service.app import require_ports, serve
from collector.service.workers.worker import Worker
from collector.telemetry.logging import LogLevel, level_of, log_as_json
from evaluators.wire.http_client import HttpClient

_METRICS_WITHIN, _READY_WITHIN = 8.0, 0.8
"""Seconds for an answer: below Prometheus' usual 10 s, and below the second that probes wait. If one worker hangs,
the others' metrics still arrive. One that is known to stand still is not waited for by metrics either.
"""
ASK_EVERY, SILENT_AFTER = 5.0, 10.0
"""Seconds between two questions whether a worker answers, and without an answer until the log says so."""
_LONGEST = 64 * 2**20


@asynccontextmanager
async def serve_joint_metrics(workers: Sequence[Worker], *, host: str, port: int) -> AsyncGenerator[int]:
    """Serve until left; gives the port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    async with AsyncExitStack() as stack:
        asking = {worker.number: await stack.enter_async_context(_asking(worker)) for worker in workers}
        standing = set[int]()
        application = _application(asking, standing)
        at = Address("export.prometheus", host, port)
        server = serving(application, address=at, max_connections=MOST_CONNECTIONS, idle_timeout=75.0, stop_grace=1.0)
        stack.callback(asyncio.create_task(_watch(asking, standing)).cancel)
        yield await stack.enter_async_context(server)


async def _watch(asking: Mapping[int, HttpClient], standing: set[int]) -> None:
    """Keep the numbers of the workers that stand still; write a line when one does, and when it answers again."""
    silent_since = dict[int, float]()
    while True:
        await asyncio.sleep(ASK_EVERY)
        answers = await asyncio.gather(*(_ask(client, "/healthz", {}, _READY_WITHIN) for client in asking.values()))
        now = time.monotonic()
        for number, (text, _) in zip(asking, answers, strict=True):
            if text is not None:
                silent_since.pop(number, None)
                if number in standing:
                    standing.discard(number)
                    logger.info("worker %d answers again", number)
            elif now - silent_since.setdefault(number, now) >= SILENT_AFTER and number not in standing:
                standing.add(number)
                logger.error(
                    "worker %d has not answered for %.0f s: it stands still", number, now - silent_since[number]
                )


def _asking(worker: Worker) -> HttpClient:
    return HttpClient(timeout=_METRICS_WITHIN, longest=_LONGEST, socket=str(worker.metrics))


def _application(asking: dict[int, HttpClient], standing: set[int]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        headers = {"Accept": request.headers.get("Accept", "")}
        answers = await asyncio.gather(
            *(
                _ask(client, request.path_qs, headers, _READY_WITHIN if number in standing else _METRICS_WITHIN)
                for number, client in asking.items()
            )
        )
        texts = {number: text for number, (text, _) in zip(asking, answers, strict=True) if text is not None}
        kind = next((kind for text, kind in answers if text is not None), CONTENT_TYPE_LATEST)
        return web.Response(body=join_metrics(texts).encode(), headers={"Content-Type": kind})

    async def ready(_request: web.Request) -> web.Response:
        answers = await asyncio.gather(*(_ask(client, "/readyz", {}, _READY_WITHIN) for client in asking.values()))
        status, body = join_readiness({number: text for number, (text, _) in zip(asking, answers, strict=True)})
        return web.json_response(body, status=status)

    return application_of(metrics, ready)  # alive while it answers: it ends with any worker, which ends by itself


async def _ask(
    client: HttpClient, path: str, headers: dict[str, str], within: float = _METRICS_WITHIN
) -> tuple[str | None, str]:
    """The text and its content type; None without an answer."""
    try:
        async with asyncio.timeout(within):
            answer = await client.request("GET", f"http://worker{path}", headers=headers)
    except (aiohttp.ClientError, OSError):
        return None, ""
    return answer.content.decode(errors="replace"), answer.headers.get("Content-Type", "")


_END = "# EOF"


@dataclass(slots=True)
class _Family:
    comments: dict[str, None] = field(default_factory=dict[str, None])
    samples: list[str] = field(default_factory=list[str])


def join_metrics(texts: Mapping[int, str]) -> str:
    """The metrics of workers by their numbers, in Prometheus' text format or OpenMetrics, with a label `worker`."""
    families: dict[str, _Family] = {}
    ends = False
    for worker, text in texts.items():
        family = families.setdefault("", _Family())
        for line in text.splitlines():
            if line == _END:
                ends = True
            elif line.startswith("# "):
                family = families.setdefault(line.split(" ", 3)[2], _Family())
                family.comments[line] = None
            elif line:
                family.samples.append(_of_worker(line, worker))
    lines = [line for family in families.values() for line in (*family.comments, *family.samples)]
    return "\n".join([*lines, *([_END] if ends else []), ""])


def _of_worker(sample: str, worker: int) -> str:
    name, space, rest = sample.partition(" ")
    name, brace, labels = name.partition("{")
    if not brace:
        return f'{name}{{worker="{worker}"}}{space}{rest}'
    return f'{name}{{worker="{worker}",{labels}{space}{rest}'


def join_readiness(answers: Mapping[int, str | None]) -> tuple[int, dict[str, Any]]:
    """Status and body of /readyz, joined from the workers' by their numbers; None for one that did not answer.

    All have to be ready.
    """
    read = {number: _readiness(answer) for number, answer in answers.items()}
    problems = [f"worker {number}: {problem}" for number, body in read.items() for problem in body["problems"]]
    checks = {f"worker {number}: {name}": of for number, body in read.items() for name, of in body["checks"].items()}
    unready = not read or any(body["status"] == "not ready" for body in read.values())
    status = "not ready" if unready else "degraded" if problems else "ready"
    return 503 if unready else 200, {"status": status, "problems": problems, "checks": checks}


def _readiness(answer: str | None) -> dict[str, Any]:
    if answer is None:
        return {"status": "not ready", "problems": ["it does not answer"], "checks": {}}
    return cast("dict[str, Any]", json.loads(answer))


GROUPS = frozenset({("spans", "assemble"), ("unlinked", "link"), ("turns", GROUP)})
"""Log and consumer group of each stage that every worker runs. All other stages run only in the first worker."""


def share_file(settings: LogSettings, workers: int) -> Sequence[PartitionShare | None]:
    """Each worker's share of the file, which belongs to the workers from now on; None if the logs are not a file.

    Raises:
        GroupInUse: another process has the file.
        ConfigError: nothing can be written beside it.
    """
    if settings.kind != "sqlite":
        return [None] * workers
    command, file = uuid4().hex, Path(settings.path)
    for log, group in sorted(GROUPS):
        try:
            is_ours = reserve(lock_path(file, log, group), command)
        except sqlite3.Error as error:
            raise ConfigError(f"log: {file}: {error}; see that the folder exists and can be written") from error
        if not is_ours:
            raise group_in_use(file, log, group)
    return [PartitionShare(number, workers, command, GROUPS) for number in range(workers)]


logger = logging.getLogger(__name__)

SHARED_PORTS = ("otlp_http", "otlp_grpc")
"""The listeners that all workers run, on one shared port each."""

_KILLED = 128
"""A status of an ended process from here on is a signal's number above it, as shells write it."""


def serve_workers(config: Config, divided: Sequence[frozenset[str]], *, log_level: LogLevel | None = None) -> int:
    """Run a worker for each set of stages until SIGTERM or SIGINT, or until one ends; gives the exit status.

    Returns in each worker, too, with 0, once that has been stopped; what ends a worker is raised there.

    Raises:
        ConfigError: a port of this process is taken, or another process has the file.
    """
    asyncio.run(require_ports(config, divided[0]))
    shares = share_file(config.settings.log, len(divided))
    ports = {name: SharedPort.among(len(divided)) for name in SHARED_PORTS}
    folder = Path(tempfile.mkdtemp(prefix="evalstream-"))
    lifeline, ours = os.pipe()
    workers: dict[int, Worker] = {}
    for number, (stages, share) in enumerate(zip(divided, shares, strict=True), 1):
        own = {name: among[number - 1] for name, among in ports.items()}
        worker = Worker(number, folder / f"{number}.sock", lifeline, own, share)
        pid = os.fork()
        if pid == 0:
            os.setsid()  # Ctrl-C is for the first process alone, which hands it on
            os.close(ours)
            for port in own.values():
                port.leave_others()
            serve(config, stages, log_level=log_level, worker=worker)
            return 0
        workers[pid] = worker
    os.close(lifeline)
    for among in ports.values():
        among[0].close()
    log_as_json(level_of(log_level or config.settings.log_level))
    for (pid, worker), stages in zip(workers.items(), divided, strict=True):
        logger.info("worker %d is process %d: %s", worker.number, pid, ", ".join(sorted(stages)))
    try:
        return asyncio.run(_supervise(config, workers))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _supervise(config: Config, workers: Mapping[int, Worker]) -> int:
    supervision = _Supervision(workers)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, supervision.reap)
    for signals in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signals, supervision.stop)
    loop.add_signal_handler(signal.SIGHUP, supervision.tell, signal.SIGHUP)
    supervision.reap()  # who has ended before
    async with AsyncExitStack() as stack:
        stack.push_async_callback(supervision.ended.wait)
        if settings := config.prometheus:
            server = serve_joint_metrics([*workers.values()], host=settings.host, port=settings.port)
            try:
                await stack.enter_async_context(server)
            except ConfigError:
                supervision.stop()
                raise
        await supervision.ended.wait()
    return supervision.status


class _Supervision:
    """The workers that run. Once a worker has ended by itself, the others are stopped."""

    def __init__(self, workers: Mapping[int, Worker]) -> None:
        self.ended = asyncio.Event()
        self.status = 0
        """The exit status of all: that of the first worker that failed."""
        self._running = dict(workers)
        self._stopping = False

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to every worker."""
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """Stop all workers; asked again, they end at once."""
        self._stopping = True
        self.tell(signal.SIGTERM)

    def reap(self) -> None:
        """Take note of workers that have ended."""
        for pid, worker in list(self._running.items()):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._running[pid]
                self._note(worker, os.waitstatus_to_exitcode(code))
        if not self._running:
            self.ended.set()

    def _note(self, worker: Worker, code: int) -> None:
        status = _KILLED - code if code < 0 else code
        if not self._stopping:
            logger.error("worker %d has ended with status %d; the others stop, too", worker.number, status)
            self.status = status or 1
            self.stop()
        else:
            self.status = self.status or status
