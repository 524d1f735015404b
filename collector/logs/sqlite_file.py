"""One SQLite file that holds several logs: two threads, group commit, and a check for appends of other processes."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from collector.admission.bounded_gate import BoundedGate
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Broadcast, LogError, LogUnavailable, StoredRecord
from collector.logs.open_files import OpenFiles
from collector.logs.sqlite_rows import FreshRecords
from collector.logs.sqlite_shares import PARTITIONS, PartitionShare, group_in_use, lock_alone, lock_path, lock_shared
from collector.logs.sqlite_transaction import End, Key, Transaction, prepare, read_ends, write_version
from evaluators.private_files import create_private, restrict_or_warn

T = TypeVar("T")

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that writes to the file."""

WATCH_INTERVAL = 0.25
"""Seconds between two checks for what other processes have appended, and whether the file is where it was."""

BUSY_WATCH_INTERVAL = 0.05
"""The same while others append: what they hand on does not wait, and a check costs 0.2 ms."""

GATHER = 0.005
"""A process that shares the file gathers appends for this many seconds before it writes them in one transaction."""

NO_ROOM = 1 << 20
"""Free bytes below which a file that cannot be opened may be one that there is no room for."""

_ASK = "; {}: until then senders get 503, and nothing that was accepted is lost"
_REMEDIES = {
    sqlite3.SQLITE_FULL: _ASK.format("free some room"),
    sqlite3.SQLITE_READONLY: _ASK.format("make it writable"),
    sqlite3.SQLITE_NOTADB: "; name another file (log.path)",
}

_WRONG_PATH = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
"""SQLite's codes for a file that will not open however long one waits."""


@dataclass(frozen=True, slots=True)
class _Write:
    operation: Callable[[Transaction], Any]
    done: asyncio.Future[Any]


