"""The log in memory: for tests and for `evalstream demo`. It is gone with the process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter

from collector.logs.following import Chunk, Feed, Following, Pace, follow_all
from collector.logs.log import Committed, LogError, OpenFold, Record, Stored
from collector.logs.placing import Placing
from collector.logs.signal import Signal

MAX_RECORD_BYTES = 16 << 20


class _Partition:
    """The records of one partition, oldest first."""

    def __init__(self, number: int) -> None:
        self.records: list[Stored] = []
        self.end = 0
        self.signal = Signal()
        self._number = number
        self._time = 0.0

    @property
    def start(self) -> int:
        return self.records[0].position if self.records else self.end

    def append(self, records: Sequence[Record], now: float) -> None:
        self._time = max(self._time, now)
        for position, record in enumerate(records, self.end):
            self.records.append(Stored(self._number, position, self._time, record.key, record.value, record.headers))
        self.end += len(records)
        self.signal.give()

    def slice(self, start: int, end: int, limit: int) -> list[Stored]:
        first = bisect_left(self.records, start, key=attrgetter("position"))
        last = bisect_left(self.records, end, first, key=attrgetter("position"))
        return self.records[first : min(last, first + limit)]

    def forget(self, before: float, bound: int) -> int:
        count = 0
        while count < len(self.records) and self.records[count].position < bound:
            if self.records[count].timestamp >= before:
                break
            count += 1
        del self.records[:count]
        return count


class _Stream:
    """The records of one partition from a position on."""

    def __init__(self, partition: _Partition, position: int, limit: int) -> None:
        self.waiting = False
        self._partition = partition
        self._position = position
        self._limit = limit

    async def next(self) -> Chunk:
        while self._position >= self._partition.end:
            self.waiting = True
            await self._partition.signal.wait()
        self.waiting = False
        records = self._partition.slice(self._position, self._partition.end, self._limit)
        self._position = records[-1].position + 1 if records else self._partition.end
        return Chunk(records, self._position)


class MemoryLog:
    """A log that lives as long as this object. One process, one event loop."""

    def __init__(
        self, name: str, partitions: int = 8, *, pace: Pace | None = None, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self._name = name
        self._partitions = [_Partition(number) for number in range(partitions)]
        self._pace = pace or Pace()
        self._placing = Placing(name, partitions, max_record_bytes)
        self._commits: dict[str, dict[int, Committed]] = {}
        self._following: set[str] = set()

    @property
    def name(self) -> str:
        """What the log is called."""
        return self._name

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self._partitions)

    async def append(self, records: Sequence[Record]) -> None:
        """Append records."""
        placed, _ = self._placing.place(records)
        for partition, each in placed.items():
            self._partitions[partition].append(each, self._pace.clock())

    async def end(self, partition: int) -> int:
        """The position that the next record of the partition will get."""
        return self._partitions[partition].end

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[Stored]]:
        """Read batches up to the end as it is at the first step."""
        end = self._partitions[partition].end
        while records := self._partitions[partition].slice(start, end, self._pace.chunk_records):
            yield records
            start = records[-1].position + 1

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of all partitions until cancelled.

        Raises:
            LogError: this group follows already.
        """
        with self._only(group):
            commits = self._commits.get(group, {})

            async def commit(states: Mapping[int, Committed]) -> None:
                self._commits.setdefault(group, {}).update(states)

            feeds = [self._feed(partition, commits.get(partition)) for partition in range(self.partitions)]
            await follow_all(Following(open_fold, commit, self.append, self._pace), feeds)

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Forget records older than `before` that no group needs."""
        if any(group not in self._commits for group in readers):
            return 0
        return sum(partition.forget(before, self._bound(number)) for number, partition in enumerate(self._partitions))

    async def close(self) -> None:
        """Nothing to let go of."""

    def _bound(self, partition: int) -> int:
        state = self._partitions[partition]
        needs = [
            commits[partition].low_watermark if partition in commits else state.start
            for commits in self._commits.values()
        ]
        return min(needs, default=state.end)

    def _feed(self, partition: int, committed: Committed | None) -> Feed:
        state = self._partitions[partition]
        start = committed.low_watermark if committed else state.start
        return Feed(partition, committed, start, _Stream(state, start, self._pace.chunk_records), self._pace)

    @contextmanager
    def _only(self, group: str) -> Generator[None]:
        if group in self._following:
            raise LogError(f"the group {group!r} follows the log {self._name!r} already")
        self._following.add(group)
        try:
            yield
        finally:
            self._following.discard(group)
