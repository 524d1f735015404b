"""Records that several pieces share: what is written at once for a partition travels in one record.

A record costs as much as a small trace: a transaction's row, a producer's future. So the pieces of several traces can
be put into one in the spans log, and unwanted turns in the turns log, with an index of their keys, signals and sizes.
They are divided again where the log is read, into records that have the offset of the one they came in, and a number of
their own beside it: see `StoredRecord.piece`. A piece that is alone, or large, is a record as it always was.

The form, with all numbers big-endian: the number of pieces (4 bytes); for each, the lengths of key (2), signal (1; 0
for a turn, which has none) and value (4); then for each its key, signal and value. The header `pieces` is `1`, the
form's version, and the record's key that of the first piece, by which all of them are in this partition.
"""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from collector.logs.log import (
    Committed,
    Fold,
    FoldWrapper,
    Headers,
    Log,
    OpenFold,
    Receive,
    Record,
    RecordTooLarge,
    StoredRecord,
    partition_of,
)

HEADERS: Headers = (("pieces", b"1"),)
"""The headers of a record that several pieces share."""

MOST_BYTES = 256 << 10
"""The largest size of the pieces that share a record: far below the 1 MB that a broker accepts by default."""

MOST_PIECES = 1000
"""Pieces that may share a record. `StoredRecord.number` has room for 32,768."""

DELIVERED = 500
"""Pieces delivered at once: so a fold gets what it would get if each piece were a record."""

_COUNT = struct.Struct(">I")
_SIZES = struct.Struct(">HBI")
_LONGEST_KEY = 1024


def is_shared(record: StoredRecord) -> bool:
    """Whether several pieces share this record. One that was dead-lettered has more headers by now."""
    return record.headers[:1] == HEADERS


def is_piece_of_trace(record: Record) -> bool:
    """Whether this is what a record of the spans log holds."""
    return bool(record.headers)


def share_records(
    records: Iterable[Record],
    partitions: int,
    *,
    may_share: Callable[[Record], bool] = is_piece_of_trace,
    most_bytes: int = MOST_BYTES,
    most_pieces: int = MOST_PIECES,
) -> list[Record]:
    """Put what `may_share` into shared records, those for the same partition; each partition's stay in their order.

    A record that has other headers than a piece, or would fill one by itself, stays as it is.
    """
    written: list[Record] = []
    waiting: dict[int, list[Record]] = {}
    sizes: dict[int, int] = {}

    def write(partition: int) -> None:
        if pieces := waiting.pop(partition, []):
            written.append(pieces[0] if len(pieces) == 1 else _shared(pieces))

    for record in records:
        if record.key is None or record.partition is not None:
            for each in list(waiting):
                write(each)
            written.append(record)
            continue
        partition = partition_of(record.key, partitions)
        size = len(record.key) + len(record.value) + 16
        if size > most_bytes or not (may_share(record) and _can_share(record)):
            write(partition)
            written.append(record)
            continue
        pieces = waiting.get(partition)
        if pieces is not None and (sizes[partition] + size > most_bytes or len(pieces) >= most_pieces):
            write(partition)
            pieces = None
        if pieces is None:
            waiting[partition], sizes[partition] = [record], size
        else:
            pieces.append(record)
            sizes[partition] += size
    for each in list(waiting):
        write(each)
    return written


def divide_records(records: Sequence[StoredRecord]) -> Sequence[StoredRecord]:
    """The records with a piece each, in order. Records of another form stay: their reader reports them."""
    divided: list[StoredRecord] = []
    for record in records:
        if record.headers[:1] == HEADERS:
            divided += pieces_of(record)
        else:
            divided.append(record)
    return divided


def without_pieces(record: StoredRecord, numbers: Collection[int]) -> StoredRecord | None:
    """A shared record of the other pieces, at the same offset; None if there are none."""
    pieces = [
        Record(stored.key, stored.value, stored.headers) for stored in pieces_of(record) if stored.piece not in numbers
    ]
    return replace(record, key=pieces[0].key, value=_shared(pieces).value) if pieces else None


