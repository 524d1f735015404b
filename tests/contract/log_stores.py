"""The logs under contract, each behind the same few verbs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Committed, Log
from collector.logs.memory import MemoryLog
from collector.logs.sqlite import SqliteLog

TIMING = ConsumerTiming(tick_interval=0.005, commit_interval=0.02, patience=0.2)


class Store(Protocol):
    """Where logs are kept, through restarts of the process that uses them."""

    async def open(self, partitions: int = 2, timing: ConsumerTiming = TIMING) -> Log: ...

    async def restart(self) -> Log:
        """The log as the process finds it when it comes again."""
        ...

    async def commits(self, group: str) -> Mapping[int, Committed]: ...

    async def close(self) -> None: ...


class MemoryStore:
    max_record_bytes = 1 << 20

    async def open(self, partitions: int = 2, timing: ConsumerTiming = TIMING) -> Log:
        self._log = MemoryLog("spans", partitions, timing=timing, max_record_bytes=self.max_record_bytes)
        return self._log

    async def restart(self) -> Log:
        return self._log

    async def commits(self, group: str) -> Mapping[int, Committed]:
        return dict(self._log._commits.get(group, {}))

    async def close(self) -> None:
        await self._log.close()


class SqliteStore:
    max_record_bytes = 1 << 20

    def __init__(self, folder: Path) -> None:
        self.path = folder / "logs.db"

    async def open(self, partitions: int = 2, timing: ConsumerTiming = TIMING) -> Log:
        self._arguments = partitions, timing
        logs = await SqliteLog.open(
            self.path, ["spans"], partitions, timing=timing, max_record_bytes=self.max_record_bytes
        )
        self._log = logs["spans"]
        return self._log

    async def restart(self) -> Log:
        await self._log.close()
        return await self.open(*self._arguments)

    async def commits(self, group: str) -> Mapping[int, Committed]:
        rows = await self._log._file.read(
            lambda connection: connection.execute(
                'SELECT partition, low_watermark, position, note FROM commits WHERE "group" = ?', [group]
            ).fetchall()
        )
        return {partition: Committed(*state) for partition, *state in rows}

    async def close(self) -> None:
        await self._log.close()
