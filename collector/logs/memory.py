"""The log in memory: for tests and for `evalstream demo`. It ends with the process."""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from operator import attrgetter

from collector.logs.consumer_runner import Batch, ConsumerRunner, ConsumerTiming, PartitionFeed
from collector.logs.log import Committed, LogError, OpenFold, Partitioner, Record, StoredRecord

MAX_RECORD_BYTES = 16 << 20


class _Partition:
    """The records of one partition, oldest first."""

    def __init__(self, number: int) -> None:
        self.records: list[StoredRecord] = []
        self.end = 0
        self.appended = asyncio.Event()
        """Set, and replaced by a new one, at each append: it wakes all who wait now."""
        self._number = number
        self._time = 0.0

    @property
    def start(self) -> int:
        return self.records[0].offset if self.records else self.end

    def append(self, records: Sequence[Record], now: float) -> None:
        for offset, record in enumerate(records, self.end):
            self._time = max(self._time, now if record.timestamp is None else record.timestamp)
            self.records.append(
                StoredRecord(self._number, offset, self._time, record.key, record.value, record.headers)
            )
        self.end += len(records)
        self.appended.set()
        self.appended = asyncio.Event()

    def slice(self, start: int, end: int, limit: int) -> list[StoredRecord]:
        first = bisect_left(self.records, start, key=attrgetter("offset"))
        return self.records[first : min(bisect_left(self.records, end, first, key=attrgetter("offset")), first + limit)]

    def delete(self, before: float, bound: int) -> int:
        count = 0
        while count < len(self.records) and self.records[count].offset < bound:
            if self.records[count].timestamp >= before:
                break
            count += 1
        del self.records[:count]
        return count


@dataclass(eq=False)
class _MemoryStream:
    """The records of one partition from an offset on."""

    partition: _Partition
    offset: int
    limit: int
    waiting: bool = False

    async def next(self) -> Batch:
        while self.offset >= self.partition.end:
            self.waiting = True
            await self.partition.appended.wait()
        self.waiting = False
        records = self.partition.slice(self.offset, self.partition.end, self.limit)
        self.offset = records[-1].offset + 1 if records else self.partition.end
        return Batch(records, self.offset)


@dataclass(eq=False, repr=False)
class MemoryLog:
    """A log that lives as long as this object. One process, one event loop."""

    shared = False

    name: str
    partitions: int = 8
    _: KW_ONLY
    timing: ConsumerTiming = field(default_factory=ConsumerTiming)
    max_record_bytes: InitVar[int] = MAX_RECORD_BYTES

    def __post_init__(self, max_record_bytes: int) -> None:
        self._partitions = [_Partition(number) for number in range(self.partitions)]
        self._partitioner = Partitioner(self.name, self.partitions, max_record_bytes)
        self._commits: dict[str, dict[int, Committed]] = {}
        self._following: set[str] = set()

    async def append(self, records: Sequence[Record]) -> None:
        """Append records."""
        by_partition, _ = self._partitioner.split(records)
        for partition, batch in by_partition.items():
            self._partitions[partition].append(batch, self.timing.clock())

    async def end_offset(self, partition: int) -> int:
        """The offset that the next record of the partition will get."""
        return self._partitions[partition].end

    async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        """The same of several partitions."""
        return {partition: await self.end_offset(partition) for partition in partitions}

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record."""
        return self._partitions[partition].start

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches up to the end of the log at the first step."""
        end = self._partitions[partition].end
        while records := self._partitions[partition].slice(start, end, self.timing.batch_records):
            yield records
            start = records[-1].offset + 1

    async def probe(self) -> None:
        """Memory can always be written."""

    async def claim(self, group: str) -> None:
        """Nobody else has this memory."""

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """Nobody else has this memory."""

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of all partitions until cancelled.

        Raises:
            LogError: this group consumes already.
        """
        if group in self._following:
            raise LogError(f"the group {group!r} consumes the log {self.name!r} already")
        self._following.add(group)
        commits = self._commits.get(group, {})
        feeds = [self._feed(partition, commits.get(partition)) for partition in range(self.partitions)]
        try:
            commit = partial(self.set_committed, group)
            await ConsumerRunner(open_fold, commit, self.append, self.timing).feed_all(feeds)
        finally:
            self._following.discard(group)

    async def committed(self, group: str) -> Mapping[int, Committed]:
        """A group's committed positions, by partition."""
        return dict(self._commits.get(group, {}))

    async def set_committed(self, group: str, states: Mapping[int, Committed]) -> None:
        """Commit for a group that does not follow."""
        self._commits.setdefault(group, {}).update(states)

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` that no group needs."""
        if any(group not in self._commits for group in readers):
            return 0
        return sum(partition.delete(before, self._bound(number)) for number, partition in enumerate(self._partitions))

    async def retention(self) -> None:
        """Only `truncate` deletes, and not what a group needs."""

    async def close(self) -> None:
        """There is nothing to close."""

    def _bound(self, partition: int) -> int:
        state = self._partitions[partition]
        needs = [
            commits[partition].low_watermark if partition in commits else state.start
            for commits in self._commits.values()
        ]
        return min(needs, default=state.end)

    def _feed(self, partition: int, committed: Committed | None) -> PartitionFeed:
        state = self._partitions[partition]
        start = committed.low_watermark if committed else state.start
        return PartitionFeed(
            partition, committed, start, _MemoryStream(state, start, self.timing.batch_records), self.timing
        )
