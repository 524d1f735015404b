"""Two ports: `Log`, an ordered, durable, partitioned sequence of records, and `Fold`, a stage's work on one partition.

The state of a fold is a pure function of the records delivered to it, and their timestamps are the only time that it
knows. Sometimes no record arrives although time alone would change the state: a conversation becomes idle. The consumer
then appends a *tick*, an empty record, to the log, so that a replay sees the same time pass.

A group is the name under which a stage commits its positions. For each group and partition two offsets are committed:
`offset`, before which every record was delivered, and `low_watermark`, the oldest record that the state still needs. A
restart replays the records between the two to rebuild the state; delivery then continues at `offset`. The state itself
is not stored: it is small compared with the log, so a replay is cheap, and no second store has to agree with the log.

This module also chooses partitions, limits the sizes of records, and retries appends, in the same way for all logs.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, runtime_checkable

from collector.backoff import Backoff
from collector.errors import ConfigError, EvalstreamError

Headers = tuple[tuple[str, bytes], ...]

_OFFSET_BITS = 48
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1

TICK: Headers = (("tick", b"1"),)
"""The headers of a tick: a record without key or value that only says that time has passed."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to append. `partition` overrides the choice by `key`; a record with neither goes to any partition.

    `timestamp` is only for copies of a log: when the record was first appended, in seconds since the epoch. If the
    partition's last record has a later time, the copy gets that later time.
    """

    key: bytes | None
    value: bytes
    headers: Headers = ()
    partition: int | None = None
    timestamp: float | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the log stores it.

    Within a partition each `offset` is higher than the one before, not always by one. `timestamp` is when the log
    appended the record, in seconds since the epoch, and never decreases within a partition. A log returns records with
    `piece` 0. A stage may divide a record into pieces; they share its offset, and `piece` numbers them from 0.
    """

    MOST_PIECES: ClassVar[int] = 1 << 15
    """The number of pieces of a record is below this, so that `number` fits into 63 bits."""

    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes
    headers: Headers = ()
    piece: int = 0

    @property
    def number(self) -> int:
        """A number that is unique within the partition: the offset in the low 48 bits, the piece in the bits above."""
        return self.offset | self.piece << _OFFSET_BITS if self.piece else self.offset

    @property
    def is_tick(self) -> bool:
        """Whether this record only says that time has passed."""
        return self.headers == TICK


def place_of_number(number: int) -> tuple[int, int]:
    """The offset and the piece of a record's `number`. Such pairs sort in the order of the partition."""
    return number & _OFFSET_MASK, number >> _OFFSET_BITS


@dataclass(frozen=True, slots=True)
class UnreadableRecords(StoredRecord):
    """Stands for records that cannot be read, from `offset` on and before `end_offset`.

    `reason` has no content of the records. Only folds whose attribute `takes_unreadable` is true get such a record.
    """

    end_offset: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed position for a partition.

    The group no longer needs records below `low_watermark`; the records from there up to `offset` were delivered.
    `metadata` is further state of the fold, at most 2,000 ASCII characters.
    """

    low_watermark: int
    offset: int
    metadata: str = ""


Receive = Callable[[Sequence[StoredRecord]], Awaitable[None]]
"""The method `replay` or `deliver` of a fold."""


class Fold(Protocol):
    """A stage's work on one partition, while the process owns the partition."""

    @property
    def due_at(self) -> float | None:
        """The time (seconds since the epoch) at which the state changes by itself; None if only records change it."""
        ...

    @property
    def low_watermark(self) -> int | None:
        """The offset of the oldest record that the state still needs; None if it needs no delivered record.

        This and `metadata` are read only between deliveries, and never after the fold was closed.
        """
        ...

    @property
    def metadata(self) -> str:
        """The state to commit in addition to the two offsets; the next assignment gets it back."""
        ...

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the state from records that were delivered before. Durable effects are not repeated; unfinished work
        begins again.
        """

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take new records, in order. The partition is not read until this returns (back-pressure).

        On return the effects of each record are durable, or the low watermark makes a restart replay the record. An
        exception ends the group's `Log.follow`.
        """


class UntimedFold:
    """The members of a fold whose state only records change, and of whose state nothing is in a commit."""

    due_at = None
    metadata = ""


OpenFold = Callable[[int, Committed | None], AbstractAsyncContextManager[Fold]]
"""Opens the fold of an assigned partition, given the group's commit for it. On revocation the context is left."""


Confirm = Callable[[], Awaitable[None]]
"""Waits until this process certainly owns its partitions: see `Log.confirm`."""


