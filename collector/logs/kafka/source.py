"""Topics that others write: consumed like a log, never written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.journal.stall_watchdog import exit_stalled
from collector.logs.kafka.group_consumer import GroupConsumer
from collector.logs.kafka.records import OnUnreadable, log_unreadable
from collector.logs.kafka.settings import KafkaSettings, require_crc32c
from collector.logs.kafka.subscription import (
    BegunTopics,
    NothingBegun,
    OnLost,
    PartitionNumbering,
    Subscription,
    log_lost,
)
from collector.logs.kafka.topics import require_topics
from collector.logs.log import LogRefused, OpenFold


class KafkaSource:
    """Foreign topics. Keys may be missing, aborted transactions are skipped, and there are no ticks.

    Times are the producers', or the broker's if it stamps records; one that decreases within a partition is raised to
    the one before. With several topics a record's `partition` is a number for topic and partition: `where` returns the
    topic.
    """

    def __init__(self, settings: KafkaSettings, subscription: Subscription, timing: ConsumerTiming) -> None:
        """`subscription` has no group yet. See `open`."""
        self._settings = settings
        self._subscription = subscription
        self._topics = subscription.topics
        self._timing = timing
        self._refused: LogRefused | None = None
        self._consumer: GroupConsumer | None = None

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"] = "earliest",
        timing: ConsumerTiming | None = None,
        on_unreadable: OnUnreadable = log_unreadable,
        on_lost: OnLost = log_lost,
        on_stall: Callable[[], None] = exit_stalled,
    ) -> "KafkaSource":
        """Check that the topics exist. `start` is where a group starts that has committed nothing.

        Raises:
            LogError: a topic does not exist, or kafka-python lacks its C checksum.
            LogUnavailable: no broker answers.
        """
        require_crc32c()
        await asyncio.to_thread(require_topics, settings, topics)
        numbering, instance, timing = PartitionNumbering(topics), settings.group_instance_id, timing or ConsumerTiming()
        subscription = Subscription(
            group="",
            topics=numbering,
            instance=instance and f"{instance}-{numbering.names[0]}",
            start=start,
            committed_only=True,
            patience=timing.patience,
            on_unreadable=on_unreadable,
            on_lost=on_lost,
            on_stall=on_stall,
        )
        return cls(settings, subscription, timing)

    def where(self, partition: int) -> tuple[str, int]:
        """The topic, and its own number for the partition, that a record's `partition` stands for."""
        where = self._topics.where(partition)
        return where.topic, where.partition

    def problem(self) -> str | None:
        """Why brokers refuse us now, or let us wait for long; None if they do not."""
        if self._refused is not None:
            return str(self._refused)
        waited = None if self._consumer is None else self._consumer.long_wait
        return None if waited is None else f"the group could not be joined for {waited:.0f} s"

    async def follow(self, group: str, open_fold: OpenFold, *, begun: BegunTopics | None = None) -> None:
        """Deliver records to the folds of the partitions that the group gives to this process, until cancelled.

        `begun` remembers which topics the group reads: a topic that is replaced while no process reads is known by that
        alone.

        Raises:
            LogError: another process uses the same group instance id, or the broker rejects us.
            LogUnavailable: no broker answered at the start, or reading has failed for longer than the patience.
        """
        subscription = replace(
            self._subscription, group=group, begun=begun or NothingBegun(), on_refused=self._note_refused
        )
        self._consumer = GroupConsumer(self._settings, subscription, self._timing, append=None)
        await self._consumer.run(open_fold)

    def _note_refused(self, refused: LogRefused | None) -> None:
        """In the consumer's thread."""
        self._refused = refused
