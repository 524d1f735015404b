"""The log as a Kafka topic."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from kafka.structs import TopicPartition

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.journal.stall_watchdog import exit_stalled
from collector.logs.kafka import topics as kafka_topics
from collector.logs.kafka.group_consumer import GroupConsumer
from collector.logs.kafka.group_watch import JoinWait
from collector.logs.kafka.owned_partitions import to_kafka
from collector.logs.kafka.producer import SharedProducer
from collector.logs.kafka.range_reader import RangeReader
from collector.logs.kafka.records import OnUnreadable, log_unreadable
from collector.logs.kafka.settings import KafkaSettings, require_crc32c
from collector.logs.kafka.subscription import OnLost, PartitionNumbering, Subscription, log_lost
from collector.logs.log import Committed, LogRefused, OpenFold, Partitioner, Record, StoredRecord


@dataclass(eq=False, repr=False)
class _Shared:
    """The parts that the logs of a process share: their way of reading, the producer and the range reader. The last log
    closes these.
    """

    settings: KafkaSettings
    timing: ConsumerTiming
    users: int
    _: KW_ONLY
    on_unreadable: OnUnreadable
    on_lost: OnLost
    on_stall: Callable[[], None]

    def __post_init__(self) -> None:
        self.producer = SharedProducer(self.settings)
        self.range_reader = RangeReader(self.settings, self.on_unreadable)

    async def release(self) -> None:
        self.users -= 1
        if not self.users:
            await self.producer.close()
            await self.range_reader.close()


class KafkaLog:
    """One topic. Several share a producer."""

    shared = True
    """Brokers give the partitions of a process that stands still to others."""

    def __init__(self, name: str, topic: str, partitions: int, shared: _Shared) -> None:
        """See `open`."""
        self.name = name
        self._topic = topic
        self.partitions = partitions
        self._shared = shared
        self._settings = settings = shared.settings
        self._timing = shared.timing
        self._partitioner = Partitioner(name, partitions, settings.max_record_bytes)
        self._consumers: dict[str, GroupConsumer] = {}
        self._waits = defaultdict[str, JoinWait](JoinWait)
        """By group, also between two consumers."""
        self._closed = False
        self._refused: dict[str, LogRefused | None] = {}
        """Why brokers refuse the consumers of this process now, by group."""

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        topics: Mapping[str, str],
        partitions: int,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        timing: ConsumerTiming | None = None,
        on_unreadable: OnUnreadable = log_unreadable,
        on_lost: OnLost = log_lost,
        on_stall: Callable[[], None] = exit_stalled,
        copying: bool = False,
        rights: Sequence[str] = (),
    ) -> "dict[str, KafkaLog]":
        """Open logs, by name; `topics` has the topic of each; missing ones are created.

        `configs` are further configs of new topics, by topic. `on_unreadable` is called, in a thread, for a range that
        cannot be read, `on_lost` for one that retention has deleted although a group needed it, `on_stall` when reading
        hangs. With `copying` records have the times that they are given, and no service uses such topics. Close every
        log; the last one closes the connections. `rights` are operations that this user must be allowed.

        Raises:
            LogError: a topic has another number of partitions, or kafka-python lacks its C checksum.
            LogUnavailable: no broker answers.
        """
        require_crc32c()
        await asyncio.to_thread(
            kafka_topics.ensure_topics,
            settings,
            list(topics.values()),
            partitions,
            replication_factor=replication_factor,
            configs=configs,
            timestamps=kafka_topics.CREATE_TIME if copying else kafka_topics.APPEND_TIME,
            rights=rights,
        )
        shared = _Shared(
            settings,
            timing or ConsumerTiming(),
            len(topics),
            on_unreadable=on_unreadable,
            on_lost=on_lost,
            on_stall=on_stall,
        )
        return {name: cls(name, topic, partitions, shared) for name, topic in topics.items()}

    async def append(self, records: Sequence[Record]) -> None:
        """Append records; every broker in sync has them on return."""
        by_partition, size = self._partitioner.split(records)
        if by_partition:
            await self._shared.producer.append(self._topic, by_partition, size)

    async def end_offset(self, partition: int) -> int:
        """The offset that the next record of the partition will get."""
        return (await self.end_offsets([partition]))[partition]

    async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        """The same of several partitions, in one request to each broker."""
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        return {where.partition: end for where, end in (await self._shared.range_reader.offsets(wanted)).items()}

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record."""
        where = TopicPartition(self._topic, partition)
        return (await self._shared.range_reader.offsets([where], of_starts=True))[where]

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches up to the end of the log at the first step."""
        where, timing = TopicPartition(self._topic, partition), self._timing
        return self._shared.range_reader.read(where, start, limit=timing.batch_records, patience=timing.patience)

    async def probe(self) -> None:
        """See that the leader of partition 0 answers, that no append waits for long, and that nothing is refused."""
        if refused := next(filter(None, list(self._refused.values())), None):
            raise refused
        await self.end_offset(0)  # before the appends: its new connections know why brokers refuse them
        self._shared.producer.require_answers()

    async def claim(self, group: str) -> None:
        """Processes share the partitions."""

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """Wait until a broker has confirmed within the session that this process is a member of the group."""
        consumer = self._consumers.get(group)
        if consumer is not None:
            await consumer.membership.confirm(newly=newly)

    def long_wait(self, group: str) -> float | None:
        """For how many seconds this process could not join the group, once that is long: it reads nothing."""
        return self._waits[group].long_wait

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions that the group gives to this process, until cancelled.

        Waits for a broker that goes down and comes back.

        Raises:
            LogError: another process uses the same group instance id, or the broker rejects us.
            LogUnavailable: no broker answered at the start, or reading has failed for longer than the patience.
        """
        instance = self._settings.group_instance_id
        subscription = Subscription(
            group=f"{self._settings.group_prefix}{group}",
            consumer=group,
            topics=PartitionNumbering([self._topic]),
            log=self.name,
            instance=instance and f"{instance}-{self.name}",
            wait=self._waits[group],
            patience=self._timing.patience,
            on_unreadable=self._shared.on_unreadable,
            on_lost=self._shared.on_lost,
            on_stall=self._shared.on_stall,
            on_refused=partial(self._refused.__setitem__, group),
        )
        consumer = GroupConsumer(self._settings, subscription, self._timing, append=self.append)
        self._consumers[group] = consumer
        try:
            await consumer.run(open_fold)
        finally:
            del self._consumers[group]
            self._refused.pop(group, None)

    async def committed(self, group: str) -> Mapping[int, Committed]:
        """A group's committed positions, by partition."""
        return await asyncio.to_thread(
            kafka_topics.commits, self._settings, self._topic, f"{self._settings.group_prefix}{group}"
        )

    async def set_committed(self, group: str, states: Mapping[int, Committed]) -> None:
        """Commit for a group that has no members."""
        stored = {TopicPartition(self._topic, partition): to_kafka(state) for partition, state in states.items()}
        await asyncio.to_thread(
            kafka_topics.set_commits, self._settings, f"{self._settings.group_prefix}{group}", stored
        )

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` that no group needs. The topic's own retention may do more."""
        if readers:  # whether each has committed is not checked: topics are not truncated to delete texts
            return 0
        return await asyncio.to_thread(kafka_topics.truncate, self._settings, self._topic, self.partitions, before)

    async def retention(self) -> float | None:
        """The topic's `retention.ms`, in seconds; None if it never deletes by age."""
        return await asyncio.to_thread(kafka_topics.retention, self._settings, self._topic)

    async def close(self) -> None:
        """Close the connections, if no other log uses them."""
        if not self._closed:
            self._closed = True
            await self._shared.release()
