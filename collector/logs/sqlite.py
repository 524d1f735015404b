"""The log in a SQLite file: durable, for one machine, with nothing to set up."""

import asyncio
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from collector.admission.bounded_gate import BoundedGate
from collector.logs import sqlite_rows
from collector.logs.consumer_runner import Batch, ConsumerRunner, ConsumerTiming, DeliveryPace, PartitionFeed
from collector.logs.log import Committed, LogError, OpenFold, Partitioner, Record, StoredRecord
from collector.logs.sqlite_file import SqliteFile
from collector.logs.sqlite_shares import PartitionShare
from collector.logs.sqlite_transaction import Transaction

MAX_RECORD_BYTES = 64 << 20
TRUNCATE_ROWS = 2000
"""Rows of a partition deleted in one transaction."""
WORTH_A_GAP = 4
"""A statement for one gap costs as much as reading this many records: with fewer known ones per gap, all are read."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class SqliteLog:
    """One of the logs in a SQLite file. Several share the file, its transactions and its fsyncs."""

    shared = False
    """A partition has one process, which holds a lock as long as it lives."""

    def __init__(self, name: str, file: SqliteFile, timing: ConsumerTiming, max_record_bytes: int) -> None:
        """See `open`."""
        self.name = name
        self._number = file.numbers[name]
        self.partitions = sum(log == self._number for log, _ in file.ends)
        self._file = file
        self._timing = timing
        self._partitioner = Partitioner(name, self.partitions, max_record_bytes)

    @classmethod
    async def open(
        cls,
        path: Path | str,
        names: Sequence[str],
        partitions: int | None = None,
        *,
        timing: ConsumerTiming | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
        max_in_flight: tuple[int, int] = (100_000, 64 << 20),
        share: PartitionShare | None = None,
    ) -> "dict[str, SqliteLog]":
        """Open the logs `names` in the file at `path`, by name; missing ones are created.

        `partitions` is the number of partitions of each log and cannot change later: without it, that of the file; a
        new one gets one, or several for processes that share it. `share` is this process's share of them.
        `max_in_flight` bounds the records and bytes that wait for a transaction. Close every log; the last one closes
        the file.

        Raises:
            LogError: the file is not one of evalstream, a log in it has another number of partitions, or it cannot be
                opened.
            LogUnavailable: the disk is full, or another process holds the file: a retry may succeed.
        """
        for name in names:
            if not _NAME.fullmatch(name):
                raise LogError(f"{name!r} is not a valid name of a log: lower-case letters, digits and _ only")
        if (
            not 1 <= (1 if partitions is None else partitions) <= sqlite_rows.MAX_PARTITIONS
            or len(names) > sqlite_rows.MAX_LOGS
        ):
            raise LogError(
                f"a file holds up to {sqlite_rows.MAX_LOGS} logs of 1 to {sqlite_rows.MAX_PARTITIONS} partitions"
            )
        timing = timing or ConsumerTiming()
        file = SqliteFile(Path(path), timing, BoundedGate(*max_in_flight), share)
        await file.open(names, partitions)
        return {name: cls(name, file, timing, max_record_bytes) for name in names}

    async def append(self, records: Sequence[Record]) -> None:
        """Append records in one transaction: all or nothing, on the disk on return."""
        by_partition, size = self._partitioner.split(records)
        if not by_partition:
            return
        with await self._file.in_flight.wait(len(records), size):
            await self._file.write(lambda transaction: transaction.append(self._number, by_partition))

    async def end_offset(self, partition: int) -> int:
        """The offset that the next record of the partition will get."""

        def query(connection: sqlite3.Connection) -> int:
            wanted = "SELECT next FROM ends WHERE log = ? AND partition = ?"
            return connection.execute(wanted, [self._number, partition]).fetchone()[0]

        return await self._file.read(query)

    async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        """The same of several partitions."""
        return {partition: await self.end_offset(partition) for partition in partitions}

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record."""
        return await self._file.read(lambda connection: self._start(connection, partition, None))

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches up to the end of the log at the first step."""
        end = await self.end_offset(partition)
        while records := await self.read_batch(partition, start, end):
            yield records
            start = records[-1].offset + 1

    async def read_batch(
        self, partition: int, start: int, end: int, known: Sequence[StoredRecord] = ()
    ) -> Sequence[StoredRecord]:
        """The first records between two offsets, at most one batch.

        `known` records are not read, unless they are so few that reading all is cheaper.
        """
        gaps = sqlite_rows.gaps_of(known, start, end)
        if not gaps:
            return known
        if len(known) < WORTH_A_GAP * len(gaps):
            known, gaps = (), [(start, end)]
        return await self._file.read(
            lambda connection: self._batch_of(self._with_gaps(connection, partition, gaps, known))
        )

    async def probe(self) -> None:
        """See that the file can be written, and is the one at the path."""
        await self._file.probe()

    async def claim(self, group: str) -> None:
        """Reserve the group for this process."""
        await self._file.claim(self.name, group)

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """No other process gets its partitions while this one holds its lock."""

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of all partitions, or of those in this process's share, until cancelled.

        Raises:
            GroupInUse: another process consumes this log with this group.
        """
        share, commit = self._file.share, partial(self.set_committed, group)
        async with self._file.only_consumer(self.name, group):
            with ExitStack() as stack:
                starts = await self._file.read(lambda connection: self._starts(connection, group))
                own = [start for start in starts if share is None or share.has(self.name, group, start[0])]
                feeds = [self._feed(stack, *assignment) for assignment in own]
                await ConsumerRunner(open_fold, commit, self.append, self._timing).feed_all(feeds)

    async def committed(self, group: str) -> Mapping[int, Committed]:
        """A group's committed positions, by partition."""
        return await self._file.read(lambda connection: self._commits(connection, group))

    async def set_committed(self, group: str, states: Mapping[int, Committed]) -> None:
        """Commit for a group, which may follow or not."""
        await self._file.write(lambda transaction: transaction.commit(self._number, group, states))

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` that no group needs. The file does not shrink: pages are reused."""

        def delete(transaction: Transaction) -> int:
            return transaction.truncate(self._number, before, TRUNCATE_ROWS, readers)

        total = 0
        while count := await self._file.write(delete):
            total += count
        await self._file.forget_deleted(deleted=total > 0)
        return total

    async def rewrite(self, records: Sequence[StoredRecord]) -> None:
        """Write records over those at their offsets. No process may consume the log."""
        await self._file.write(lambda transaction: transaction.rewrite(self._number, records))
        await self._file.forget_deleted(deleted=True)

    async def compact(self) -> None:
        """Rewrite the file without pages that hold nothing. Needs as much room again."""
        await self._file.compact()

    async def retention(self) -> None:
        """Only `truncate` deletes, and not what a group needs."""

    async def close(self) -> None:
        """Close the file, if no other log uses it."""
        await self._file.release(self.name)

    def _feed(self, stack: ExitStack, partition: int, committed: Committed | None, start: int) -> PartitionFeed:
        key = (self._number, partition)
        stream = _SqliteStream(self, self._file, key, start, stack.enter_context(self._file.fresh_records(key)))
        return PartitionFeed(partition, committed, start, stream, self._timing)

    def _starts(self, connection: sqlite3.Connection, group: str) -> list[tuple[int, Committed | None, int]]:
        """For each partition: its number, the group's commit, and the offset to start at."""
        commits = self._commits(connection, group)
        return [
            (partition, commits.get(partition), self._start(connection, partition, commits.get(partition)))
            for partition in range(self.partitions)
        ]

    def _commits(self, connection: sqlite3.Connection, group: str) -> dict[int, Committed]:
        wanted = 'SELECT partition, low_watermark, position, note FROM commits WHERE log = ? AND "group" = ?'
        rows = connection.execute(wanted, [self._number, group])
        return {partition: Committed(low, offset, metadata) for partition, low, offset, metadata in rows}

    def _start(self, connection: sqlite3.Connection, partition: int, committed: Committed | None) -> int:
        if committed is not None:
            return committed.low_watermark
        # First the end, then the oldest record: one that is appended in between is found, not skipped.
        wanted = "SELECT next FROM ends WHERE log = ? AND partition = ?"
        end: int = connection.execute(wanted, [self._number, partition]).fetchone()[0]
        oldest = connection.execute(
            "SELECT MIN(id) FROM records WHERE id >= ? AND id < ?",
            [sqlite_rows.row_id(self._number, partition, 0), sqlite_rows.row_id(self._number, partition + 1, 0)],
        ).fetchone()[0]
        return end if oldest is None else sqlite_rows.offset_of(oldest)

    def _batch_of(self, records: Generator[StoredRecord]) -> list[StoredRecord]:
        """The first records, at most one batch."""
        batch: list[StoredRecord] = []
        size = 0
        with closing(records):
            for record in records:
                batch.append(record)
                size += len(record.value)
                if len(batch) >= self._timing.batch_records or size >= self._timing.batch_bytes:
                    break
        return batch

    def _with_gaps(
        self,
        connection: sqlite3.Connection,
        partition: int,
        gaps: Sequence[tuple[int, int]],
        known: Sequence[StoredRecord],
    ) -> Generator[StoredRecord]:
        """The known records and, read from the file, those in the gaps, in order."""
        yielded = 0
        for start, end in gaps:
            while yielded < len(known) and known[yielded].offset < start:
                yield known[yielded]
                yielded += 1
            yield from self._read_rows(connection, partition, start, end)
        yield from known[yielded:]

    def _read_rows(
        self, connection: sqlite3.Connection, partition: int, start: int, end: int
    ) -> Generator[StoredRecord]:
        first = sqlite_rows.row_id(self._number, partition, 0)
        cursor = connection.execute(
            "SELECT id, timestamp, key, value, headers FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            [first + start, first + end, self._timing.batch_records],
        )
        with closing(cursor):
            for row, at, key, value, headers in cursor:
                yield StoredRecord(partition, row - first, at, key, value, sqlite_rows.headers_from_bytes(headers))


class _SqliteStream:
    """The records of one partition from an offset on: those that this process has just appended are not read back."""

    def __init__(
        self, log: SqliteLog, file: SqliteFile, key: tuple[int, int], offset: int, fresh: sqlite_rows.FreshRecords
    ) -> None:
        self.waiting = False
        self._log = log
        self._file = file
        self._key = key
        self._offset = offset
        self._fresh = fresh
        self._pace = DeliveryPace()

    async def next(self) -> Batch:
        while self._offset >= self._file.ends[self._key]:
            self.waiting = True
            await self._file.broadcasts[self._key].wait()
        self.waiting = False
        await asyncio.sleep(self._pace.wait(time.monotonic()))  # for 0 s, too: other tasks run meanwhile
        end = self._file.ends[self._key]
        fresh, end = self._fresh.take_batch(self._offset, end)
        records = await self._log.read_batch(self._key[1], self._offset, end, fresh)
        self._pace.add(len(records), sum([len(record.value) for record in records]), time.monotonic())
        self._offset = records[-1].offset + 1 if records else end
        return Batch(records, self._offset)
