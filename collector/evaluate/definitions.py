"""Judges' answers to constant questions, kept in a log: evaluation steps are generated once per definition, for good.

All processes read the same log; where two generated at the same time, the first in the log's order wins everywhere.
"""

from __future__ import annotations

from collector.logs.log import Log, Record


class Definitions:
    """Answers by key, in partition 0 of a log. Open it with `Definitions.read`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept: dict[str, str] = {}
        self._position = 0

    @classmethod
    async def read(cls, log: Log) -> Definitions:
        """Open what the log holds."""
        definitions = cls(log)
        await definitions._catch_up()
        return definitions

    async def load(self, key: str) -> str | None:
        """The answer kept under the key, None if there is none yet."""
        if key not in self._kept:
            await self._catch_up()
        return self._kept.get(key)

    async def save(self, key: str, text: str) -> str:
        """Keep an answer; returns the one that was first, which may be another process's."""
        await self._log.append([Record(key.encode(), text.encode(), partition=0)])
        await self._catch_up()
        return self._kept[key]

    async def _catch_up(self) -> None:
        async for batch in self._log.read(0, self._position):
            for record in batch:
                self._position = record.position + 1
                if record.key is not None:
                    self._kept.setdefault(record.key.decode(), record.value.decode())
