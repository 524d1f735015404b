"""Where a group begins in partitions that have just come to this process. Everything here blocks, within limits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.commits import from_kafka
from collector.logs.log import Committed, Stored

logger = logging.getLogger(__name__)

Found = dict[TopicPartition, list[Stored]]
"""What a poll gave."""

Begun = dict[TopicPartition, tuple[Committed | None, int]]
"""What was committed, and the position of the first record that will be given."""


class Beginning:
    """Finds out where partitions begin. `timeout` (ms) is how long each question to a broker may take."""

    def __init__(self, consumer: Any, timeout: int) -> None:
        self._consumer = consumer
        self._timeout = timeout

    def find(self, fresh: Sequence[TopicPartition], found: Found) -> Begun:
        """Where each begins; those that cannot be told yet are left out, and their records put back."""
        commits = self._commits(fresh)
        ends, firsts = self._ends(list(commits)), self._firsts(list(commits))
        begun: Begun = {}
        for where in fresh:
            committed = commits.get(where)
            if committed is not None and committed.position > ends[where]:
                self._start_over(where, committed, ends[where], found)
                committed = None
            if committed is not None and committed.low_watermark < firsts[where]:
                self._catch_up(where, found)
            start = committed.low_watermark if committed else self._position(where, found)
            if start is None:
                self.put_back(where, found)
            else:
                begun[where] = committed, start
        return begun

    def put_back(self, where: TopicPartition, found: Found) -> None:
        """Let a later poll give these records."""
        records = found.pop(where, None)
        if records:
            with suppress(ValueError):  # it has gone again: who owns it now reads them
                self._consumer.seek(where, records[0].position)

    def _commits(self, fresh: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        kept: dict[TopicPartition, OffsetAndMetadata | None] = {
            where: self._consumer.committed(where, metadata=True, timeout_ms=self._timeout) for where in fresh
        }
        return {where: from_kafka(state) for where, state in kept.items() if state is not None and state.offset >= 0}

    def _ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(partitions, timeout_ms=self._timeout) if partitions else {}

    def _firsts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(partitions, timeout_ms=self._timeout) if partitions else {}

    def _position(self, where: TopicPartition, found: Found) -> int | None:
        records = found.get(where)
        return records[0].position if records else self._consumer.position(where, timeout_ms=self._timeout)

    def _catch_up(self, where: TopicPartition, found: Found) -> None:
        """The oldest record that is needed is gone: begin with what is left, also where new groups begin at the end."""
        found.pop(where, None)
        self._consumer.seek_to_beginning(where)

    def _start_over(self, where: TopicPartition, committed: Committed, end: int, found: Found) -> None:
        logger.error(
            "%s[%d] ends at %d, but %d was committed: records were lost, or the topic is another one of the same name;"
            " reading it from its start", where.topic, where.partition, end, committed.position,
        )  # fmt: skip
        found.pop(where, None)
        self._consumer.seek_to_beginning(where)
