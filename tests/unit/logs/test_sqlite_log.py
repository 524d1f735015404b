"""What only the SQLite log does: one file, one fsync for many, one follower per group, errors of the disk."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from folds import Recorder, Recorders, following

from collector.logs.consumer_runner import AT_ONCE, INTERVAL, ConsumerTiming
from collector.logs.log import TICK, GroupInUse, LogError, LogUnavailable, Record, StoredRecord
from collector.logs.sqlite import SqliteLog
from collector.logs.sqlite_file import _Write
from collector.logs.sqlite_shares import PARTITIONS, PartitionShare, lock_path, reserve
from collector.logs.sqlite_transaction import Transaction, partitions_of

WRITER = """
import asyncio, sys
from collector.logs.log import Record
from collector.logs.sqlite import SqliteLog
async def main():
    log = (await SqliteLog.open(sys.argv[1], ["spans"], 2))["spans"]
    async def write(writer):
        n = 0
        while True:
            await log.append([Record(b"%d" % writer, b"%d" % n)])
            print(writer, n, flush=True)
            n += 1
    await asyncio.gather(*map(write, range(8)))
asyncio.run(main())
"""

FOLLOWER = """
import asyncio, sys
from contextlib import asynccontextmanager
from collector.logs.sqlite import SqliteLog
class Fold:
    due_at = low_watermark = None
    metadata = ""
    async def replay(self, records): ...
    async def deliver(self, records): ...
@asynccontextmanager
async def open_fold(partition, committed):
    print("open", flush=True)
    yield Fold()
async def main():
    log = (await SqliteLog.open(sys.argv[1], ["spans"], 1))["spans"]
    await log.follow("g", open_fold)
