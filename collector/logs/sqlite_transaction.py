"""A transaction of the writer's thread: many appends and commits at once."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from collector.logs.log import Committed, LogError, Record, StoredRecord
from collector.logs.sqlite_rows import headers_to_bytes, row_id
from collector.wording import plural

VERSION = 1
"""The schema's version, in the file's `user_version`."""

ROWS_AT_ONCE = 64
"""Rows that one statement inserts at most: SQLite's connection remembers 128 statements."""

_ADVANCE = "UPDATE ends SET next = ?, timestamp = ? WHERE log = ? AND partition = ?"

_Row = tuple[int, float, bytes | None, bytes | None, bytes]

Key = tuple[int, int]
"""A log's number, and a partition."""


class End(NamedTuple):
    """The end of a partition: the offset of its next record, and the time (s) of its last."""

    offset: int
    timestamp: float


def prepare(
    connection: sqlite3.Connection, names: Sequence[str], partitions: int | None, of_new: int
) -> dict[str, int]:
    """Create the tables and the logs, or check that they are as configured; returns the logs' numbers by name.

    Without `partitions` a file keeps the number that it has, and a new one gets `of_new`.

    Raises:
        LogError: the file has another version, or a log has another number of partitions.
    """
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    present = _present(connection)
    partitions = partitions or max((count for _, count in present.values()), default=of_new)
    if set(names) <= present.keys():  # nothing to write: the disk may be full
        for name in names:
            _check_partitions(name, present[name][1], partitions)
        return {name: present[name][0] for name in names}
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check_version(connection)
        for statement in files("collector.logs").joinpath("schema.sql").read_text(encoding="utf-8").split(";")[:-1]:
            connection.execute(statement)
        numbers = {name: _prepare_log(connection, name, partitions) for name in names}
        write_version(connection)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return numbers


def partitions_of(path: Path) -> int | None:
    """How many partitions the logs of a file have; None if it is not there, or none that can be read."""
    if not path.exists():
        return None
    reading = f"{path.resolve().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(reading, uri=True)) as connection:
        return max((count for _, count in _present(connection).values()), default=None)
    return None


def read_ends(connection: sqlite3.Connection) -> dict[Key, End]:
    """The end of each partition of each log."""
    rows = connection.execute("SELECT log, partition, next, timestamp FROM ends").fetchall()
    return {(log, partition): End(offset, timestamp) for log, partition, offset, timestamp in rows}