async def certain() -> None:
    """Return at once, because no other process can own the partitions."""


def confirm_of(log: "Log", group: str) -> Confirm:
    """The log's `confirm` for a group; for a log that processes cannot share, `certain`."""
    return partial(log.confirm, group) if log.shared else certain


class Log(Protocol):
    """An ordered, durable, partitioned sequence of records."""

    @property
    def name(self) -> str:
        """The name: `spans`, `turns`, `evaluations`, …"""
        ...

    @property
    def partitions(self) -> int:
        """The number of partitions; they are numbered from 0."""
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Append records, each partition's in the given order. They are durable when this returns.

        Waits while too much is in flight.

        Raises:
            LogUnavailable: nothing, or only a part, was appended; the caller may append the same again.
            RecordTooLarge: a record can never be appended; nothing was.
        """

    async def end_offset(self, partition: int) -> int:
        """The end of the partition: the next record gets this offset or a higher one."""
        ...

    async def end_offsets(self, partitions: Collection[int]) -> dict[int, int]:
        """The ends of several partitions, by partition. A remote log is asked for all of them together."""
        ...

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record, or of the next one if there is none."""
        ...

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches from the first record at or after `start` up to the end as it was at the call."""
        ...

    async def probe(self) -> None:
        """Check that records can be appended now. Appends nothing.

        Raises:
            LogUnavailable: records cannot be appended now.
        """

    async def claim(self, group: str) -> None:
        """Reserve the group for this process before it calls `follow`, if processes cannot share the partitions.

        Raises:
            GroupInUse: another process has reserved the group.
        """

    @property
    def shared(self) -> bool:
        """Whether processes can share the partitions, so that another one may take over while an owner is frozen."""
        ...

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """Wait until this process certainly still owns the partitions of its open folds in the group.

        Returns at once if this process does not follow the group, or, without `newly`, if a broker has confirmed the
        ownership lately. Otherwise, as after a long freeze, a broker is asked. If another process owns a partition by
        then, this does not return before the partition's fold is closed.
        """

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions this process owns, and commit, until cancelled.

        Among processes with the same group each partition has one owner. A group without a commit starts at the oldest
        record. On cancellation the folds are closed, and their last positions are committed.

        Raises:
            GroupInUse: another process consumes with this group, and the two cannot share the partitions.
            LogUnavailable: the log could not be read for longer than its configured patience.
        """

    async def committed(self, group: str) -> Mapping[int, Committed]:
        """A group's committed positions, by partition. Partitions without a commit are missing.

        Raises:
            LogUnavailable: the log cannot be asked now.
        """
        ...

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` (seconds since the epoch) that no group needs; returns how many.

        A group needs the records from its low watermark on. A group in `readers` without a commit needs all records.
        A log with an external retention may delete less.
        """
        ...

    async def retention(self) -> float | None:
        """Age (s) at which records are deleted whether a group needs them or not; None if that never happens.

        Raises:
            LogUnavailable: the log cannot be asked now.
        """
        ...

    async def close(self) -> None:
        """Close files and connections. Idempotent."""


@runtime_checkable
class SharedGroups(Protocol):
    """A log whose groups a process has to join, which may take time."""

    def long_wait(self, group: str) -> float | None:
        """For how long (s) this process has failed to join the group, so that it reads nothing; None while that time is
        short.
        """
        ...


class CopyableLog(Log, Protocol):
    """A log into which another log can be copied, with the positions of its groups."""

    async def set_committed(self, group: str, states: Mapping[int, Committed]) -> None:
        """Commit positions for a group, by partition, while no process consumes with the group.

        Raises:
            LogUnavailable: the positions cannot be committed now.
        """


class LogError(EvalstreamError):
    """A log could not do what was asked."""

    def with_remedy(self, remedy: str) -> str:
        """Its sentence, with the remedy if the log is unavailable; all other errors name their own."""
        return f"{self}; {remedy}" if type(self) is LogUnavailable else str(self)


class LogUnavailable(LogError):
    """The log cannot be reached or written now: broker down, disk full. A retry may succeed."""


class LogRefused(LogUnavailable):
    """The log refuses this process: a password, a certificate or a permission is wrong. A retry succeeds once that is
    corrected.
    """


class NotPermitted(LogRefused):
    """A permission is missing. A check continues, because more permissions may be missing."""


class GroupInUse(LogError, ConfigError):
    """Another process consumes a log with this group, and they cannot share it."""


class InstanceInUse(LogError):
    """Another process has the `group_instance_id` of this one. Both cannot go on, so this one ends."""


class RecordTooLarge(LogError):
    """A record is larger than the log accepts."""


async def records_from(log: Log, partition: int, start: int) -> AsyncIterator[StoredRecord]:
    """Single records of a partition from an offset on, ticks among them. Raises LogUnavailable."""
    async for batch in log.read(partition, start):
        for record in batch:
            yield record


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: the same in every process and every log with as many partitions."""
    return zlib.crc32(key) % partitions


class Broadcast:
    """An event that resets itself: `notify` wakes all tasks that wait now.

    To miss no notification, a task calls `wait` right after it has checked its condition, without an await in between.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wait(self) -> Awaitable[object]:
        """Wait for the next notification."""
        return self._event.wait()

    def notify(self) -> None:
        """Wake all tasks that wait now."""
        self._event.set()
        self._event = asyncio.Event()


class FoldWrapper:
    """Passes records to the fold that it wraps. A subclass overrides the methods to which it adds something.

    Wrappers may be nested. `stateful` is the innermost fold, the stage's own. Callers read the
    state from there directly, because they read it often.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.stateful: Fold = fold.stateful if isinstance(fold, FoldWrapper) else fold
        self.takes_unreadable: bool = getattr(fold, "takes_unreadable", False)
        self.needed_from: int | None = None
        """On the outermost wrapper, for measuring lag: the low watermark after the last finished delivery."""
        self.read_to: int | None = None
        """On the outermost wrapper: the offset before which all records were delivered, noted together with the low
        watermark."""

    @property
    def due_at(self) -> float | None:
        """See `Fold`."""
        return self.stateful.due_at

    @property
    def low_watermark(self) -> int | None:
        """See `Fold`."""
        return self.stateful.low_watermark

    @property
    def metadata(self) -> str:
        """See `Fold`."""
        return self.stateful.metadata

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.replay(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.deliver(records)


OVERHEAD = 64
"""The bytes that a record is assumed to cost besides its key, value and headers."""


def size_of(record: Record) -> int:
    """The approximate size of a record in bytes, which is compared with limits."""
    size = OVERHEAD + len(record.value) + (len(record.key) if record.key else 0)
    for name, value in record.headers:
        size += len(name) + len(value)
    return size


class Partitioner:
    """Splits records by partition. A record goes to the partition that it names, else to the partition of its key.

    Records without partition and key go together to one partition; with each append this is the next partition.
    """

    def __init__(self, log: str, partitions: int, max_record_bytes: int) -> None:
        self._log = log
        self._partitions = partitions
        self._max_record_bytes = max_record_bytes
        self._next = 0

    def split(self, records: Sequence[Record]) -> tuple[dict[int, list[Record]], int]:
        """The records by partition, each partition's in order, and their size in bytes.

        Raises:
            RecordTooLarge: a record is larger than the log accepts.
            LogError: a record names a partition that does not exist.
        """
        by_partition: dict[int, list[Record]] = {}
        total = 0
        self._next = (self._next + 1) % self._partitions
        for record in records:
            size = size_of(record)
            if size > self._max_record_bytes:
                raise RecordTooLarge(
                    f"a record of {size} bytes is larger than the log {self._log!r} accepts ({self._max_record_bytes})"
                )
            total += size
            partition = record.partition
            if partition is None:
                partition = self._next if record.key is None else partition_of(record.key, self._partitions)
            elif not 0 <= partition < self._partitions:
                raise LogError(
                    f"the log {self._log!r} has no partition {partition}: if partitions were added to its topic, add "
                    "as many to all topics of log.kafka.prefix and restart: a message then names the keys to set"
                )
            by_partition.setdefault(partition, []).append(record)
        return by_partition, total


RETRY = Backoff(cap=1.0)
"""How a stage retries an append: without end, since the stage cannot continue without it."""


async def append_until_durable(
    log: Log,
    records: Sequence[Record],
    backoff: Backoff = RETRY,
    append: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """Append records, and retry while the log is unavailable. The caller waits meanwhile: this is the back-pressure.

    `append` replaces the log's own append.

    An append that was not acknowledged may have succeeded; its retry then puts the records into the log twice. The
    stage that reads turns recognizes a turn that arrives twice.

    Raises:
        RecordTooLarge: a record can never be appended; nothing was.
    """
    write = append or log.append
    try:
        await write(records)
    except LogUnavailable as error:
        await backoff.repeat(partial(write, records), LogUnavailable, action=f"writing to {log.name}", failed=error)
