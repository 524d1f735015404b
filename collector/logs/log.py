"""The port of a log, an ordered, durable, partitioned sequence of records; and the port of a fold, which a stage makes
over it.

A stage is a fold over its input log. Its state is a pure function of the records delivered to it, and records carry the
only time it knows: when nothing arrives although time alone would change the state (a conversation becomes idle), the
log itself appends a *tick*, an empty record, so that a replay sees the same time pass.

Per group and partition two numbers are committed: `offset`, up to which records were delivered, and the low watermark,
the oldest record that the fold's state still needs. After a restart the records between them are replayed to rebuild
the state, then delivery continues at `offset`. There is no state store. Open state is small compared with the log, so a
replay is cheap, and only the log has to be durable instead of two stores that must agree.

The choice of a partition, the limit on sizes, and the waiting for an unavailable log are here, the same for all logs.
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
    partition's last record is later, its time is taken.
    """

    key: bytes | None
    value: bytes
    headers: Headers = ()
    partition: int | None = None
    timestamp: float | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the log holds it.

    `offset` grows by one or more from record to record of a partition. `timestamp` is when the log appended it, in
    seconds since the epoch, and never decreases within a partition. A log returns `piece` 0. If a record is divided
    into several, they share the offset, and `piece` numbers them from 0.
    """

    MOST_PIECES: ClassVar[int] = 1 << 15

    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes
    headers: Headers = ()
    piece: int = 0

    @property
    def number(self) -> int:
        """A number that is unique within the partition: the offset, with the piece in the higher bits."""
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
    """Stands for the records from `offset` up to `end_offset`, which cannot be read. `reason` contains none of their
    content.

    Delivered only to a fold with a true `takes_unreadable`.
    """

    end_offset: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed position for a partition.

    The group no longer needs records below `low_watermark`; the records from there up to `offset` were delivered.
    `metadata` is the fold's own, at most 2,000 characters of ASCII.
    """

    low_watermark: int
    offset: int
    metadata: str = ""


Receive = Callable[[Sequence[StoredRecord]], Awaitable[None]]
"""Replays records to a fold, or delivers them."""


class Fold(Protocol):
    """The work of a stage on one partition, for as long as it owns it."""

    @property
    def due_at(self) -> float | None:
        """The time (seconds since the epoch) at which the state changes by itself; None if only records change it."""
        ...

    @property
    def low_watermark(self) -> int | None:
        """The offset of the oldest record that is still needed; None if nothing delivered so far is.

        Like `metadata` it is read between deliveries only, and never after the fold was closed.
        """
        ...

    @property
    def metadata(self) -> str:
        """The state to commit in addition to the two numbers; the next assignment gets it back."""
        ...

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the state from records that were delivered before. Their effects are durable already, so there are
        none here.
        """

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take new records, in order. The partition is not read until this returns (back-pressure).

        On return the effects of the records are durable, or the low watermark still covers the records. An exception
        stops the group's `follow`.
        """


OpenFold = Callable[[int, Committed | None], AbstractAsyncContextManager[Fold]]
"""Opens the fold of a partition on assignment, given what the group has committed for it; closed on revocation."""


Confirm = Callable[[], Awaitable[None]]
"""Waits until this process certainly owns its partitions: see `Log.confirm`."""


async def certain() -> None:
    """Return at once, because no other process can own the partitions."""


def confirm_of(log: "Log", group: str) -> Confirm:
    """The log's confirmation for a group; none is needed where no other process can own the log."""
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

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record, or of the next one if there is none."""
        ...

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches from the first record at or after `start` up to the end as it was at the call."""
        ...

    async def probe(self) -> None:
        """Check that records can be appended now. Appends nothing.

        Raises:
            LogUnavailable: they cannot.
        """

    async def claim(self, group: str) -> None:
        """Reserve the group for this process before it follows, where partitions cannot be shared.

        Raises:
            GroupInUse: another process has it.
        """

    @property
    def shared(self) -> bool:
        """Whether processes share the partitions. Then another process may take over while an owner is frozen."""
        ...

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """Wait until this process certainly still owns the partitions of its open folds in the group.

        Returns at once, unless the process was frozen. It does not return if another process owns the partition by
        then: the fold is closed first. With `newly` the broker is asked in any case. Returns at once without open
        folds.
        """

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions this process owns, and commit, until cancelled.

        Among processes with the same group each partition has one owner. A group without a commit starts
        at the oldest record. On cancellation the folds are closed, and the state they had before is committed.

        Raises:
            GroupInUse: another process consumes with this group, where partitions cannot be shared.
            LogUnavailable: the log could not be read for longer than its configured patience.
        """

    async def committed(self, group: str) -> Mapping[int, Committed]:
        """A group's committed positions, by partition; without those for which it has committed nothing.

        Raises:
            LogUnavailable: it cannot be asked now.
        """
        ...

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Delete records older than `before` (seconds since the epoch) that no group needs; returns how many.

        A group needs the records from its low watermark on; one of `readers` that has committed nothing yet needs all.
        A log with an external retention may delete less.
        """
        ...

    async def retention(self) -> float | None:
        """Age (s) at which records are deleted whether a group needs them or not; None if that never happens.

        Raises:
            LogUnavailable: it cannot be asked now.
        """
        ...

    async def close(self) -> None:
        """Close files and connections. Idempotent."""