def write_version(connection: sqlite3.Connection) -> None:
    """Write the schema's version: one page, also where it is there already."""
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _present(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """The logs of the file by name, each with its number and its number of partitions; none if it is new."""
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        return {}
    rows = connection.execute("SELECT number, name, (SELECT COUNT(*) FROM ends WHERE log = number) FROM logs")
    return {name: (number, partitions) for number, name, partitions in rows}


def _check_version(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise LogError(f"was written by another version of evalstream (schema {version}, this one reads {VERSION})")


def _prepare_log(connection: sqlite3.Connection, name: str, partitions: int) -> int:
    connection.execute("INSERT OR IGNORE INTO logs (name) VALUES (?)", [name])
    number: int = connection.execute("SELECT number FROM logs WHERE name = ?", [name]).fetchone()[0]
    present = connection.execute("SELECT COUNT(*) FROM ends WHERE log = ?", [number]).fetchone()[0]
    if present:
        _check_partitions(name, present, partitions)
    else:
        rows = [(number, partition, 0, 0.0) for partition in range(partitions)]
        connection.executemany("INSERT INTO ends VALUES (?, ?, ?, ?)", rows)
    return number


def _check_partitions(name: str, present: int, partitions: int) -> None:
    if present != partitions:
        raise LogError(
            f"has the log {name!r} with {plural(present, 'partition')}, not {partitions}; the number of a file cannot "
            "change: leave log.partitions out, or let evalstream log copy make another file"
        )


class Transaction:
    """Collects appends of one transaction, so that each table is written once. Logs go by their numbers.

    Each statement lets the interpreter go and wants it back, which in a busy process is a wait and two switches of
    threads, so there are as few as can be: rows go in by the dozen, and where partitions end is not asked but known
    from the transaction before, and checked in writing it.
    """

    def __init__(self, connection: sqlite3.Connection, now: float, known: Mapping[Key, End]) -> None:
        """`known` is where partitions ended the last time that this process saw it; another may have appended since."""
        self.connection = connection
        self.appended: dict[Key, list[StoredRecord]] = {}
        """The appended records, once `finish` is through."""
        self.ends: dict[Key, End] = {}
        """The ends of these partitions then."""
        self._now = now
        self._known = known
        self._records: dict[Key, list[Record]] = {}

    def append(self, log: int, by_partition: Mapping[int, Sequence[Record]]) -> None:
        """Append records by partition."""
        for partition, records in by_partition.items():
            self._records.setdefault((log, partition), []).extend(records)

    def commit(self, log: int, group: str, states: Mapping[int, Committed]) -> None:
        """Store what a group has committed."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?, ?)",
            [
                (log, group, partition, state.low_watermark, state.offset, state.metadata)
                for partition, state in states.items()
            ],
        )

    def truncate(self, log: int, before: float, limit: int, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` and below the low watermark of every group that ever committed.

        Nothing, if one of `readers` never did. At most `limit` of each partition, so that appends do not wait long.
        """
        bounds = self._bounds(log, readers)
        return sum(self._delete(log, partition, before, bound, limit) for partition, bound in bounds.items())

    def rewrite(self, log: int, records: Sequence[StoredRecord]) -> None:
        """Write records over those at their offsets."""
        self.connection.executemany(
            "UPDATE records SET key = ?, headers = ?, value = ? WHERE id = ?",
            [
                (
                    record.key,
                    headers_to_bytes(record.headers),
                    record.value,
                    row_id(log, record.partition, record.offset),
                )
                for record in records
            ],
        )

    def finish(self) -> None:
        """Write what was collected."""
        rows: list[_Row] = []
        for (log, partition), records in self._records.items():
            stored, end = self._advance(log, partition, records)
            self.appended[log, partition], self.ends[log, partition] = stored, end
            first = row_id(log, partition, 0)
            rows += [
                (first + record.offset, record.timestamp, record.key, headers_to_bytes(record.headers), record.value)
                for record in stored
            ]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            self.connection.execute(_insertion_of(len(some)), list(chain.from_iterable(some)))

    def _advance(self, log: int, partition: int, records: Sequence[Record]) -> tuple[list[StoredRecord], End]:
        """The records with their offsets and times; the partition's end is behind them."""
        known = self._known.get((log, partition))
        if known is not None:
            stored, end = _stored(partition, records, known, self._now)
            where = [end.offset, end.timestamp, log, partition, known.offset]
            if self.connection.execute(f"{_ADVANCE} AND next = ?", where).rowcount:
                return stored, end
        wanted = "SELECT next, timestamp FROM ends WHERE log = ? AND partition = ?"
        known = End(*self.connection.execute(wanted, [log, partition]).fetchone())
        stored, end = _stored(partition, records, known, self._now)
        self.connection.execute(_ADVANCE, [end.offset, end.timestamp, log, partition])
        return stored, end

    def _bounds(self, log: int, readers: Collection[str]) -> dict[int, int]:
        """The records that may be deleted, by partition. A group that has commits, but none for a partition, needs all
        of it.
        """
        needs: dict[str, dict[int, int]] = {group: {} for group in readers}
        rows = self.connection.execute('SELECT "group", partition, low_watermark FROM commits WHERE log = ?', [log])
        for group, partition, low in rows:
            needs.setdefault(group, {})[partition] = low
        ends = self.connection.execute("SELECT partition, next FROM ends WHERE log = ?", [log])
        return {
            partition: min((lows.get(partition, 0) for lows in needs.values()), default=end) for partition, end in ends
        }

    def _delete(self, log: int, partition: int, before: float, bound: int, limit: int) -> int:
        first, last = row_id(log, partition, 0), row_id(log, partition, bound)
        oldest = self.connection.execute(
            "SELECT id, timestamp FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", [first, last, limit]
        )
        expired = [row for row, timestamp in oldest if timestamp < before]
        if expired:
            self.connection.execute("DELETE FROM records WHERE id BETWEEN ? AND ?", [first, expired[-1]])
        return len(expired)


def _stored(partition: int, records: Sequence[Record], end: End, now: float) -> tuple[list[StoredRecord], End]:
    """Records as they stand in the log behind an end, and the end behind them. Times never decrease."""
    time = end.timestamp
    stored: list[StoredRecord] = []
    for offset, record in enumerate(records, end.offset):
        time = max(time, now if record.timestamp is None else record.timestamp)
        stored.append(StoredRecord(partition, offset, time, record.key, record.value, record.headers))
    return stored, End(end.offset + len(stored), time)


@lru_cache(ROWS_AT_ONCE)
def _insertion_of(rows: int) -> str:
    return "INSERT INTO records VALUES (?, ?, ?, ?, ?)" + ", (?, ?, ?, ?, ?)" * (rows - 1)
