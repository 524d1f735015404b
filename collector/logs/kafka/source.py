"""Topics that others write: consumed like a log, never written."""

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from collector.logs.consumer_lag import TopicOfSource
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.kafka.group_consumer import GroupConsumer
from collector.logs.kafka.range_reader import RangeReader
from collector.logs.kafka.settings import KafkaSettings, require_crc32c
from collector.logs.kafka.subscription import (
    BegunTopics,
    NothingBegun,
    OnLost,
    PartitionNumbering,
    Subscription,
    log_lost,
)
from collector.logs.kafka.topics import require_topics, retention
from collector.logs.log import LogRefused, LogUnavailable, OpenFold

TOLERANCE = 1.0
"""Seconds by which topics that are read in step may be apart, and after which brokers are asked again where the topics
end."""


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
        self._range_reader = RangeReader(settings, subscription.on_unreadable)
        self._ends: dict[int, int] = {}
        self._ask_at = -math.inf

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"] = "earliest",
        timing: ConsumerTiming | None = None,
        on_lost: OnLost = log_lost,
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
            on_lost=on_lost,
        )
        return cls(settings, subscription, timing)

    def where(self, partition: int) -> tuple[str, int]:
        """The topic, and its own number for the partition, that a record's `partition` stands for."""
        return self._topics.where(partition)

    def each_topic(self) -> Sequence[TopicOfSource]:
        """Its topics, one by one."""
        names, ends = self._topics.names, self._end_offsets
        return [
            TopicOfSource(topic, ends, partial(asyncio.to_thread, partial(retention, self._settings, topic)))
            for topic in names
        ]

    async def _end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        ends = await self._range_reader.offsets([self._topics.where(partition) for partition in partitions])
        return {partition: ends[self._topics.where(partition)] for partition in partitions}

    async def await_older(self, than: float) -> None:
        """Wait until all records of this process's partitions that are older than this time (s since the epoch) are
        delivered.

        While the topics cannot be read, such records are unknown, so it waits until they can be read.
        """
        while not await self._has_delivered(than - TOLERANCE):  # noqa: ASYNC110 - brokers have to be asked
            await asyncio.sleep(0.05)

    async def _has_delivered(self, until: float) -> bool:
        consumer = self._consumer
        if consumer is None or not consumer.is_member or self.problem() is not None:
            return False
        if time.monotonic() >= self._ask_at and any(feed.time < until for feed in consumer.feeds.values()):
            self._ask_at, self._ends = time.monotonic() + TOLERANCE, {}
            with suppress(LogUnavailable):
                self._ends = await self._end_offsets([*consumer.feeds])
        ends, feeds = self._ends, consumer.feeds.items()
        return all(feed.time >= until or feed.offset >= ends.get(number, math.inf) for number, feed in feeds)

    def problem(self) -> str | None:
        """Why brokers refuse us now, or let us wait for long; None if they do not."""
        if self._refused is not None:
            return str(self._refused)
        waited = self._subscription.wait.long_wait
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
        try:
            await self._consumer.run(open_fold)
        finally:
            await self._range_reader.close()

    def _note_refused(self, refused: LogRefused | None) -> None:
        """In the consumer's thread."""
        self._refused = refused
