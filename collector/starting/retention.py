"""Starts taking records out of the logs that nobody needs any more."""

from __future__ import annotations

import asyncio
import logging
import time

from collector.config.settings import Settings
from collector.logs.log import Log, LogUnavailable
from collector.opening import Logs
from collector.starting.process import Process

logger = logging.getLogger(__name__)

TRUNCATE_EVERY = 600.0
"""Seconds between two looks for records that nobody needs any more."""
TRUNCATE_TEXT_EVERY = 10.0
"""The same where no text is to be stored."""


def start_retention(process: Process) -> None:
    """Truncate the logs from time to time; topics have a retention of their own."""
    if process.config.settings.log.kind != "kafka":
        process.tasks.start(_truncate_forever(process.logs, process.config.settings))


async def _truncate_forever(logs: Logs, settings: Settings) -> None:
    judged: list[tuple[Log, str]] = [(logs.spans, "assemble"), (logs.turns, "evaluate")]
    if logs.unlinked is not None:
        judged.append((logs.unlinked, "link"))
    while True:
        for log, reader in (*judged, (logs.evaluations, None)):
            try:
                await log.truncate(time.time() - settings.log.retention)
                if reader is not None and not settings.store_text:  # not before it was read: the reader may start later
                    await log.truncate(time.time(), (reader,))
            except LogUnavailable as error:
                logger.warning("old records of %s cannot be removed now: %s", log.name, error)
        await asyncio.sleep(TRUNCATE_EVERY if settings.store_text else TRUNCATE_TEXT_EVERY)
