"""The port of a log: an ordered, durable, partitioned sequence of records, and what a stage does with it.

A stage is a fold over its input log. Its state is a pure function of the records delivered to it, and records carry the
only time it knows: when nothing arrives although time alone would change the state (a conversation becomes idle), the
log itself appends a *tick*, an empty record, so that a replay sees the same time pass.

Per group and partition two numbers are committed: `offset`, up to which records were delivered, and the low watermark,
the oldest record that the fold's state still needs. After a restart the records between them are replayed to rebuild
the state, then delivery continues at `offset`. There is no state store: this is the price of open state that is small
beside the log, and it leaves one thing to keep durable instead of two that must agree.

All logs choose a record's partition, limit its size, and wait for a log that is unavailable in the ways that are here.
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

    `timestamp` is only for copies of a log: when the record was appended first, in seconds since the epoch. It is that
    of the last record of the partition where this is later.
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
    seconds since the epoch, and never decreases within a partition. `piece` is 0 in what a log returns; whoever divides
    a record into several numbers them by it, from 0: they share the offset.
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
        """The key that tells it from all others of its partition: its offset, and above that its piece."""
        return self.offset | self.piece << _OFFSET_BITS if self.piece else self.offset

    @property
    def is_tick(self) -> bool:
        """Whether this record only says that time has passed."""
        return self.headers == TICK


def place_of_number(number: int) -> tuple[int, int]:
    """The offset and the piece of a record's `number`; as a pair it is in the order of the partition."""
    return number & _OFFSET_MASK, number >> _OFFSET_BITS


@dataclass(frozen=True, slots=True)
class UnreadableRecords(StoredRecord):
    """Stands for records that cannot be read: those from `offset` up to `end_offset`. `reason` has no content.

    Delivered only to a fold with a true `takes_unreadable`.
    """

    end_offset: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed position for a partition.

    Records below `low_watermark` are not needed by this group any more; those from there up to `offset` were delivered.
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
        """The state to commit beside the two numbers; the next assignment gets it back."""
        ...

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild state from records that were delivered before. Without effects: they are durable already."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take new records, in order. Returning late is back-pressure: the partition is not read meanwhile.

        On return the effects of the records are durable, or the low watermark still covers the records they come from.
        An exception stops the group's `follow`.
        """


OpenFold = Callable[[int, Committed | None], AbstractAsyncContextManager[Fold]]
"""Opens the fold of a partition on assignment, given what the group has committed for it; closed on revocation."""


Confirm = Callable[[], Awaitable[None]]
"""Waits until it is certain that this process owns what it works on: see `Log.confirm`."""


async def certain() -> None:
    """Wait for nothing: no other process can own it."""


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
        """How many partitions there are, numbered from 0."""
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Append records, each partition's in the given order. They are durable when this returns.

        Waits while too much is in flight.

        Raises:
            LogUnavailable: nothing, or only a part, was appended; the caller may append the same again.
            RecordTooLarge: a record can never be appended; nothing was.
        """

    async def end_offset(self, partition: int) -> int:
        """The offset that the next record of the partition will get or pass."""
        ...

    async def start_offset(self, partition: int) -> int:
        """The offset of the oldest record that is there, or will be."""
        ...

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        """Read batches from the first record at or after `start` up to the end as it was at the call."""
        ...

    async def probe(self) -> None:
        """See that records can be appended now. Appends nothing.

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
        """Whether processes share the partitions: then the owner of one may stand still, and another take over."""
        ...

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        """Wait until it is certain that this process still owns what its open folds of the group consume.

        Returns at once, but after the process stood still; does not return for what another process owns by then: its
        folds are closed first. With `newly` it asks, however certain it is. Returns at once without such folds.
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

        The records that a group needs start at its low watermark; one of `readers` that has committed nothing yet needs
        all. A log with an external retention may do less.
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
    """A log whose groups a process has to join, and may have to wait for."""

    def long_wait(self, group: str) -> float | None:
        """For how many seconds this process could not join the group, once that is long: it reads nothing."""
        ...


class CopyableLog(Log, Protocol):
    """A log into which another one can be copied, with what groups have committed."""

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
    """The log refuses us: a password, a certificate or a permission is wrong. Once that is corrected, it does not."""


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
    """Passes records to the inner fold; a subclass overrides what it adds to.

    The state is read from the stage's fold at once: it is asked for again and again, for each partition.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.stateful: Fold = fold.stateful if isinstance(fold, FoldWrapper) else fold
        self.takes_unreadable: bool = getattr(fold, "takes_unreadable", False)
        self.needed_from: int | None = None
        """Of the outermost one: the low watermark as it was read last, which is valid between deliveries only."""

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
"""Bytes that a record is assumed to cost beside its key, value and headers."""


def size_of(record: Record) -> int:
    """Bytes of a record, roughly: what limits are compared with."""
    size = OVERHEAD + len(record.value) + (len(record.key) if record.key else 0)
    for name, value in record.headers:
        size += len(name) + len(value)
    return size


class Partitioner:
    """Splits records by partition: their own, else that of their key, else another one at each append."""

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
"""How the appends of a stage are retried: without end, since it cannot continue without them."""


async def append_until_durable(
    log: Log,
    records: Sequence[Record],
    backoff: Backoff = RETRY,
    append: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """Append records; retries while the log cannot be written, so that its caller waits: the back-pressure.

    `append` is how, unless as they are.

    An append that was not acknowledged may have been made all the same: then the records are in the log twice. Turns
    that arrive twice are recognized by the stage that consumes them.

    Raises:
        RecordTooLarge: a record can never be appended; nothing was.
    """
    write = append or log.append
    try:
        await write(records)
    except LogUnavailable as error:
        attempt = partial(write, records)
        await backoff.repeat(attempt, LogUnavailable, action=f"writing to {log.name}", failed=error)