@runtime_checkable
class SharedGroups(Protocol):
    """A log whose groups a process has to join, which may take time."""

    def long_wait(self, group: str) -> float | None:
        """The seconds for which this process could not join the group and so reads nothing; None while that is
        short.
        """
        ...


class CopyableLog(Log, Protocol):
    """A log into which another log can be copied, with the positions of its groups."""

    async def set_committed(self, group: str, states: Mapping[int, Committed]) -> None:
        """Commit for a group, by partition, although it does not follow. No process may consume with it.

        Raises:
            LogUnavailable: it cannot be done now.
        """


class LogError(EvalstreamError):
    """A log could not do what was asked."""


class LogUnavailable(LogError):
    """The log cannot be reached or written now: broker down, disk full. A retry may succeed."""


class LogRefused(LogUnavailable):
    """The log refuses this process: a password, a certificate or a permission is wrong. A retry succeeds once that is
    corrected.
    """


class NotPermitted(LogRefused):
    """A permission is missing. Others may be, too: who checks asks on."""


class GroupInUse(LogError, ConfigError):
    """Another process consumes a log with this group, and they cannot share it."""


class RecordTooLarge(LogError):
    """A record is larger than the log accepts."""


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: the same in every process and every log with as many partitions."""
    return zlib.crc32(key) % partitions


class Broadcast:
    """An event that resets itself: `notify` wakes all who wait now.

    Check the condition, then `wait` without an await between: then no notification is missed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wait(self) -> Awaitable[object]:
        """Wait for the next notification."""
        return self._event.wait()

    def notify(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = asyncio.Event()


class FoldWrapper:
    """Passes records to the inner fold. A subclass overrides the methods that it adds to.

    The state is read directly from the stage's fold, because it is read often, for each partition.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.stateful: Fold = fold.stateful if isinstance(fold, FoldWrapper) else fold
        self.takes_unreadable: bool = getattr(fold, "takes_unreadable", False)
        self.needed_from: int | None = None
        """On the outermost wrapper: the low watermark as last read, which is valid only between deliveries."""

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
    """The approximate bytes of a record, which limits are compared with."""
    size = OVERHEAD + len(record.value) + (len(record.key) if record.key else 0)
    for name, value in record.headers:
        size += len(name) + len(value)
    return size


class Partitioner:
    """Splits records by partition: the partition that they name, or their key's, or else a different one at each
    append.
    """

    def __init__(self, log: str, partitions: int, max_record_bytes: int) -> None:
        self._log = log
        self._partitions = partitions
        self._max_record_bytes = max_record_bytes
        self._next = 0

    def split(self, records: Sequence[Record]) -> tuple[dict[int, list[Record]], int]:
        """The records by partition, each partition's in order, and their size in bytes.

        Raises:
            RecordTooLarge: one of them is.
            LogError: one names a partition that does not exist.
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
                    "as many to all topics of the prefix and start again; the start says which keys to set"
                )
            by_partition.setdefault(partition, []).append(record)
        return by_partition, total


RETRY = Backoff(cap=1.0)
"""The appends of a stage are retried without end, since it cannot continue without them."""


async def append_until_durable(
    log: Log,
    records: Sequence[Record],
    backoff: Backoff = RETRY,
    append: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """Append records; retries while the log cannot be written, so that its caller waits: the back-pressure.

    `append` replaces the log's own append.

    An append may have succeeded although it was not acknowledged; then the records are in the log twice. Turns that
    arrive twice are recognized by the stage that consumes them.

    Raises:
        RecordTooLarge: a record can never be appended; nothing was.
    """
    write = append or log.append
    try:
        await write(records)
    except LogUnavailable as error:
        attempt = partial(write, records)
        await backoff.repeat(attempt, LogUnavailable, action=f"writing to {log.name}", failed=error)
