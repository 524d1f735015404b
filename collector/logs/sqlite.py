"""The log in a SQLite file: durable, for one machine, with nothing to set up."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path

from collector.logs.following import Chunk, Feed, Following, Pace, follow_all
from collector.logs.in_flight import InFlight
from collector.logs.log import Committed, LogError, OpenFold, Record, Stored
from collector.logs.placing import Placing
from collector.logs.sqlite_file import SqliteFile
from collector.logs.sqlite_rows import MAX_LOGS, MAX_PARTITIONS, headers_from_bytes, position_of, row_id
from collector.logs.sqlite_transaction import Transaction

MAX_RECORD_BYTES = 64 << 20
TRUNCATE_ROWS = 2000
"""Rows of a partition deleted in one transaction."""


class SqliteLog:
    """One of the logs in a SQLite file. Several share the file, its transactions and its fsyncs."""

    def __init__(self, name: str, partitions: int, file: SqliteFile, pace: Pace, max_record_bytes: int) -> None:
        """See `open`."""
        self._name = name
        self._number = file.numbers[name]
        self._partitions = partitions
        self._file = file
        self._pace = pace
        self._placing = Placing(name, partitions, max_record_bytes)

    @classmethod
    async def open(
        cls,
        path: Path | str,
        names: Sequence[str],
        partitions: int = 8,
        *,
        pace: Pace | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
        max_in_flight: tuple[int, int] = (100_000, 64 << 20),
    ) -> dict[str, SqliteLog]:
        """Open the logs `names` in the file at `path`, by name; what is not there is made.

        `partitions` is the number of partitions of each log and cannot change later. `max_in_flight` bounds the records
        and bytes that wait for a transaction. Close every log; the last one closes the file.

        Raises:
            LogError: the file is none of ours, or a log in it has another number of partitions.
            LogUnavailable: the file cannot be opened or written.
        """
        for name in names:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise LogError(f"{name!r} is no name for a log: lower-case letters, digits and _ only")
        if not 1 <= partitions <= MAX_PARTITIONS or len(names) > MAX_LOGS:
            raise LogError(f"a file holds up to {MAX_LOGS} logs of 1 to {MAX_PARTITIONS} partitions")
        pace = pace or Pace()
        file = SqliteFile(Path(path), pace, InFlight(*max_in_flight))
        await file.open(names, partitions)
        return {name: cls(name, partitions, file, pace, max_record_bytes) for name in names}

    @property
    def name(self) -> str:
        """What the log is called."""
        return self._name

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._partitions

    async def append(self, records: Sequence[Record]) -> None:
        """Append records in one transaction: all or nothing, on the disk on return."""
        placed, size = self._placing.place(records)
        if not placed:
            return
        await self._file.in_flight.acquire(len(records), size)
        try:
            await self._file.write(lambda transaction: transaction.append(self._number, placed))
        finally:
            self._file.in_flight.release(len(records), size)

    async def end(self, partition: int) -> int:
        """The position that the next record of the partition will get."""

        def of(connection: sqlite3.Connection) -> int:
            wanted = "SELECT next FROM ends WHERE log = ? AND partition = ?"
            return connection.execute(wanted, [self._number, partition]).fetchone()[0]

        return await self._file.read(of)

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[Stored]]:
        """Read batches up to the end as it is at the first step."""
        end = await self.end(partition)
        while records := await self.read_chunk(partition, start, end):
            yield records
            start = records[-1].position + 1

    async def read_chunk(self, partition: int, start: int, end: int) -> list[Stored]:
        """The first records between two positions, as many as make a chunk."""
        rows = (row_id(self._number, partition, start), row_id(self._number, partition, end))
        return await self._file.read(lambda connection: self._read_rows(connection, partition, rows))

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of all partitions until cancelled.

        Raises:
            LogError: somebody else follows this log with this group.
        """

        async def commit(states: Mapping[int, Committed]) -> None:
            await self._file.write(lambda transaction: transaction.commit(self._number, group, states))

        async with self._file.only_follower(self._name, group):
            feeds = [self._feed(*each) for each in (await self._file.read(lambda c: self._starts(c, group)))]
            await follow_all(Following(open_fold, commit, self.append, self._pace), feeds)

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Forget records older than `before` that no group needs. The file does not shrink; its room is used again."""

        def forget(transaction: Transaction) -> int:
            return transaction.truncate(self._number, before, TRUNCATE_ROWS, readers)

        total = 0
        while count := await self._file.write(forget):
            total += count
        return total

    async def close(self) -> None:
        """Let go of the file."""
        await self._file.release(self._name)

    def _feed(self, partition: int, committed: Committed | None, start: int) -> Feed:
        return Feed(partition, committed, start, self._stream(partition, start), self._pace)

    def _stream(self, partition: int, start: int) -> _Stream:
        return _Stream(self, self._file, (self._number, partition), start)

    def _starts(self, connection: sqlite3.Connection, group: str) -> list[tuple[int, Committed | None, int]]:
        """Of each partition: its number, what the group has committed, and where to begin reading."""
        wanted = 'SELECT partition, low_watermark, position, note FROM commits WHERE log = ? AND "group" = ?'
        rows = connection.execute(wanted, [self._number, group])
        commits = {partition: Committed(low, position, note) for partition, low, position, note in rows}
        return [
            (partition, commits.get(partition), self._start(connection, partition, commits.get(partition)))
            for partition in range(self._partitions)
        ]

    def _start(self, connection: sqlite3.Connection, partition: int, committed: Committed | None) -> int:
        if committed is not None:
            return committed.low_watermark
        wanted = "SELECT next FROM ends WHERE log = ? AND partition = ?"  # first: what comes after it is then found
        end: int = connection.execute(wanted, [self._number, partition]).fetchone()[0]
        oldest = connection.execute(
            "SELECT MIN(id) FROM records WHERE id >= ? AND id < ?",
            [row_id(self._number, partition, 0), row_id(self._number, partition + 1, 0)],
        ).fetchone()[0]
        return end if oldest is None else position_of(oldest)

    def _read_rows(self, connection: sqlite3.Connection, partition: int, rows: tuple[int, int]) -> list[Stored]:
        found: list[Stored] = []
        size = 0
        cursor = connection.execute(
            "SELECT id, timestamp, key, value, headers FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            [*rows, self._pace.chunk_records],
        )
        for row, timestamp, key, value, headers in cursor:
            found.append(Stored(partition, position_of(row), timestamp, key, value, headers_from_bytes(headers)))
            size += len(value)
            if size >= self._pace.chunk_bytes:
                break
        cursor.close()
        return found


class _Stream:
    """The records of one partition from a position on."""

    def __init__(self, log: SqliteLog, file: SqliteFile, key: tuple[int, int], position: int) -> None:
        self.waiting = False
        self._log = log
        self._file = file
        self._key = key
        self._position = position

    async def next(self) -> Chunk:
        while self._position >= self._file.ends[self._key]:
            self.waiting = True
            await self._file.signals[self._key].wait()
        self.waiting = False
        end = self._file.ends[self._key]
        records = await self._log.read_chunk(self._key[1], self._position, end)
        self._position = records[-1].position + 1 if records else end
        return Chunk(records, self._position)
