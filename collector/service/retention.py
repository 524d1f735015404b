"""Retention: records that nobody needs any more are removed from the logs."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from collector.backoff import FailureLog
from collector.config.settings import Settings
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.logs.log import Log, LogUnavailable
from collector.page.sums_history import RETENTION
from collector.service.open_logs import Logs
from collector.service.process import Process

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
