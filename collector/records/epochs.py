"""Epochs: which of a partition's former owners wrote a record of the evaluations log, and whether it counts.

Kafka gives a partition to another process when its owner stands still. The owner that wakes up again does not know, and
what it had in hand still reaches the log. So each owner begins with a *claim*, a control record with an epoch one above
the last, and stamps what it writes with that epoch. A record behind the claim of a later owner is void, for every
reader: a `Fence` reads the records of a partition in order and says which ones count.

Records without an epoch always count: records of older releases, of logs that only one process can consume, and of
commands.
"""

import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from collector.backoff import Backoff
from collector.logs.log import (
    Committed,
    Fold,
    FoldWrapper,
    Headers,
    Log,
    LogUnavailable,
    OpenFold,
    Record,
    StoredRecord,
    records_from,
)

CONTROL_HEADERS: Headers = (("decision", b"1"),)
"""The headers of a control record of the evaluate stage: not an evaluation, and not exported."""

LOOK_BACK = (1_000, 20_000)
"""The records before a reader's start that are searched for an epoch. Late records of a former owner are few, so one
of the present owner is found.

The second number is for stretches without epochs.
"""

_RETRY = Backoff(cap=1.0)
_STAMP = re.compile(rb'\{"epoch":(\d{1,18})[,}]')


def stamped(value: bytes, epoch: int | None) -> bytes:
    """A JSON object with the epoch before its first field; without an epoch the record is unchanged."""
    if epoch is None:
        return value
    return b'{"epoch":%d%s%s' % (epoch, b"" if value == b"{}" else b",", value[1:])


def unstamped(value: bytes) -> bytes:
    """A value without its epoch: it counts whichever process owns the partition."""
    match = _STAMP.match(value)
    if match is None:
        return value
    return b"{" + value[match.end() :] if value[match.end() - 1 : match.end()] == b"," else b"{}"


def epoch_of(value: bytes) -> int | None:
    """The epoch that a value is stamped with."""
    match = _STAMP.match(value)
    return int(match[1]) if match else None


def claim_record(owner: str, epoch: int, partition: int, turns: int) -> Record:
    """The claim of an owner. `turns` is the next offset of the turns log: an older release reads a decision from it."""
    return Record(None, stamped(orjson.dumps({"at": turns, "owner": owner}), epoch), CONTROL_HEADERS, partition)


def owner_of(record: StoredRecord) -> str | None:
    """The owner whose claim a record is; None if it is not a claim."""
    if record.headers != CONTROL_HEADERS or epoch_of(record.value) is None:
        return None
    try:
        claim: Any = orjson.loads(record.value)
    except orjson.JSONDecodeError:
        return None
    owner = claim.get("owner")
    return owner if isinstance(owner, str) else None


class Fence:
    """Tells which records of a partition count. It must see all of them from its start on, in order."""

    def __init__(self) -> None:
        self.epoch = 0
        """The newest epoch so far."""

    def observe(self, record: StoredRecord) -> bool:
        """Take the next record. Returns whether it counts: no later owner had claimed the partition before it was
        written.
        """
        match = _STAMP.match(record.value)
        if match is None:
            return True
        epoch = int(match[1])
        # Two processes may claim one epoch. The first claim decides, and the other process writes nothing with it.
        self.epoch = max(self.epoch, epoch)
        return epoch == self.epoch


async def fence_at(log: Log, partition: int, start: int) -> Fence:
    """A fence that knows the epoch at `start`, for a reader that begins there. Raises LogUnavailable."""
    fence = Fence()
    for records in LOOK_BACK if start else ():
        async for record in records_from(log, partition, max(0, start - records)):
            if record.offset < start:
                fence.observe(record)
            if record.offset >= start - 1:
                break
        if fence.epoch or records >= start:
            break
    return fence


async def valid_evaluations(log: Log, partition: int, start: int = 0) -> AsyncIterator[StoredRecord]:
    """The records with valid evaluations, from `start` up to the log's end at the first step.

    Raises:
        LogUnavailable: the log cannot be read now.
    """
    fence = await fence_at(log, partition, start)
    async for record in records_from(log, partition, start):
        if fence.observe(record) and not record.headers:  # records with headers are control records or ticks
            yield record


OnVoid = Callable[[int], None]
"""Called with the number of records that do not count."""


def ignore_void(_number: int) -> None:
    """Do nothing: records that do not count need no counting."""


def fenced(log: Log, open_fold: OpenFold, on_void: OnVoid = ignore_void) -> OpenFold:
    """Folds over the evaluations log without void records. `on_void(count)` is called for void records that are
    delivered.
    """

    @asynccontextmanager
    async def opened(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        start = committed.low_watermark if committed else 0
        fence = await _RETRY.repeat(
            lambda: fence_at(log, partition, start), LogUnavailable, action=f"reading {log.name} back"
        )
        async with open_fold(partition, committed) as fold:
            yield _FencedFold(fold, fence, on_void)

    return opened


class _FencedFold(FoldWrapper):
    """A fold that does not see what is void."""

    def __init__(self, fold: Fold, fence: Fence, on_void: OnVoid) -> None:
        super().__init__(fold)
        self._fence = fence
        self._on_void = on_void

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        if valid := list(filter(self._fence.observe, records)):
            await self._fold.replay(valid)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        valid = list(filter(self._fence.observe, records))
        if len(valid) < len(records):
            self._on_void(len(records) - len(valid))
        if valid:
            await self._fold.deliver(valid)


REMEMBERED = 10_000
"""The number of ids that `RecentIds` remembers. An append that was made twice repeats its ids soon."""


class RecentIds:
    """The newest ids, at most `REMEMBERED`."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str | bytes, int] = OrderedDict()

    def repeats(self, identifier: str | bytes) -> bool:
        """Whether an id has come before. The id is remembered for later calls."""
        return self.seen_at(identifier, 0) is not None

    def seen_at(self, identifier: str | bytes, place: int) -> int | None:
        """The place of an id that has come before. None if it is new: it is remembered with this place."""
        if (known := self._ids.get(identifier)) is not None:
            return known
        self._ids[identifier] = place
        if len(self._ids) > REMEMBERED:
            self._ids.popitem(last=False)
        return None