asyncio.run(main())
"""


def start(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)


async def values(log: SqliteLog) -> list[bytes]:
    return [r.value for p in range(log.partitions) async for batch in log.read(p, 0) for r in batch]


async def test_appends_outlive_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    with start(WRITER, path) as writer:
        assert writer.stdout
        durable = [writer.stdout.readline().split() for _ in range(200)]
        os.kill(writer.pid, signal.SIGKILL)
        durable += [line.split() for line in writer.stdout if line.endswith("\n")]
    log = (await SqliteLog.open(path, ["spans"], 2))["spans"]
    got = {(r.key, r.value) for p in range(2) async for batch in log.read(p, 0) for r in batch}
    assert {(writer.encode(), n.encode()) for writer, n in durable} <= got
    await log.append([Record(b"k", b"more")])
    await log.close()


async def test_many_appends_share_a_transaction_also_between_logs(tmp_path: Path) -> None:
    logs = await SqliteLog.open(tmp_path / "logs.db", ["spans", "turns"], 2)
    transactions = 0
    file = logs["spans"]._file
    transact = file._transact

    def counted(batch):
        nonlocal transactions
        transactions += 1
        return transact(batch)

    file._transact = counted
    appends = [log.append([Record(b"k", b"%d" % n)]) for n in range(100) for log in logs.values()]
    await asyncio.gather(*appends)
    assert transactions <= 2
    assert await values(logs["spans"]) == await values(logs["turns"]) == [b"%d" % n for n in range(100)]
    for log in logs.values():
        await log.close()


async def test_appends_wait_while_too_much_is_on_its_way(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1, max_in_flight=(10, 1 << 20)))["spans"]
    file = log._file
    most = 0

    async def write(n: int) -> None:
        nonlocal most
        await log.append([Record(b"k", b"%d" % n)] * 5)
        most = max(most, file.in_flight.items)

    await asyncio.gather(*map(write, range(50)))
    assert most <= 10
    assert file.in_flight.items == file.in_flight.bytes == 0
    assert len(await values(log)) == 250
    await log.close()


async def test_another_process_with_the_same_group_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    log = (await SqliteLog.open(path, ["spans"], 1))["spans"]
    got = Recorders()
    with start(FOLLOWER, path) as other:
        assert other.stdout
        assert other.stdout.readline() == "open\n"
        with pytest.raises(LogError, match=r"logs\.db: another process consumes the log 'spans' for 'g' already"):
            await log.follow("g", got.open_fold)
        async with following(log, "another", got.open_fold):
            await got.until(lambda: got.folds)
        other.kill()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.history) == 2)
    await log.close()


async def test_the_same_group_twice_in_one_process_is_refused(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: got.folds)
        with pytest.raises(LogError, match="already"):
            await log.follow("g", got.open_fold)
    await log.close()


async def test_what_another_process_appends_is_seen(tmp_path: Path) -> None:
    ours = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    theirs = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    got = Recorders()
    async with following(ours, "g", got.open_fold):
        await theirs.append([Record(b"k", b"1")])
        await ours.append([Record(b"k", b"2")])
        await theirs.append([Record(b"k", b"3")])
        await got.until(lambda: len(got.delivered) == 3)
    assert got.values == [b"1", b"2", b"3"]
    await ours.close()
    await theirs.close()


@pytest.mark.parametrize(("batch_records", "batch_bytes"), [(500, 4 << 20), (7, 4 << 20), (500, 40)])
async def test_processes_that_append_by_turns_each_see_all_in_order(
    tmp_path: Path, batch_records: int, batch_bytes: int
) -> None:
    """Also where a batch ends within what the other one has appended, or this one."""
    timing = ConsumerTiming(batch_records=batch_records, batch_bytes=batch_bytes)
    logs = [(await SqliteLog.open(tmp_path / "logs.db", ["spans"], 2, timing=timing))["spans"] for _ in range(2)]
    seen = [Recorders() for _ in logs]
    async with following(logs[0], "first", seen[0].open_fold), following(logs[1], "second", seen[1].open_fold):
        await seen[0].until(lambda: len(seen[0].folds) == 2)
        await seen[1].until(lambda: len(seen[1].folds) == 2)
        for number in range(60):  # each now and then several times in a row
            await logs[number % 7 % 2].append([Record(b"%d" % each, b"%d" % number) for each in range(1, 6)])
        for each in seen:
            await each.until(lambda each=each: len(each.delivered) == 300)
    for partition in range(2):
        stored = [record async for batch in logs[0].read(partition, 0) for record in batch]
        assert [record.offset for record in stored] == list(range(len(stored)))
        assert [record.timestamp for record in stored] == sorted(record.timestamp for record in stored)
        assert stored
        for each in seen:
            assert each.folds[partition].delivered == stored
    for log in logs:
        await log.close()


@pytest.mark.parametrize("known", [[], range(3, 40), [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 30, 31, 32, 33], [5, 6, 30]])
@pytest.mark.parametrize(("batch_records", "batch_bytes"), [(500, 4 << 20), (7, 4 << 20), (500, 60)])
async def test_what_is_known_and_what_is_read_make_one_batch(
    tmp_path: Path, known: Sequence[int], batch_records: int, batch_bytes: int
) -> None:
    timing = ConsumerTiming(batch_records=batch_records, batch_bytes=batch_bytes)
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1, timing=timing))["spans"]
    await log.append([Record(b"k", b"%d" % number * 5) for number in range(40)])
    stored = [record async for batch in log.read(0, 0) for record in batch]
    batch = await log.read_batch(0, 0, 40, [stored[each] for each in known])
    assert batch == stored[: len(batch)]
    assert len(batch) == min(40, batch_records) or sum(len(each.value) for each in batch) >= batch_bytes
    assert sum(len(each.value) for each in batch[:-1]) < batch_bytes
    await log.close()


@asynccontextmanager
async def following_without_reading(log: SqliteLog, got: Recorders) -> AsyncIterator[None]:
    """A consumer of the only partition that has caught up; nothing may be read until this is left."""
    file, read = log._file, list[object]()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: got.folds)
        while not file._fresh.get((log._number, 0)):
            await asyncio.sleep(0)
        file.read = read.append  # what it gives is no coroutine: the consumer would fail
        try:
            yield
        finally:
            del file.read
    assert not read


async def test_more_than_a_batch_that_is_appended_here_is_not_read_back(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    got = Recorders()
    async with following_without_reading(log, got):
        await log.append([Record(b"k", b"%d" % each) for each in range(1200)])
        await got.until(lambda: len(got.delivered) == 1200)
    await log.close()


async def test_what_is_appended_here_is_delivered_as_it_would_be_read(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    got = Recorders()
    records = [
        Record(None, b"", partition=0),
        Record(b"k", b"x" * 10_000, (("h", b"1"), ("h", b""))),
        Record(b"", b"late", timestamp=2e12),
        Record(None, b"", TICK, partition=0),
        *(Record(b"k", b"%d" % each) for each in range(150)),
    ]
    async with following_without_reading(log, got):
        await log.append(records)
        await got.until(lambda: got.delivered and got.delivered[-1].value == b"149")
    stored = [record async for batch in log.read(0, 0) for record in batch]
    assert got.folds[0].delivered == stored
    assert len(stored) == len(records)
    await log.close()


async def test_a_consumer_far_behind_reads_what_was_not_kept_for_it(tmp_path: Path) -> None:
    timing = ConsumerTiming(batch_bytes=1000)
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1, timing=timing))["spans"]
    got = Recorders()
    got.gate(0).clear()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: got.folds)
        for number in range(100):
            await log.append([Record(b"k", b"%d " % number * 50)] * 2)
        (fresh,) = log._file._fresh[log._number, 0]
        assert fresh._bytes <= 2000
        got.gate(0).set()
        await got.until(lambda: len(got.delivered) == 200)
    assert [record.offset for record in got.delivered] == list(range(200))
    await log.close()


async def test_what_comes_without_a_pause_is_delivered_in_few_portions(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    portions: list[int] = []

    def count(fold: Recorder) -> None:
        deliver = fold.deliver

        async def counted(records: Sequence[StoredRecord]) -> None:
            portions.append(len(records))
            await deliver(records)

        fold.deliver = counted

    got = Recorders(count)
    async with following(log, "g", got.open_fold):
        await got.until(lambda: got.folds)
        started = time.monotonic()
        for number in range(60):
            await log.append([Record(b"k", b"%d" % number)])
        await got.until(lambda: len(got.delivered) == 60)
        took = time.monotonic() - started
    assert sum(portions) == 60
    assert len(portions) <= AT_ONCE + 1 + took / INTERVAL
    await log.close()


async def test_a_full_disk_is_unavailable_and_passes(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    file = log._file
    await file._in_writer_thread(lambda: file._writing.execute("PRAGMA max_page_count = 100"))
    with pytest.raises(LogUnavailable, match="full"):
        await log.append([Record(b"k", b"x" * 20_000)] * 100)
    assert await values(log) == []
    await file._in_writer_thread(lambda: file._writing.execute("PRAGMA max_page_count = 100000"))
    await log.append([Record(b"k", b"again")])
    assert await values(log) == [b"again"]
    await log.close()


async def test_a_locked_file_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.logs.sqlite_file.BUSY_TIMEOUT", 0.01)
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    other = sqlite3.connect(tmp_path / "logs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailable, match="locked"):
        await log.append([Record(b"k", b"1")])
    other.execute("ROLLBACK")
    other.close()
    await log.append([Record(b"k", b"2")])
    assert await values(log) == [b"2"]
    await log.close()


@pytest.mark.parametrize(
    ("names", "partitions", "message"),
    [
        (["Spans"], 1, "not a valid name"),
        (["a;b"], 1, "not a valid name"),
        (["spans"], 0, "1 to 4096"),
        (["spans"], 5000, "1 to 4096"),
    ],
)
async def test_impossible_logs_are_refused(tmp_path: Path, names: list[str], partitions: int, message: str) -> None:
    with pytest.raises(LogError, match=message):
        await SqliteLog.open(tmp_path / "logs.db", names, partitions)


async def test_the_number_of_partitions_cannot_change(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 2))["spans"]
    await log.close()
    with pytest.raises(LogError, match=r"logs\.db: has the log 'spans' with 2 partitions, not 3"):
        await SqliteLog.open(tmp_path / "logs.db", ["spans"], 3)


async def test_a_file_tells_how_many_partitions_it_has(tmp_path: Path) -> None:
    logs = await SqliteLog.open(tmp_path / "logs.db", ["spans"], 3)
    more = await SqliteLog.open(tmp_path / "logs.db", ["spans", "turns"], share=share_of(0))
    assert {each.partitions for each in (*logs.values(), *more.values())} == {3}
    assert partitions_of(tmp_path / "logs.db") == 3
    assert partitions_of(tmp_path / "none.db") is None
    (tmp_path / "other.db").write_bytes(b"no database" * 1000)
    assert partitions_of(tmp_path / "other.db") is None
    for each in (*logs.values(), *more.values()):
        await each.close()


@pytest.mark.parametrize(("share", "partitions"), [(None, 1), (PartitionShare(0, 2, "a", frozenset()), PARTITIONS)])
async def test_a_new_file_has_partitions_for_those_who_share_it(
    tmp_path: Path, share: PartitionShare | None, partitions: int
) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], share=share))["spans"]
    assert log.partitions == partitions
    await log.close()


def share_of(number: int, of: int = 2, command: str = "ours") -> PartitionShare:
    return PartitionShare(number, of, command, frozenset({("spans", "g")}))


async def test_processes_of_a_command_share_the_partitions_and_each_record_comes_to_one(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    assert reserve(lock_path(path, "spans", "g"), "ours")
    logs = [(await SqliteLog.open(path, ["spans"], 5, share=share_of(number)))["spans"] for number in range(2)]
    seen = [Recorders() for _ in logs]
    async with following(logs[0], "g", seen[0].open_fold), following(logs[1], "g", seen[1].open_fold):
        for number in range(40):
            await logs[number % 3 % 2].append([Record(b"%d" % each, b"%d" % number) for each in range(20)])
        async with asyncio.timeout(20):
            while sum(len(each.delivered) for each in seen) < 800:
                await asyncio.sleep(0.01)
    assert set(seen[0].folds) == {0, 2, 4}
    assert set(seen[1].folds) == {1, 3}
    for partition in range(5):
        stored = [record async for batch in logs[0].read(partition, 0) for record in batch]
        assert seen[partition % 2].folds[partition].delivered == stored
    whole = Recorders()
    async with following(logs[0], "of one", whole.open_fold):
        await whole.until(lambda: len(whole.folds) == 5)
    for log in logs:
        await log.close()


async def test_a_shared_group_is_the_commands_alone(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    lock = lock_path(path, "spans", "g")
    alone = (await SqliteLog.open(path, ["spans"], 2))["spans"]
    got = Recorders()
    assert reserve(lock, "ours")
    ours, theirs = [
        (await SqliteLog.open(path, ["spans"], share=share_of(0, command=command)))["spans"]
        for command in ("ours", "theirs")
    ]
    async with following(ours, "g", got.open_fold):
        await got.until(lambda: got.folds)
        assert not reserve(lock, "theirs")
        for other in (alone, theirs):
            with pytest.raises(GroupInUse, match=r"logs\.db: another process consumes the log 'spans' for 'g' already"):
                await other.claim("g")
    assert reserve(lock, "theirs")
    with pytest.raises(GroupInUse):
        await ours.claim("g")
    await theirs.claim("g")
    with pytest.raises(GroupInUse):
        await alone.claim("g")
    for log in (alone, ours, theirs):
        await log.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs.db").write_bytes(b"no database" * 1000)
    with pytest.raises(LogError, match=r"not a database; name another file \(log\.path\)"):
        await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1)


async def test_a_folder_that_is_not_there_will_not_open_however_long_one_waits(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="unable to open database file; see that the folder exists") as caught:
        await SqliteLog.open(tmp_path / "nowhere" / "logs.db", ["spans"], 1)
    assert not isinstance(caught.value, LogUnavailable)


async def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "logs.db")
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(LogError, match="schema 99"):
        await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1)


async def test_closing_is_idempotent_and_final(tmp_path: Path) -> None:
    logs = await SqliteLog.open(tmp_path / "logs.db", ["spans", "turns"], 1)
    await logs["spans"].close()
    await logs["turns"].append([Record(b"k", b"1")])
    await logs["turns"].close()
    await logs["turns"].close()
    with pytest.raises(LogError, match="closed"):
        await logs["turns"].append([Record(b"k", b"1")])


async def test_time_never_falls_in_a_partition(tmp_path: Path) -> None:
    now = 100.0
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1, timing=ConsumerTiming(clock=lambda: now)))["spans"]
    for now in (100.0, 50.0, 110.0):  # noqa: B007 - the clock reads it
        await log.append([Record(b"k", b"1")])
    assert [r.timestamp async for batch in log.read(0, 0) for r in batch] == [100.0, 100.0, 110.0]
    await log.close()


async def test_chunks_are_bounded_by_bytes(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1, timing=ConsumerTiming(batch_bytes=1000)))["spans"]
    await log.append([Record(b"k", b"x" * 400)] * 10)
    assert [len(batch) async for batch in log.read(0, 0)] == [3, 3, 3, 1]
    await log.close()


class AppendsMeanwhile:
    """A connection behind whose first statement somebody appends a record."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._first = True

    def execute(self, statement: str, values: list[int]) -> sqlite3.Cursor:
        file = self._log._file
        rows = file._reading.execute(statement, values).fetchall()
        if self._first:
            self._first = False
            _, appended = file._transact([_Write(self._append, asyncio.Future())])
            file._hand_on(appended)
        return Rows(rows)

    def _append(self, transaction: Transaction) -> None:
        transaction.append(self._log._number, self._log._partitioner.split([Record(None, b"new", partition=0)])[0])


