"""One log that is written by a copy: its partitions, and where the consumers of the other one continue.

Records of several partitions come in the order in which the log took them.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, cast

from collector.logs.log import Committed, CopyableLog, Log, Record, StoredRecord, partition_of, records_from
from collector.logs.whole_log import end_offsets
from collector.past.merging import merge
from collector.records.shared_records import divide_records

_BATCH_RECORDS, _BATCH_BYTES = 2_000, 8 << 20


@dataclass(slots=True)
class _Mark:
    """In each partition of the target, the place of the first record at or behind an offset of the source."""

    offsets: Mapping[int, int]
    places: dict[int, int] = field(default_factory=dict[int, int])


class LogWriter:
    """Appends records to the partitions that their keys select; where there are as many, to their own.

    Places are known before they are written: there is no other writer.
    """

    def __init__(self, source_partitions: int, target: CopyableLog, base: Mapping[int, int]) -> None:
        """`base` has the end of each partition before."""
        self.target = target
        self.copied = 0
        self._same = source_partitions == target.partitions
        self._base = dict(base)
        self._next = dict(base)
        self._times = dict.fromkeys(base, 0.0)
        self._digests = {partition: _new_digest() for partition in base}
        self._batch: list[Record] = []
        self._size = 0
        self._marks: dict[str, _Mark] = {}

    @classmethod
    async def open(cls, source_partitions: int, target: CopyableLog) -> "LogWriter":
        """Begin at the ends of an empty log."""
        return cls(source_partitions, target, dict(enumerate(await end_offsets(target))))

    def mark(self, name: str, offsets: Mapping[int, int]) -> None:
        """Notice where the first records are that lie at or behind these offsets of the source's partitions."""
        self._marks[name] = _Mark(offsets)

    def ends(self) -> dict[int, int]:
        """The offset of the next record of each partition."""
        return dict(self._next)

    def first(self, name: str, partition: int) -> int:
        """The offset of the first marked record of a partition; its end if there is none."""
        return self._marks[name].places.get(partition, self._next[partition])

    def partition_of(self, key: bytes | None, source: int) -> int:
        """The partition of a record with a key that comes from a partition of the source."""
        if self._same:
            return source
        return source % self.target.partitions if key is None else partition_of(key, self.target.partitions)

    async def copy(self, record: StoredRecord, *, value: bytes | None = None, key: bytes | None = None) -> None:
        """Write a record of the source: with another value, or where another key belongs."""
        partition = self.partition_of(record.key if key is None else key, record.partition)
        offset = self._next[partition]
        for mark in self._marks.values():
            if record.offset >= mark.offsets.get(record.partition, 0):
                mark.places.setdefault(partition, offset)
        copy = Record(record.key, record.value if value is None else value, record.headers, partition, record.timestamp)
        await self.add(copy, of_source=True)

    async def add(self, record: Record, *, of_source: bool = False) -> None:
        """Write a record into the partition it names, where times do not fall. Only those `of_source` are `copied`."""
        partition = record.partition
        assert partition is not None
        time = self._times[partition] = max(self._times[partition], record.timestamp or 0.0)
        self._digests[partition].update(_bytes_of(record))
        self._next[partition] += 1
        self.copied += of_source
        self._batch.append(replace(record, timestamp=time))
        self._size += len(record.value)
        if len(self._batch) >= _BATCH_RECORDS or self._size >= _BATCH_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Make durable what was written."""
        batch, self._batch, self._size = self._batch, [], 0
        if batch:
            await self.target.append(batch)

    async def commit(self, group: str, committed: Mapping[int, Committed]) -> None:
        """Have a group continue where it was, by the marks `{group} low` and `{group} next`."""
        if not committed:
            return
        states: dict[int, Committed] = {}
        for partition in self._next:
            following = self.first(f"{group} next", partition)
            states[partition] = Committed(min(self.first(f"{group} low", partition), following), following)
        await self.target.set_committed(group, states)

    def mark_group(self, group: str, committed: Mapping[int, Committed], partitions: int) -> None:
        """Prepare for `commit`: a partition for which nothing is committed is to be read from its start."""
        states = {partition: committed.get(partition, Committed(0, 0)) for partition in range(partitions)}
        self.mark(f"{group} low", {partition: state.low_watermark for partition, state in states.items()})
        self.mark(f"{group} next", {partition: state.offset for partition, state in states.items()})

    async def verify(self) -> list[str]:
        """Read back what was written; a sentence for each partition that holds something else."""
        problems: list[str] = []
        for partition, base in self._base.items():
            digest, number = _new_digest(), 0
            async for record in records_from(self.target, partition, base):
                number += 1
                digest.update(_bytes_of(record))
            expected = self._next[partition] - base
            where = f"{self.target.name}[{partition}]"
            if number != expected:
                problems.append(f"{where} has {number} records, and {expected} were written")
            elif digest.digest() != self._digests[partition].digest():
                problems.append(f"{where} has other records than were written")
        return problems


def _new_digest() -> Any:
    return hashlib.blake2b(digest_size=16)


def _bytes_of(record: Record | StoredRecord) -> bytes:
    """The values that tell one record from another."""
    parts: list[bytes] = [b"" if record.key is None else b"k" + record.key, record.value]
    parts += [part for name, value in record.headers for part in (name.encode(), value)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def stretches_by_progress(
    starts: Mapping[int, int], ends: Mapping[int, int], positions: Sequence[Mapping[int, int]]
) -> list[dict[int, tuple[int, int]]]:
    """Parts of the partitions, by how many consumers have read them: what most have read comes first.

    Then each continues at one place, though partitions are put together whose consumers were at different ones.
    """
    parts: list[dict[int, tuple[int, int]]] = []
    for number in range(len(positions), -1, -1):
        part: dict[int, tuple[int, int]] = {}
        for partition, end in ends.items():
            start = starts[partition]
            reached = sorted((min(max(at.get(partition, start), start), end) for at in positions), reverse=True)
            # The records that at least `number` consumers have read end at the position of the consumer of that rank.
            upper = end if number == 0 else reached[number - 1]
            part[partition] = (start if number == len(positions) else reached[number], upper)
        parts.append(part)
    return parts


CHUNK_RECORDS, CHUNK_BYTES = 5_000, 8 << 20
"""The number of records read from a partition at once, when others are read beside it."""


@dataclass(frozen=True, slots=True)
class PartitionStretch:
    """A part of a partition: the records from `start` up to and without `end`."""

    partition: int
    start: int
    end: int


def in_order(log: Log, stretches: Sequence[PartitionStretch]) -> AsyncIterator[StoredRecord]:
    """The records of stretches of different partitions, by the times of the log; each partition's in its order."""
    return merge([_records(log, stretch) for stretch in stretches], lambda record: record.timestamp)


async def _records(log: Log, stretch: PartitionStretch) -> AsyncGenerator[StoredRecord]:
    """Read in chunks, and release the log in between: a log has few readers for all partitions."""
    start = stretch.start
    while start < stretch.end:
        chunk: list[StoredRecord] = []
        async with aclosing(
            cast("AsyncGenerator[Sequence[StoredRecord]]", log.read(stretch.partition, start))
        ) as batches:
            async for batch in batches:
                chunk += [record for record in batch if record.offset < stretch.end]
                start = batch[-1].offset + 1
                if start >= stretch.end or len(chunk) >= CHUNK_RECORDS or sum(map(_size, chunk)) >= CHUNK_BYTES:
                    break
            else:
                start = stretch.end
        for record in divide_records(chunk):
            yield record


def _size(record: StoredRecord) -> int:
    return len(record.value)
