"""Judges' answers to constant questions, kept in a log: evaluation steps are generated once per definition, for good.

All processes read the same log; where two generated at the same time, the first in the log's order wins everywhere.
"""

from __future__ import annotations

import asyncio
import logging

from collector.evaluate.ledger import persistently
from collector.logs.log import Log, LogUnavailable, Record

logger = logging.getLogger(__name__)


class Definitions:
    """Answers by key, in partition 0 of a log. Open it with `Definitions.read`.

    While the log is away, `load` and `save` wait, and try again every `wait` seconds: who asks could not go on.
    """

    def __init__(self, log: Log, *, wait: float = 1.0) -> None:
        self._log = log
        self._wait = wait
        self._kept: dict[str, str] = {}
        self._position = 0

    @classmethod
    async def read(cls, log: Log, *, wait: float = 1.0) -> Definitions:
        """Open what the log holds. Raises LogUnavailable."""
        definitions = cls(log, wait=wait)
        await definitions._catch_up()
        return definitions

    async def load(self, key: str) -> str | None:
        """The answer kept under the key, None if there is none yet."""
        if key not in self._kept:
            await self._catch_up_in_the_end()
        return self._kept.get(key)

    async def save(self, key: str, text: str) -> str:
        """Keep an answer; returns the one that was first, which may be another process's."""
        await persistently(self._log, Record(key.encode(), text.encode(), partition=0), self._wait)
        await self._catch_up_in_the_end()
        return self._kept[key]

    async def _catch_up_in_the_end(self) -> None:
        while True:
            try:
                return await self._catch_up()
            except LogUnavailable as error:
                logger.warning("definitions cannot be read (%s); trying again in %g s", error, self._wait)
                await asyncio.sleep(self._wait)

    async def _catch_up(self) -> None:
        async for batch in self._log.read(0, self._position):
            for record in batch:
                self._position = record.position + 1
                if record.key is not None:
                    self._kept.setdefault(record.key.decode(), record.value.decode())
