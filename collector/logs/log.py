"""The port of a log: an ordered, durable, partitioned sequence of records, and what a stage does with it.

A stage is a fold over its input log. Its state is a pure function of the records it was given, and records carry the
only time it knows: when nothing arrives although time alone would change the state (a conversation falls idle), the
log itself appends a *tick*, an empty record, so that a replay sees the same time pass.

Per group and partition two numbers are committed: `position`, up to which records were delivered, and the low
watermark, the oldest record that the fold's state still needs. After a restart the records between them are replayed to
rebuild the state, then delivery goes on at `position`.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from collector.errors import EvalstreamError

Headers = tuple[tuple[str, bytes], ...]

TICK: Headers = (("tick", b"1"),)
"""The headers of a tick: a record without key or value that only says that time has passed."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to append. `partition` overrides the choice by `key`; a record with neither goes to any partition."""

    key: bytes | None
    value: bytes
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as the log holds it.

    `position` grows by one or more from record to record of a partition. `timestamp` is when the log took it, in
    seconds since the epoch, and never falls within a partition.
    """

    partition: int
    position: int
    timestamp: float
    key: bytes | None
    value: bytes
    headers: Headers = ()

    @property
    def is_tick(self) -> bool:
        """Whether this record only says that time has passed."""
        return self.headers == TICK


@dataclass(frozen=True, slots=True)
class Unreadable(Stored):
    """In the place of records that cannot be read: those from `position` up to `end`. `reason` has no content.

    Only a fold with a true `takes_unreadable` is given it; from the others it is kept away.
    """

    end: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed for a partition.

    Records below `low_watermark` are needed by nobody of this group; those from there up to `position` were delivered
    before. `note` is the fold's own, at most 2,000 characters of ASCII.
    """

    low_watermark: int
    position: int
    note: str = ""


class Fold(Protocol):
    """What a stage does with one partition, for as long as it owns it."""

    @property
    def due_at(self) -> float | None:
        """The time (seconds since the epoch) at which the state changes by itself; None if only records change it."""
        ...

    @property
    def low_watermark(self) -> int | None:
        """The position of the oldest record that is still needed; None if nothing delivered so far is.

        Like `note` it is read between deliveries only, and never after the fold was closed.
        """
        ...

    @property
    def note(self) -> str:
        """What to commit beside the two numbers and to be given again on assignment."""
        ...

    async def replay(self, records: Sequence[Stored]) -> None:
        """Rebuild state from records that were delivered before. In silence: their effects are durable already."""
        ...

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take new records, in order. Returning late is back-pressure: the partition is not read meanwhile.

        On return the effects of the records are durable, or the low watermark still covers the records they come from.
        An exception stops the group's `follow`.
        """
        ...


OpenFold = Callable[[int, Committed | None], AbstractAsyncContextManager[Fold]]
"""Opens the fold of a partition on assignment, given what the group has committed for it; closed on revocation."""


class Log(Protocol):
    """An ordered, durable, partitioned sequence of records."""

    @property
    def name(self) -> str:
        """What the log is called: `spans`, `turns`, `evaluations`, …"""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions there are, numbered from 0."""
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Append records, each partition's in the given order. They are durable when this returns.

        Waits while too much is on its way already.

        Raises:
            LogUnavailable: nothing, or only a part, was appended; the caller may append the same again.
            RecordTooLarge: a record can never be appended; nothing was.
        """
        ...

    async def end(self, partition: int) -> int:
        """The position that the next record of the partition will get or pass."""
        ...

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[Stored]]:
        """Read batches from the first record at or after `start` up to the end as it was at the call."""
        ...

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        """Deliver records to the folds of the partitions this process owns, and commit, until cancelled.

        Of the processes that follow with the same group each partition has one owner. A group without a commit starts
        at the oldest record. On cancellation the folds are closed, and the state they had before is committed.

        Raises:
            LogError: somebody else follows with this group, where partitions cannot be shared.
            LogUnavailable: the log could not be read for longer than its configured patience.
        """
        ...

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        """Forget records older than `before` (seconds since the epoch) that no group needs; returns how many went.

        What a group needs starts at its low watermark; one of `readers` that has committed nothing yet needs all.
        A log kept by an external retention may do less.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections. Idempotent."""
        ...


class LogError(EvalstreamError):
    """A log could not do what was asked."""


class LogUnavailable(LogError):
    """The log cannot be reached or written now: broker down, disk full. Trying again may help."""


class RecordTooLarge(LogError):
    """A record is larger than the log takes."""


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: the same in every process and every log with as many partitions."""
    return zlib.crc32(key) % partitions
