"""The log as a Kafka topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

from kafka.structs import TopicPartition

from collector.logs.following import Pace
from collector.logs.kafka.owning import Owning
from collector.logs.kafka.producing import Producing
from collector.logs.kafka.reading import Reading
from collector.logs.kafka.records import OnPoison, log_poison
from collector.logs.kafka.settings import KafkaSettings, require_crc32c
from collector.logs.kafka.subscription import Subscription, Topics
from collector.logs.kafka.topics import ensure_topics, truncate
from collector.logs.kafka.watchdog import exit_stalled
from collector.logs.log import OpenFold, Record, Stored
from collector.logs.placing import Placing


class _Shared:
    """What the logs of a process have in common: the producer and the readers. The last log closes them."""

    def __init__(self, settings: KafkaSettings, on_poison: OnPoison, users: int) -> None:
        self.producing = Producing(settings)
        self.reading = Reading(settings, on_poison)
        self._users = users

    async def release(self) -> None:
        self._users -= 1
        if not self._users:
            await self.producing.close()
            await self.reading.close()


class KafkaLog:
    """One topic. Several share a producer."""

    def __init__(
        self,
        name: str,
        topic: str,
        partitions: int,
        *,
        settings: KafkaSettings,
        shared: _Shared,
        pace: Pace,
        on_poison: OnPoison,
        on_stall: Callable[[], None],
    ) -> None:
        """See `open`."""
        self._name = name
        self._topic = topic
        self._partitions = partitions
        self._settings = settings
        self._shared = shared
        self._pace = pace
        self._on_poison = on_poison
        self._on_stall = on_stall
        self._placing = Placing(name, partitions, settings.max_record_bytes)
        self._closed = False

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        topics: Mapping[str, str],
        partitions: int,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        pace: Pace | None = None,
        on_poison: OnPoison = log_poison,
        on_stall: Callable[[], None] = exit_stalled,
    ) -> dict[str, KafkaLog]:
        """Open logs, by name; `topics` says which topic each is, and what is not there is made.

        `configs` are further configs of new topics, by topic. `on_poison` is told, in a thread, of what cannot be read;
        `on_stall` is called when reading stands still for ever. Close every log; the last one closes the connections.

        Raises:
            LogError: a topic has another number of partitions, or kafka-python lacks its C checksum.
            LogUnavailable: no broker answers.
        """
        require_crc32c()

        def ensure() -> None:
            ensure_topics(
                settings, list(topics.values()), partitions, replication_factor=replication_factor, configs=configs
            )

        await asyncio.to_thread(ensure)
        shared = _Shared(settings, on_poison, len(topics))
        return {
            name: cls(
                name,
                topic,
                partitions,
                settings=settings,
                shared=shared,
                pace=pace or Pace(),
                on_poison=on_poison,
                on_stall=on_stall,
            )
            for name, topic in topics.items()
        }

    @property
    def name(self) -> str:
        """What the log is called."""
        return self._name

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._partitions

    async def append(self, records: Sequence[Record]) -> None:
        """Append records; every broker in sync has them on return."""
        placed, size = self._placing.place(records)
        if placed:
            await self._shared.producing.append(self._topic, placed, size)

    async def end(self, partition: int) -> int:
        """The position that the next record of the partition will get."""
        return await self._shared.reading.end(TopicPartition(self._topic, partition))

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[Stored]]:
        """Read batches up to the end as it is at the first step."""
        return self._shared.reading.read(
            TopicPartition(self._topic, partition), start, limit=self._pace.chunk_records, patience=self._pace.patience
        )

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions that the group gives to this process, until cancelled.

        A broker that goes down and comes back is waited for.

        Raises:
            LogError: another process uses the same group instance id, or the broker refuses us.
            LogUnavailable: no broker was there to begin with, or reading has failed for longer than the patience.
        """
        instance = self._settings.group_instance_id
        subscription = Subscription(
            group=group,
            topics=Topics([self._topic]),
            instance=instance and f"{instance}-{self._name}",
            patience=self._pace.patience,
        )
        owning = Owning(
            self._settings,
            subscription,
            self._pace,
            append=self.append,
            on_poison=self._on_poison,
            on_stall=self._on_stall,
        )
        await owning.run(open_fold)

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` that no group needs. The topic's own retention may do more."""
        if readers:  # which of them never committed is not asked: nobody truncates topics for the sake of their texts
            return 0
        return await asyncio.to_thread(truncate, self._settings, self._topic, self._partitions, before)

    async def close(self) -> None:
        """Let go of the connections."""
        if not self._closed:
            self._closed = True
            await self._shared.release()
