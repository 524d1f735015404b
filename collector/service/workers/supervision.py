"""Several workers of one command: started together, told together, ended together.

They are forked, so that everything is imported and read once.

Workers of one command share a SQLite file: each has partitions of the stages that all of them run.
"""

import asyncio
import logging
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from uuid import uuid4

from collector.admission.shared_port import SharedPort
from collector.config.configured import Config
from collector.config.settings import LogSettings
from collector.errors import ConfigError
from collector.evaluate.stage import GROUP
from collector.export.prometheus import PrometheusSettings
from collector.logs.sqlite_shares import PartitionShare, group_in_use, lock_path, reserve
from collector.service.app import serve
from collector.service.workers.joint_metrics import serve_joint_metrics
from collector.service.workers.worker import Worker
from collector.telemetry.logging import LogLevel, level_of, log_as_json

GROUPS = frozenset({("spans", "assemble"), ("unlinked", "link"), ("turns", GROUP)})
"""By log, what consumes the partitions of the stages that every worker runs; others are in the first one alone."""


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
        settings = config.exporters.get("prometheus")
        if isinstance(settings, PrometheusSettings):
            server = serve_joint_metrics([*workers.values()], host=settings.host, port=settings.port)
            try:
                await stack.enter_async_context(server)
            except OSError as error:
                supervision.stop()
                raise ConfigError(
                    f"/metrics cannot be served on {settings.host}:{settings.port} ({error.strerror}); "
                    "choose another host or port"
                ) from error
        await supervision.ended.wait()
    return supervision.status


class _Supervision:
    """The workers that run. Once one has ended unasked, the others are stopped."""

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
