"""What is done to the file in the writer's thread: many appends and commits in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from collector.logs.log import Committed, LogError, Record
from collector.logs.sqlite_rows import headers_to_bytes, row_id

VERSION = 1
"""The schema's version, in the file's `user_version`."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, key BLOB, headers BLOB, value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS ends (
    log INTEGER, partition INTEGER, next INTEGER NOT NULL, timestamp REAL NOT NULL, PRIMARY KEY (log, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commits (
    log INTEGER, "group" TEXT, partition INTEGER, low_watermark INTEGER NOT NULL, position INTEGER NOT NULL,
    note TEXT NOT NULL, PRIMARY KEY (log, "group", partition)
) WITHOUT ROWID;
"""

_Row = tuple[int, float, bytes | None, bytes | None, bytes]


def prepare(connection: sqlite3.Connection, names: Sequence[str], partitions: int) -> dict[str, int]:
    """Make the tables and the logs, or see that they are as wanted; returns the logs' numbers by name.

    Raises:
        LogError: the file is of another version, or a log has another number of partitions.
    """
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check_version(connection)
        for statement in _SCHEMA.split(";")[:-1]:
            connection.execute(statement)
        numbers = {name: _prepare_log(connection, name, partitions) for name in names}
        connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return numbers


def _check_version(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise LogError(f"was written by another version of evalstream (schema {version}, this one reads {VERSION})")


def _prepare_log(connection: sqlite3.Connection, name: str, partitions: int) -> int:
    connection.execute("INSERT OR IGNORE INTO logs (name) VALUES (?)", [name])
    number: int = connection.execute("SELECT number FROM logs WHERE name = ?", [name]).fetchone()[0]
    there = connection.execute("SELECT COUNT(*) FROM ends WHERE log = ?", [number]).fetchone()[0]
    if there not in (0, partitions):
        raise LogError(f"has the log {name!r} with {there} partitions, not {partitions}; the number cannot change")
    if not there:
        rows = [(number, partition, 0, 0.0) for partition in range(partitions)]
        connection.executemany("INSERT INTO ends VALUES (?, ?, ?, ?)", rows)
    return number


class Transaction:
    """Collects appends of one transaction, so that each table is written once. Logs go by their numbers."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self.connection = connection
        self.appended: dict[tuple[int, int], int] = {}
        self._now = now
        self._rows: list[_Row] = []
        self._ends: dict[int, dict[int, tuple[int, float]]] = {}

    def append(self, log: int, placed: Mapping[int, Sequence[Record]]) -> None:
        """Append records by partition."""
        ends = self._ends.get(log)
        if ends is None:
            ends = self._ends[log] = self._read_ends(log)
        for partition, records in placed.items():
            position, time = ends[partition]
            time = max(time, self._now)
            first = row_id(log, partition, position)
            self._rows.extend(
                (row, time, record.key, headers_to_bytes(record.headers), record.value)
                for row, record in enumerate(records, first)
            )
            self.appended[log, partition] = position + len(records)
            ends[partition] = position + len(records), time

    def commit(self, log: int, group: str, states: Mapping[int, Committed]) -> None:
        """Note what a group has committed."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?, ?)",
            [
                (log, group, partition, state.low_watermark, state.position, state.note)
                for partition, state in states.items()
            ],
        )

    def truncate(self, log: int, before: float, limit: int, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` and below the low watermark of every group that ever committed.

        None, where one of `readers` never did. At most `limit` of each partition, so that appends do not wait long.
        """
        bounds = self._bounds(log, readers)
        return sum(self._forget(log, partition, before, bound, limit) for partition, bound in bounds.items())

    def finish(self) -> None:
        """Write what was collected."""
        self.connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", self._rows)
        self.connection.executemany(
            "UPDATE ends SET next = ?, timestamp = ? WHERE log = ? AND partition = ?",
            [(*self._ends[log][partition], log, partition) for log, partition in self.appended],
        )

    def _read_ends(self, log: int) -> dict[int, tuple[int, float]]:
        rows = self.connection.execute("SELECT partition, next, timestamp FROM ends WHERE log = ?", [log])
        return {partition: (position, time) for partition, position, time in rows}

    def _bounds(self, log: int, readers: Collection[str]) -> dict[int, int]:
        """What may go, by partition. A group that has committed, but not for a partition, needs all of that one."""
        needs: dict[str, dict[int, int]] = {group: {} for group in readers}
        rows = self.connection.execute('SELECT "group", partition, low_watermark FROM commits WHERE log = ?', [log])
        for group, partition, low in rows:
            needs.setdefault(group, {})[partition] = low
        return {
            partition: min((lows.get(partition, 0) for lows in needs.values()), default=end)
            for partition, (end, _) in self._read_ends(log).items()
        }

    def _forget(self, log: int, partition: int, before: float, bound: int, limit: int) -> int:
        first, last = row_id(log, partition, 0), row_id(log, partition, bound)
        oldest = self.connection.execute(
            "SELECT id, timestamp FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", [first, last, limit]
        )
        gone = [row for row, timestamp in oldest if timestamp < before]
        if gone:
            self.connection.execute("DELETE FROM records WHERE id BETWEEN ? AND ?", [first, gone[-1]])
        return len(gone)
