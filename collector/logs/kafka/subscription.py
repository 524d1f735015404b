"""What is read for a group, and what the thread that polls has to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka.structs import TopicPartition

from collector.logs.log import Committed, LogError, Stored


class Topics:
    """Gives the partitions of several topics one number each. With one topic they keep theirs."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.names = sorted(topics)
        self._index = {topic: index for index, topic in enumerate(self.names)}

    def number_of(self, where: TopicPartition) -> int:
        """The number of a topic's partition; stays when a topic gets more partitions."""
        return where.partition * len(self.names) + self._index[where.topic]

    def where(self, number: int) -> TopicPartition:
        """The partition that goes by this number."""
        partition, index = divmod(number, len(self.names))
        return TopicPartition(self.names[index], partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What to read and how: `start` is where a new group begins, `committed_only` leaves out aborted transactions."""

    group: str
    topics: Topics
    instance: str | None
    start: str = "earliest"
    committed_only: bool = False
    patience: float = 60.0


@dataclass(frozen=True, slots=True)
class Assigned:
    """A partition has come to this process. `epoch` is another one whenever it comes again."""

    partition: int
    epoch: int
    committed: Committed | None
    start: int


@dataclass(frozen=True, slots=True)
class Polled:
    """Records of one partition and the position behind them."""

    partition: int
    records: Sequence[Stored]
    end: int
    size: int


class Owner(Protocol):
    """Who is told. All but `pending` is called in the event loop, in the order in which things happened."""

    def assigned(self, assigned: Assigned) -> None:
        """A partition has come."""
        ...

    def revoked(self, partitions: Sequence[int]) -> None:
        """Partitions have gone: nothing of them is committed any more."""
        ...

    def polled(self, polled: Sequence[Polled]) -> None:
        """Records have come."""
        ...

    def failed(self, error: LogError) -> None:
        """The thread has ended."""
        ...

    def pending(self, partition: int) -> Committed | None:
        """What there is to commit for a partition at this moment. Called in other threads: must only look."""
        ...
