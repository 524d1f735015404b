"""The start offsets of newly assigned partitions. Everything here blocks, within limits."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.commits import from_kafka, topic_id_in
from collector.logs.log import Committed, StoredRecord
from collector.telemetry.drop_reasons import LossReason

logger = logging.getLogger(__name__)

PolledRecords = dict[TopicPartition, list[StoredRecord]]
"""The result of a poll."""

Starts = dict[TopicPartition, tuple[Committed | None, int]]
"""The committed position, and the offset of the first record that will be delivered."""


class StartOffsets:
    """Finds the start offsets of partitions. `timeout` (ms) is for each request to a broker.

    `lost` is what their group needed of them and retention has deleted: ranges of offsets. `topic_ids` are those of
    topics as they are now, where a topic may be replaced by another one. `of_now` are the partitions for which the
    group has committed with that id.
    """

    def __init__(self, consumer: Any, timeout: int, topic_ids: Mapping[str, str] | None = None) -> None:
        self._consumer = consumer
        self._timeout = timeout
        self._topic_ids = topic_ids or {}
        self.lost: dict[TopicPartition, list[tuple[int, int, LossReason]]] = {}
        self.of_now: set[TopicPartition] = set()

    def find(
        self, assigned: Sequence[TopicPartition], polled: PolledRecords, replaced: Mapping[TopicPartition, int] = {}
    ) -> Starts:
        """The start of each; unknown ones are omitted, and their records put back.

        `replaced` are known to be of another topic than before, each with the next offset of that, as far as it is
        known; unless the group has committed for the topic of now.
        """
        commits = self._commits(assigned, replaced)
        ends, firsts = self._ends(list(commits)), self._firsts(list(commits))
        starts: Starts = {}
        for where in assigned:
            committed = commits.get(where)
            if committed is not None and committed.offset > ends[where]:
                self._start_over(where, committed, ends[where], polled)
                committed = None
            if committed is not None and committed.low_watermark < firsts[where]:
                self._catch_up(where, polled)
                self.lost[where] = list(_lost(committed, firsts[where]))
            if where in self.lost and committed is None:  # of another topic: what was fetched may be from its middle
                polled.pop(where, None)
            start = committed.low_watermark if committed else self._next_offset(where, polled)
            if start is None:
                self.put_back(where, polled)
            else:
                starts[where] = committed, start
        return starts

    def put_back(self, where: TopicPartition, polled: PolledRecords) -> None:
        """Seek back, so that a later poll returns these records again."""
        records = polled.pop(where, None)
        if records:
            with suppress(ValueError):  # it was revoked again: its new owner reads them
                self._consumer.seek(where, records[0].offset)

    def _commits(
        self, assigned: Sequence[TopicPartition], replaced: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        stored: dict[TopicPartition, OffsetAndMetadata | None] = {
            where: self._consumer.committed(where, metadata=True, timeout_ms=self._timeout) for where in assigned
        }
        commits: dict[TopicPartition, Committed] = {}
        for where, state in stored.items():
            known = None if state is None or state.offset < 0 else from_kafka(state)
            of_now = state is not None and topic_id_in(state) == self._topic_ids.get(where.topic, "")
            if (where in replaced and not of_now) or (state is not None and self._is_of_another(where, state)):
                at = known.offset if known is not None else replaced.get(where, 0)
                self.lost[where] = [(at, at, LossReason.TOPIC_REPLACED)]
                self._consumer.seek_to_beginning(where)
            elif known is not None:
                if not (state and state.metadata):
                    logger.warning(
                        "%s[%d]: the position %d was set by others than evalstream: what lies before it is not read",
                        where.topic, where.partition, known.offset,
                    )  # fmt: skip
                commits[where] = known
                if of_now:
                    self.of_now.add(where)
        return commits

    def _is_of_another(self, where: TopicPartition, state: OffsetAndMetadata) -> bool:
        before, now = topic_id_in(state), self._topic_ids.get(where.topic)
        return before is not None and now is not None and before != now

    def _ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(partitions, timeout_ms=self._timeout) if partitions else {}

    def _firsts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(partitions, timeout_ms=self._timeout) if partitions else {}

    def _next_offset(self, where: TopicPartition, polled: PolledRecords) -> int | None:
        records = polled.get(where)
        return records[0].offset if records else self._consumer.position(where, timeout_ms=self._timeout)

    def _catch_up(self, where: TopicPartition, polled: PolledRecords) -> None:
        """The oldest record needed was deleted: start with what is left, even if new groups start at the end."""
        polled.pop(where, None)
        self._consumer.seek_to_beginning(where)

    def _start_over(self, where: TopicPartition, committed: Committed, end: int, polled: PolledRecords) -> None:
        logger.error(
            "%s[%d] ends at %d, but %d was committed: records were lost, or the topic is another one of the same name;"
            " reading it from its start", where.topic, where.partition, end, committed.offset,
        )  # fmt: skip
        polled.pop(where, None)
        self._consumer.seek_to_beginning(where)


def _lost(committed: Committed, first: int) -> Iterator[tuple[int, int, LossReason]]:
    """The gaps between the group's two offsets and the partition's oldest record."""
    if committed.low_watermark < committed.offset:
        yield committed.low_watermark, min(committed.offset, first), LossReason.RETENTION_REPLAY
    if committed.offset < first:
        yield committed.offset, first, LossReason.RETENTION