class Rows:
    def __init__(self, rows: list[tuple[int | None]]) -> None:
        self._rows = rows

    def fetchone(self) -> tuple[int | None]:
        return self._rows[0]


async def test_a_group_that_begins_while_records_come_misses_none(tmp_path: Path) -> None:
    log = (await SqliteLog.open(tmp_path / "logs.db", ["spans"], 1))["spans"]
    assert log._start(AppendsMeanwhile(log), 0, None) == 0
    await log.close()


async def test_deleted_text_is_in_no_file_any_more(tmp_path):
    """Neither in the write-ahead log nor in freed pages; after a kill neither once the next process has deleted."""
    path, secret = tmp_path / "log.db", b"what-a-person-said " * 20
    log = (await SqliteLog.open(path, ["spans"], 1))["spans"]
    await log.append([Record(b"key", secret) for _ in range(50)])
    assert copies(path, secret) >= 50
    await log.truncate(time.time() + 60.0)
    assert copies(path, secret) == 0
    await log.close()


async def test_deleted_text_of_a_process_that_was_killed_goes_at_the_next_cleaning(tmp_path):
    path, secret = tmp_path / "log.db", b"what-a-person-said " * 20
    log = (await SqliteLog.open(path, ["spans"], 1))["spans"]
    await log.append([Record(b"key", secret) for _ in range(50)])
    killed = tmp_path / "killed.db"  # the files as they are while the process runs
    for end in ("", "-wal"):
        killed.with_name(killed.name + end).write_bytes(path.with_name(path.name + end).read_bytes())
    await log.close()
    with sqlite3.connect(killed) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("DELETE FROM records")
        connection.commit()
        after = (await SqliteLog.open(killed, ["spans"], 1))["spans"]
        assert copies(killed, secret) >= 50
        await after.truncate(0.0)
        assert copies(killed, secret) == 0
        await after.close()


def copies(path: Path, text: bytes) -> int:
    return sum(file.read_bytes().count(text) for file in path.parent.glob(f"{path.name}*"))
