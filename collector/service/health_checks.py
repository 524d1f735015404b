"""The health checks of a process: its logs, their disk and their consumers. Judges and exporters add their own.

Retention: records that nobody needs any more are removed from the logs.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from collector.backoff import FailureLog
from collector.config.settings import LogSettings, Settings
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.logs.log import Log, LogError, LogUnavailable
from collector.page.sums_history import RETENTION
from collector.service.open_logs import Logs
from collector.service.process import Process

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
    process.tasks.start("log probe", partial(probe.run_forever, _interval(settings)))


def _interval(settings: LogSettings) -> float:
    return PROBE_TOPICS_EVERY if settings.kind == "kafka" else PROBE_EVERY


class LogProbe:
    """Sees again and again that the logs can be written."""

    def __init__(self, logs: Iterable[Log], clock: Callable[[], float] = time.monotonic) -> None:
        self._logs = list(logs)
        self._clock = clock
        self._problem: str | None = None
        self._started: float | None = None

    def problem(self) -> str | None:
        """The finding of the last probe, or that the one in progress takes long."""
        if self._started is not None and (waited := self._clock() - self._started) > ANSWERS_WITHIN:
            return f"has not answered for {waited:.0f} s"
        return self._problem

    async def run_forever(self, interval: float) -> None:
        """Probe until cancelled, with `interval` seconds between."""
        while True:
            await self.probe()
            await asyncio.sleep(interval)

    async def probe(self) -> None:
        """Probe each log once, up to the first that cannot be written."""
        self._started = self._clock()
        try:
            for log in self._logs:
                await log.probe()
        except LogError as error:
            self._problem = str(error)
        except Exception as error:
            self._problem = repr(error)
            raise
        else:
            self._problem = None
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
    consumed: list[tuple[Log, str]] = [(logs.spans, "assemble"), (logs.turns, "evaluate")]
    if logs.unlinked is not None:
        consumed.append((logs.unlinked, "link"))
    if logs.judged_spans is not None:
        consumed.append((logs.judged_spans, JUDGED_SPANS_GROUP))
    failures = {log.name: FailureLog(f"removing old records of {log.name}") for log in logs}
    while True:
        for log, consumer in (*consumed, *((log, None) for log in (logs.evaluations, logs.history) if log is not None)):
            try:
                age = RETENTION if log is logs.history else settings.log.retention
                await log.truncate(time.time() - age)
                # Not before the consumer has read them: it may start later.
                if consumer is not None and not settings.store_text:
                    await log.truncate(time.time(), (consumer,))
            except LogUnavailable as error:
                failures[log.name].failed(error)
            else:
                failures[log.name].succeeded()
        await asyncio.sleep(TRUNCATE_EVERY if settings.store_text else TRUNCATE_TEXT_EVERY)
