"""One SQLite file that holds several logs: its threads, its group commit, its watch for other processes' appends."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from collector.logs.following import Pace
from collector.logs.in_flight import InFlight
from collector.logs.log import LogError, LogUnavailable
from collector.logs.signal import Signal
from collector.logs.sqlite_transaction import Transaction, prepare

T = TypeVar("T")

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that writes to the file."""

WATCH_INTERVAL = 0.25
"""Seconds between two looks at what other processes have appended."""


@dataclass(frozen=True, slots=True)
class _Write:
    operation: Callable[[Transaction], Any]
    done: asyncio.Future[Any]


class SqliteFile:
    """One writer thread and one reader thread. Writes that come while one is under way share the next transaction.

    So an append costs a share of one fsync, however many there are, and is durable when its future is done.
    """

    def __init__(self, path: Path, pace: Pace, in_flight: InFlight) -> None:
        self.path = path
        self.in_flight = in_flight
        self.numbers: dict[str, int] = {}
        self.ends: dict[tuple[int, int], int] = {}
        self.signals: dict[tuple[int, int], Signal] = {}
        self._pace = pace
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")
        self._reader = ThreadPoolExecutor(1, "sqlite-reader")
        self._turn = asyncio.Lock()
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._pending: list[_Write] = []
        self._flushing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watchers = 0
        self._users: set[str] = set()

    async def open(self, names: Sequence[str], partitions: int) -> None:
        """Open the file, make it if there is none, and the logs in it.

        Raises:
            LogError: the file is none of ours, or its logs are not as wanted.
            LogUnavailable: the file cannot be opened.
        """
        self._users = set(names)
        try:
            await self._in_writer(self._connect, names, partitions)
        except LogError as error:
            await self._shut()
            kind = type(error)
            raise kind(f"{self.path}: {error}") from error

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Do something in the next transaction; it is durable on return.

        Raises:
            LogUnavailable: the disk is full, or the file is locked or gone. Nothing was done.
        """
        if self._writing is None:
            raise LogError(f"{self.path}: is closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.append(_Write(operation, done))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await done

    async def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Read in the reader's thread.

        The next read begins a step of the event loop later, when what was read has been folded: a thread that reads
        meanwhile takes the interpreter away for every row, which takes longer than to fold it.

        Raises:
            LogUnavailable: the file cannot be read now.
        """
        async with self._turn:
            if self._reading is None:
                raise LogError(f"{self.path}: is closed")
            return await asyncio.get_running_loop().run_in_executor(self._reader, _reading, operation, self._reading)

    @asynccontextmanager
    async def only_follower(self, log: str, group: str) -> AsyncGenerator[None]:
        """Be the only one, of all processes, who follows the log with this group.

        Raises:
            LogError: somebody else does already.
        """
        lock = await self._in_writer(self._lock, log, group)
        self._watch()
        try:
            yield
        finally:
            self._unwatch()
            await self._in_writer(lock.close)

    async def release(self, log: str) -> None:
        """The log needs the file no more; the last one closes it, after what is on its way was written."""
        self._users.discard(log)
        if self._users or self._writing is None:
            return
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
        reading, self._reading = self._reading, None
        writing, self._writing = self._writing, None
        if reading is not None:
            await asyncio.get_running_loop().run_in_executor(self._reader, reading.close)
        await self._in_writer(writing.close)
        await self._shut()

    async def _shut(self) -> None:
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    async def _in_writer(self, operation: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, operation, *arguments)

    def _connect(self, names: Sequence[str], partitions: int) -> None:
        with _translated():
            writing = self._connection()
            try:
                self.numbers = prepare(writing, names, partitions)
                self._reading = self._connection()
                self._reading.execute("PRAGMA query_only = ON")
                self.ends = _read_ends(writing)
            except BaseException:
                writing.close()
                raise
            self._writing = writing
            self.signals = {key: Signal() for key in self.ends}

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA cache_size = -16000")
        return connection

    def _lock(self, log: str, group: str) -> sqlite3.Connection:
        """A lock file that goes with the process: SQLite's own exclusive lock on an empty database."""
        lock = sqlite3.connect(
            f"{self.path}-{log}-{quote(group, safe='')}.lock",
            timeout=0.0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            lock.close()
            raise LogError(
                f"{self.path}: the group {group!r} follows the log {log!r} already, here or elsewhere"
            ) from None
        return lock

    async def _flush(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            try:
                results, appended = await self._in_writer(self._transact, batch)
            except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to those who wait for it
                _fail(batch, error)
                continue
            for write, result in zip(batch, results, strict=True):
                if not write.done.done():
                    write.done.set_result(result)
            self._notice(appended)
        self._flushing = None

    def _transact(self, batch: Sequence[_Write]) -> tuple[list[Any], dict[tuple[int, int], int]]:
        connection = self._writing
        assert connection is not None
        with _translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                transaction = Transaction(connection, self._pace.clock())
                results = [write.operation(transaction) for write in batch]
                transaction.finish()
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
                    connection.execute("ROLLBACK")
                raise
        return results, transaction.appended

    def _notice(self, ends: dict[tuple[int, int], int]) -> None:
        for key, end in ends.items():
            if key in self.signals and end > self.ends[key]:
                self.ends[key] = end
                self.signals[key].give()

    def _watch(self) -> None:
        self._watchers += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch_forever())

    def _unwatch(self) -> None:
        self._watchers -= 1
        if not self._watchers and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch_forever(self) -> None:
        """Other processes may append to the file as well; SQLite tells only that something changed."""
        version = -1
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            with suppress(LogError):  # whoever reads will say so
                now = await self.read(lambda connection: connection.execute("PRAGMA data_version").fetchone()[0])
                if now != version:
                    self._notice(await self.read(_read_ends))
                    version = now


def _read_ends(connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    rows = connection.execute("SELECT log, partition, next FROM ends")
    return {(log, partition): position for log, partition, position in rows}


def _reading(operation: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    with _translated():
        return operation(connection)


def _fail(batch: Sequence[_Write], error: Exception) -> None:
    for write in batch:
        if not write.done.done():
            write.done.set_exception(error)


@contextmanager
def _translated() -> Generator[None]:
    """SQLite's errors as ours: what may pass (disk full, locked, read-only) and what will not."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LogUnavailable(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise LogError(str(error)) from error
