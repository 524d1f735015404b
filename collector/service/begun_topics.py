"""Notes of the topics of others that this deployment has begun to read, by their ids, in the definitions log.

Brokers delete what a group has committed for a topic together with the topic. A topic that is deleted and made again
while no process runs is known by these notes alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import orjson

from collector.backoff import Backoff
from collector.evaluate.recovery.ledger import RETRY, append_with_retry
from collector.logs.log import Log, LogUnavailable, Record

if TYPE_CHECKING:
    from kafka.structs import TopicPartition

BEGUN_KEY = b"source topics"
"""The key of the notes. Of those of one partition the last counts."""


class TopicNotes:
    """The `BegunTopics` of one group. Open it with `TopicNotes.open`, and keep `write_forever` running.

    A partition without a note is known by any other of its topic.
    """

    def __init__(self, log: Log, group: str, noted: dict[tuple[str, int], str], backoff: Backoff = RETRY) -> None:
        self._log = log
        self._group = group
        self._noted = noted
        self._backoff = backoff
        self._unwritten: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue()

    @classmethod
    async def open(cls, log: Log, group: str, *, backoff: Backoff = RETRY) -> TopicNotes:
        """Read the notes of a group; retries while the log is unavailable."""
        noted = await backoff.repeat(lambda: _read(log, group), LogUnavailable, action="reading the definitions log")
        return cls(log, group, noted, backoff)

    def known(self, where: TopicPartition) -> str | None:
        """The id under which the topic was read before; None if it was not."""
        noted = dict(self._noted)  # another thread writes
        others = [topic_id for (topic, _), topic_id in noted.items() if topic == where.topic]
        return noted.get((where.topic, where.partition)) or next(iter(others), None)

    def begun(self, where: TopicPartition, topic_id: str) -> None:
        """Have it noted, some time."""
        self._noted[where.topic, where.partition] = topic_id
        self._unwritten.put_nowait((where.topic, where.partition, topic_id))

    async def write_forever(self) -> None:
        """Write what was begun, as it comes; waits while the log is unavailable."""
        while True:
            topic, partition, topic_id = await self._unwritten.get()
            note = {"group": self._group, "topic": topic, "partition": partition, "id": topic_id}
            record = Record(BEGUN_KEY, orjson.dumps(note), partition=0)
            await append_with_retry(self._log, record, backoff=self._backoff)


async def _read(log: Log, group: str) -> dict[tuple[str, int], str]:
    noted: dict[tuple[str, int], str] = {}
    async for batch in log.read(0, await log.start_offset(0)):
        for record in batch:
            if record.key == BEGUN_KEY:
                note = cast("dict[str, Any]", orjson.loads(record.value))
                if note["group"] == group:
                    noted[note["topic"], note["partition"]] = note["id"]
    return noted