async def append_shared(
    log: Log, records: Sequence[Record], may_share: Callable[[Record], bool] = is_piece_of_trace
) -> None:
    """Append what `may_share` in shared records; all are durable when this returns.

    Raises:
        LogUnavailable: nothing, or only a part, was appended; the caller may append the same again.
        RecordTooLarge: one can never be appended, not even alone; nothing was.
    """
    shared = records if len(records) == 1 else share_records(records, log.partitions, may_share=may_share)
    try:
        await log.append(shared)
    except RecordTooLarge:
        if len(shared) == len(records):
            raise
        await log.append(records)  # this log takes less than may share a record


def dividing(open_fold: OpenFold) -> OpenFold:
    """Open the same folds, each of which gets every piece as a record of its own."""

    @asynccontextmanager
    async def open_dividing(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        async with open_fold(partition, committed) as fold:
            yield _DividingFold(fold)

    return open_dividing


class _DividingFold(FoldWrapper):
    """A fold that gets pieces, in portions: a delivery of shared records may hold very many."""

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._pass(self._fold.replay, divide_records(records))

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        await self._pass(self._fold.deliver, divide_records(records))

    async def _pass(self, receive: Receive, pieces: Sequence[StoredRecord]) -> None:
        await receive(pieces[:DELIVERED])
        for first in range(DELIVERED, len(pieces), DELIVERED):
            await asyncio.sleep(0)
            await receive(pieces[first : first + DELIVERED])


def _can_share(record: Record) -> bool:
    if record.key is None or len(record.key) > _LONGEST_KEY or record.timestamp is not None:
        return False
    if not record.headers:
        return True
    return len(record.headers) == 1 and record.headers[0][0] == "signal" and 0 < len(record.headers[0][1]) < 256


def _shared(pieces: Sequence[Record]) -> Record:
    index = [_COUNT.pack(len(pieces))]
    content: list[bytes] = []
    for record in pieces:
        key, signal = record.key or b"", record.headers[0][1] if record.headers else b""
        index.append(_SIZES.pack(len(key), len(signal), len(record.value)))
        content += (key, signal, record.value)
    return Record(pieces[0].key, b"".join(index + content), HEADERS)


def pieces_of(record: StoredRecord) -> Sequence[StoredRecord]:
    """The pieces of a shared record; the record itself if its index does not describe it."""
    return [*needed_pieces(record, lambda _key, _value: True)]


def needed_pieces(record: StoredRecord, is_needed: Callable[[bytes, bytes], bool]) -> Iterator[StoredRecord]:
    """The needed pieces of a record, by key and value; each is decided when the one before was taken."""
    # The other pieces are not built: in the turns log they are nearly all of them.
    value = record.value
    sizes, at = _index_of(value) if is_shared(record) else ((), -1)
    if at + sum(map(sum, sizes)) != len(value):
        if record.key is None or is_needed(record.key, value):
            yield record
        return
    partition, offset, timestamp = record.partition, record.offset, record.timestamp
    for number, (key_size, signal_size, size) in enumerate(sizes):
        start, end_of_key = at, at + key_size
        end_of_signal = end_of_key + signal_size
        at = end_of_signal + size
        key, content = value[start:end_of_key], value[end_of_signal:at]
        if is_needed(key, content):
            signal = value[end_of_key:end_of_signal]
            headers = _HEADERS_OF.get(signal, (("signal", signal),))
            yield StoredRecord(partition, offset, timestamp, key, content, headers, number)


def _index_of(value: bytes) -> tuple[Sequence[tuple[int, int, int]], int]:
    """The sizes of each piece's key, signal and value, and where the first begins; of what has no index none and -1."""
    if len(value) < _COUNT.size:
        return (), -1
    count = _COUNT.unpack_from(value)[0]
    at = _COUNT.size + count * _SIZES.size
    if not 0 < count < StoredRecord.MOST_PIECES or at > len(value):
        return (), -1
    return [*_SIZES.iter_unpack(value[_COUNT.size : at])], at


_HEADERS_OF: dict[bytes, Headers] = {b"": ()} | {each: (("signal", each),) for each in (b"traces", b"logs")}
