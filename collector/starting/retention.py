"""Starts taking records out of the logs that nobody needs any more."""

from __future__ import annotations

import asyncio
import logging
import time

from collector.config.settings import Settings
from collector.logs.log import LogUnavailable
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
    retention = settings.log.retention
    text_retention = retention if settings.store_text else 0.0  # of what is judged, once nobody needs it any more
    kept = [(logs.spans, text_retention), (logs.turns, text_retention), (logs.evaluations, retention)]
    if logs.unlinked is not None:
        kept.append((logs.unlinked, text_retention))
    while True:
        for log, how_long in kept:
            try:
                await log.truncate(time.time() - how_long)
            except LogUnavailable as error:
                logger.warning("old records of %s cannot be removed now: %s", log.name, error)
        await asyncio.sleep(TRUNCATE_EVERY if settings.store_text else TRUNCATE_TEXT_EVERY)
