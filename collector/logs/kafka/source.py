"""Topics that others write: followed like a log, never written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from collector.logs.following import Pace
from collector.logs.kafka.owning import Owning
from collector.logs.kafka.records import OnPoison, log_poison
from collector.logs.kafka.settings import KafkaSettings, require_crc32c
from collector.logs.kafka.subscription import Subscription, Topics
from collector.logs.kafka.topics import require_topics
from collector.logs.kafka.watchdog import exit_stalled
from collector.logs.log import OpenFold


class KafkaSource:
    """Foreign topics. Keys may be missing, aborted transactions are left out, and there are no ticks.

    Times are those of the producers, or of the broker where it stamps; a time that falls within a partition is raised
    to the one before. With several topics a record's `partition` is a number that stands for topic and partition:
    `topic_of` tells the topic.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"],
        pace: Pace,
        on_poison: OnPoison,
        on_stall: Callable[[], None],
    ) -> None:
        """See `open`."""
        self._settings = settings
        self._topics = Topics(topics)
        self._start = start
        self._pace = pace
        self._on_poison = on_poison
        self._on_stall = on_stall

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"] = "earliest",
        pace: Pace | None = None,
        on_poison: OnPoison = log_poison,
        on_stall: Callable[[], None] = exit_stalled,
    ) -> KafkaSource:
        """See that the topics are there. `start` is where a group begins that has committed nothing.

        Raises:
            LogError: a topic is not there, or kafka-python lacks its C checksum.
            LogUnavailable: no broker answers.
        """
        require_crc32c()
        await asyncio.to_thread(require_topics, settings, topics)
        return cls(settings, topics, start=start, pace=pace or Pace(), on_poison=on_poison, on_stall=on_stall)

    def topic_of(self, partition: int) -> str:
        """The topic that a record's `partition` belongs to."""
        return self._topics.where(partition).topic

    def where(self, partition: int) -> tuple[str, int]:
        """The topic, and its own number for the partition, that a record's `partition` stands for."""
        where = self._topics.where(partition)
        return where.topic, where.partition

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions that the group gives to this process, until cancelled.

        Raises:
            LogError: another process uses the same group instance id, or the broker refuses us.
            LogUnavailable: no broker was there to begin with, or reading has failed for longer than the patience.
        """
        instance = self._settings.group_instance_id
        subscription = Subscription(
            group=group,
            topics=self._topics,
            instance=instance and f"{instance}-{self._topics.names[0]}",
            start=self._start,
            committed_only=True,
            patience=self._pace.patience,
        )
        owning = Owning(
            self._settings,
            subscription,
            self._pace,
            append=None,
            on_poison=self._on_poison,
            on_stall=self._on_stall,
        )
        await owning.run(open_fold)

    async def close(self) -> None:
        """Nothing to let go of: the connections end with `follow`."""