class SqliteFile:
    """One writer thread and one reader thread. Writes that arrive while one is in progress share the next transaction.

    This is group commit: an append is durable when its future is done, and costs a share of one fsync, however many
    there are. A timer that collects writes would add its delay to every append; here the fsync itself is the delay.
    Only where processes share the file is there one, of `GATHER`: by turns they would write twice as often.
    """

    def __init__(
        self, path: Path, timing: ConsumerTiming, in_flight: BoundedGate, share: PartitionShare | None = None
    ) -> None:
        self.path = path
        self.share = share
        self.in_flight = in_flight
        self.numbers: dict[str, int] = {}
        self.ends: dict[Key, int] = {}
        self.broadcasts: dict[Key, Broadcast] = {}
        self._fresh: dict[Key, list[FreshRecords]] = {}
        self._timing = timing
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
        self._claims: dict[tuple[str, str], asyncio.Task[sqlite3.Connection]] = {}
        self._consumed: set[tuple[str, str]] = set()
        self._files = OpenFiles(path)
        self._written_ends: dict[Key, End] = {}
        """The ends of partitions when this process wrote last; the writer's thread alone has them. If others share the
        file, each transaction reads them."""
        self._holds_deleted = True
        """Whether the write-ahead log may hold deleted records: at the start, the locks of a killed process."""
        self._writable = False
        """Whether the last transaction was written; the next one's is unknown."""

    async def open(self, names: Sequence[str], partitions: int | None) -> None:
        """Open the file and the logs in it; missing tables are created.

        Without `partitions` a file keeps the number that it has; a new one gets one, or several where it is shared.

        Raises:
            LogError: the file is not one of evalstream, its logs are not as configured, or it cannot be opened.
            LogUnavailable: the disk is full, or another process holds the file: a retry may succeed.
        """
        self._users = set(names)
        try:
            await self._in_writer_thread(self._connect, names, partitions)
        except LogError as error:
            await self._shut()
            raise type(error)(f"{self.path}: {error}") from error

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Do something in the next transaction; it is durable on return.

        Raises:
            LogUnavailable: the disk is full, or the file is locked or gone. Nothing was done that can be read again.
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

        The next read begins a step of the event loop later, when the records have been folded: a thread that reads
        meanwhile takes the interpreter away for every row, which takes longer than to fold it.

        Raises:
            LogUnavailable: the file cannot be read now.
        """
        async with self._turn:
            if self._reading is None:
                raise LogError(f"{self.path}: is closed")
            return await asyncio.get_running_loop().run_in_executor(self._reader, _reading, operation, self._reading)

    async def probe(self) -> None:
        """See that the file can be written: after a failure by writing what is there already.

        Raises:
            LogUnavailable: it cannot.
        """
        self._files.require_in_place()
        if not self._writable:
            await self.write(lambda transaction: write_version(transaction.connection))

    async def forget_deleted(self, *, deleted: bool) -> None:
        """Empty the write-ahead log, which holds copies of deleted records; again later where a reader is in the way.

        `deleted` says that something was deleted since. A failed try is repeated by the next call.

        Raises:
            LogUnavailable: the file cannot be written.
        """
        self._holds_deleted = self._holds_deleted or deleted
        if self._holds_deleted and self._writing is not None:
            self._holds_deleted = not await self._in_writer_thread(_emptied, self._writing)

    async def compact(self) -> None:
        """Rewrite the file from what is in it.

        Raises:
            LogUnavailable: the disk has no room for it.
        """
        assert self._writing is not None
        await self._in_writer_thread(_compacted, self._writing)
        await self.forget_deleted(deleted=True)

    async def claim(self, log: str, group: str) -> None:
        """Reserve the log for consumers of this process with this group, until it is closed.

        Raises:
            GroupInUse: another process has it.
        """
        claim = self._claims.get((log, group))
        if claim is None:
            claim = asyncio.create_task(self._in_writer_thread(self._lock, log, group))
            claim.add_done_callback(_retrieve)
            self._claims[log, group] = claim
        try:
            await asyncio.shield(claim)
        except LogError:
            self._claims.pop((log, group), None)
            raise

    @asynccontextmanager
    async def only_consumer(self, log: str, group: str) -> AsyncGenerator[None]:
        """Be the only consumer of the log with this group, among all processes.

        Raises:
            GroupInUse: there is another one.
        """
        key = (log, group)
        if key in self._consumed:
            raise group_in_use(self.path, log, group)
        self._consumed.add(key)
        try:
            await self.claim(log, group)
            self._watch()
            try:
                yield
            finally:
                self._unwatch()
                await self._give_up(key)
        finally:
            self._consumed.discard(key)

    @contextmanager
    def fresh_records(self, key: Key) -> Generator[FreshRecords]:
        """The records that this process appends to a partition from now on, for one consumer."""
        fresh = FreshRecords(self._timing.batch_records, self._timing.batch_bytes)
        everyone = self._fresh.setdefault(key, [])
        everyone.append(fresh)
        try:
            yield fresh
        finally:
            everyone.remove(fresh)

    async def release(self, log: str) -> None:
        """Give up the file for a log; the last one closes it, after appends in flight are written."""
        self._users.discard(log)
        if self._users or self._writing is None:
            return
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
        reading, self._reading = self._reading, None
        writing, self._writing = self._writing, None
        if reading is not None:
            await asyncio.get_running_loop().run_in_executor(self._reader, reading.close)
        for key in list(self._claims):  # claimed, and never consumed
            await self._give_up(key)
        await self._in_writer_thread(writing.close)
        await self._shut()

    async def _give_up(self, key: tuple[str, str]) -> None:
        await self._in_writer_thread((await self._claims.pop(key)).close)

    async def _shut(self) -> None:
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    async def _in_writer_thread(self, operation: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, operation, *arguments)

    def _connect(self, names: Sequence[str], partitions: int | None) -> None:
        with self._translated_open():
            create_private(self.path)  # SQLite would make it readable by all; `-wal` and `-shm` get its permissions
            writing = self._connection()
            try:
                self.numbers = prepare(writing, names, partitions, 1 if self.share is None else PARTITIONS)
                for path in (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))):
                    restrict_or_warn(path, "judged text")  # only now: it is a file of evalstream
                self._reading = self._connection()
                self._reading.execute("PRAGMA query_only = ON")
                self.ends = _offsets(writing)
                self._files.remember()
            except BaseException:
                writing.close()
                raise
            self._writing = writing
            self.broadcasts = {key: Broadcast() for key in self.ends}

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA cache_size = -16000")
        # Deleted text is overwritten; SQLite's default is the builder's.
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    @contextmanager
    def _translated_open(self) -> Generator[None]:
        """SQLite's errors of opening as ours."""
        with _translated():
            try:
                yield
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary one
                is_read_only = self.path.parent.is_dir() and not os.access(self.path.parent, os.W_OK)
                if code in _WRONG_PATH and (is_read_only or _has_room(self.path)):
                    raise LogError(f"{error}; see that the folder exists and can be written (log.path)") from error
                raise

    def _lock(self, log: str, group: str) -> sqlite3.Connection:
        path = lock_path(self.path, log, group)
        share = self.share if self.share is not None and (log, group) in self.share.groups else None
        with _translated():
            lock = lock_alone(path) if share is None else lock_shared(path, share.command)
        if lock is None:
            raise group_in_use(self.path, log, group)
        return lock

    async def _flush(self) -> None:
        try:
            await self._flush_pending()
        finally:
            self._flushing = None  # whatever happened: the next write begins again

    async def _flush_pending(self) -> None:
        while self._pending:
            if self.share is not None:
                await asyncio.sleep(GATHER)
            batch, self._pending = self._pending, []
            try:
                results, appended = await self._in_writer_thread(self._transact, batch)
            except Exception as error:  # noqa: BLE001 - every error belongs to those who wait for this batch
                _fail(batch, error)
                continue
            for write, result in zip(batch, results, strict=True):
                if not write.done.done():
                    write.done.set_result(result)
            self._hand_on(appended)

    def _transact(self, batch: Sequence[_Write]) -> tuple[list[Any], Mapping[Key, Sequence[StoredRecord]]]:
        connection = self._writing
        assert connection is not None
        self._files.require_in_place()
        with _translated(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                known = self._written_ends if self.share is None else read_ends(connection)
                transaction = Transaction(connection, self._timing.clock(), known)
                results = [write.operation(transaction) for write in batch]
                transaction.finish()
                connection.execute("COMMIT")
            except BaseException:
                self._writable = False
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
                    connection.execute("ROLLBACK")
                raise
        self._files.require_in_place()  # records in a deleted file are lost
        self._written_ends.update(transaction.ends)
        self._writable = True
        return results, transaction.appended

    def _data_version(self) -> int:
        if self._writing is None:
            raise LogError(f"{self.path}: is closed")
        with _translated():
            return self._writing.execute("PRAGMA data_version").fetchone()[0]

    def _hand_on(self, appended: Mapping[Key, Sequence[StoredRecord]]) -> None:
        """Give what this process has appended to its consumers."""
        for key, records in appended.items():
            for fresh in self._fresh.get(key, ()):
                fresh.add(records)
        self._announce({key: records[-1].offset + 1 for key, records in appended.items()})

    def _announce(self, ends: dict[Key, int]) -> None:
        for key, end in ends.items():
            if key in self.broadcasts and end > self.ends[key]:
                self.ends[key] = end
                self.broadcasts[key].notify()

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
        """Other processes may append to the file as well. SQLite tells only that another connection changed something.

        The writer's connection is asked, as this process's own writes are no change for it.
        """
        version, interval = -1, WATCH_INTERVAL
        while True:
            await asyncio.sleep(interval)
            self._files.problem()  # which reports it
            with suppress(Exception):  # the reader reports it; without this watch nothing new would be read
                now = await self._in_writer_thread(self._data_version)
                interval = WATCH_INTERVAL if now == version else BUSY_WATCH_INTERVAL
                if now != version:
                    self._announce(await self.read(_offsets))
                    version = now


def _retrieve(claim: asyncio.Task[sqlite3.Connection]) -> None:
    """Retrieve the error of a claim whose task was cancelled: else asyncio logs it."""
    if not claim.cancelled():
        claim.exception()


def _emptied(connection: sqlite3.Connection) -> bool:
    """Write the write-ahead log into the file and cut it to nothing; whether no other reader was in the way."""
    with _translated():
        connection.execute("PRAGMA busy_timeout = 100")  # appends wait meanwhile
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    return not busy


def _compacted(connection: sqlite3.Connection) -> None:
    with _translated():
        connection.execute("VACUUM")


def _offsets(connection: sqlite3.Connection) -> dict[Key, int]:
    return {key: end.offset for key, end in read_ends(connection).items()}


def _has_room(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free > NO_ROOM
    except OSError:  # there is no such folder
        return True


def _reading(operation: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    with _translated():
        return operation(connection)


def _fail(batch: Sequence[_Write], error: Exception) -> None:
    for write in batch:
        if not write.done.done():
            write.done.set_exception(error)


@contextmanager
def _translated(path: Path | None = None) -> Generator[None]:
    """SQLite's errors as ours: what may go away (disk full, locked, read-only) and what will not."""
    try:
        yield
    except sqlite3.OperationalError as error:
        where = f"{path}: " if path else ""
        remedy = _REMEDIES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "")
        raise LogUnavailable(f"{where}{error}{remedy}") from error
    except sqlite3.DatabaseError as error:
        raise LogError(f"{error}{_REMEDIES.get(getattr(error, 'sqlite_errorcode', 0) & 0xFF, '')}") from error
