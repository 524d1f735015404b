"""The subscription of a group, and the events that its consumer thread reports."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafka.structs import TopicPartition

from collector.logs.journal.stall_watchdog import exit_stalled
from collector.logs.kafka.group_watch import JoinWait
from collector.logs.kafka.records import OnUnreadable, log_unreadable
from collector.logs.log import Committed, LogError, LogRefused, StoredRecord
from collector.telemetry.drop_reasons import LossReason

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Records of a partition that a consumer needed and no broker has: offsets from `offset` up to `end_offset`.

    `log` is the log's name, or the topic of a source. If a topic is compacted, or holds transactions, not every offset
    was a record: `count` is then the most that it can be. The unread records that a replaced topic held from `offset`
    on are not known: such a partition counts as one record.
    """

    consumer: str
    log: str
    topic: str
    partition: int
    offset: int
    end_offset: int
    reason: LossReason

    @property
    def count(self) -> int:
        """How many."""
        return 1 if self.reason == LossReason.TOPIC_REPLACED else self.end_offset - self.offset


OnLost = Callable[[LostRecords], None]
"""Called with each loss, in a thread of the log: must be quick and must not raise."""


def log_lost(lost: LostRecords) -> None:
    """Log one line for each, with the remedy."""
    if lost.reason == LossReason.TOPIC_REPLACED:
        logger.error(
            "%s[%d] was deleted and made again: unread records of the deleted topic%s, if there were any, are lost. The"
            " new one is read from its start",
            lost.topic, lost.partition, f" from offset {lost.offset} on" if lost.offset else "",
        )  # fmt: skip
        return
    what = {
        LossReason.RETENTION: "were deleted by retention before %s read them: they are lost",
        LossReason.RETENTION_REPLAY: "were deleted by retention while %s still needed them: "
        "what was open in them is lost",
    }[lost.reason] % lost.consumer
    logger.error(
        "%s[%d]: %d records (offsets %d to %d) %s. Raise retention.ms (or retention.bytes) of the topic, and let %s"
        " catch up sooner; what the senders still have can be sent again",
        lost.topic, lost.partition, lost.count, lost.offset, lost.end_offset - 1, what, lost.consumer,
    )  # fmt: skip


class PartitionNumbering:
    """Numbers the partitions of several topics. With one topic they keep their own numbers."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.names = sorted(topics)
        self._index = {topic: index for index, topic in enumerate(self.names)}

    def number_of(self, where: TopicPartition) -> int:
        """The number of a topic's partition; stays when a topic gets more partitions."""
        return where.partition * len(self.names) + self._index[where.topic]

    def where(self, number: int) -> TopicPartition:
        """The partition with this number."""
        partition, index = divmod(number, len(self.names))
        return TopicPartition(self.names[index], partition)


class BegunTopics(Protocol):
    """Remembers which topic of a name a group has begun to read, by the topic's id.

    The group's commits do not tell: with a topic brokers delete its commits, and a new topic of that name then looks
    like one that the group has never read.
    """

    def noted_id(self, where: TopicPartition, /) -> str | None:
        """The id of the topic as it was when the group began with the partition. Called in other threads."""
        ...

    def begun(self, where: TopicPartition, topic_id: str, /) -> None:
        """The group has committed for the partition of the topic with this id. Called in the event loop."""


class NothingBegun:
    """Knows of no topic, and remembers none."""

    def noted_id(self, _where: TopicPartition, /) -> str | None:
        """Nothing."""
        return None

    def begun(self, _where: TopicPartition, _topic_id: str, /) -> None:
        """Forget it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topic to read and how: `start` is where a new group starts, `committed_only` skips aborted transactions.

    Losses are reported under the names `log` (without it, the topic) and `consumer` (without it, the group). `begun`
    remembers the topics of others. `on_stall` is called when the thread hangs, and in the thread `on_refused`: with the
    reason while brokers refuse us, with None when they do not.
    """

    group: str
    topics: PartitionNumbering
    instance: str | None
    log: str | None = None
    consumer: str | None = None
    begun: BegunTopics = field(default_factory=NothingBegun)
    wait: JoinWait = field(default_factory=JoinWait)
    start: str = "earliest"
    committed_only: bool = False
    patience: float = 60.0
    on_unreadable: OnUnreadable = log_unreadable
    on_lost: OnLost = log_lost
    on_stall: Callable[[], None] = exit_stalled
    on_refused: Callable[[LogRefused | None], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A partition was assigned to this process. Each time it has another `epoch`: commits for earlier ones are void."""

    partition: int
    epoch: int
    committed: Committed | None
    start: int


@dataclass(frozen=True, slots=True)
class Polled:
    """Records of one partition, perhaps none, and the offset after them and after what is no record."""

    partition: int
    records: Sequence[StoredRecord]
    end_offset: int
    size: int


class GroupListener(Protocol):
    """Receives the events of a consumer thread. All but `pending` is called in the event loop, in order."""

    def assigned(self, assigned: Assigned) -> None:
        """A partition was assigned."""

    def revoked(self, partitions: Sequence[int]) -> None:
        """Partitions were revoked: nothing is committed for them any more."""

    def polled(self, polled: Sequence[Polled]) -> None:
        """Records were fetched."""

    def confirmed(self, sent_at: float) -> None:
        """A broker has confirmed the membership, by its answer to a heartbeat of that time (s since boot)."""

    def failed(self, error: LogError) -> None:
        """The thread has ended."""

    def pending(self, partition: int) -> Committed | None:
        """The position to commit for a partition at this moment. Called in other threads: must only read."""
        ...
