"""Rows of the SQLite log: the one integer that addresses a record, and headers as bytes.

Records on their way from an append to one consumer of the same process are held here, and need not be read back.
"""

import struct
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from collector.logs.log import TICK, Headers, StoredRecord


class FreshRecords:
    """The newest records of one partition that were appended by this process and fit.

    There are gaps between them where another process has appended, too. Records that do not fit are forgotten: they are
    in the log, and a reader that is that far behind reads them there.
    """

    def __init__(self, batch_records: int, batch_bytes: int) -> None:
        """A batch is as large as one that is read; two of them fit, by the bytes of values and keys."""
        self._records: deque[StoredRecord] = deque()
        self._batch_records = batch_records
        self._batch_bytes = batch_bytes
        self._bytes = 0

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Take what was appended."""
        self._records.extend(records)
        self._bytes += sum(map(_size, records))
        if self._bytes > 2 * self._batch_bytes:
            self._records.clear()
            self._bytes = 0

    def take_batch(self, start: int, end: int) -> tuple[list[StoredRecord], int]:
        """The records between two offsets that one batch may hold, and the offset up to which it may reach; older ones
        go.

        That is `end` if there are none, and just after the last if they fill a batch.
        """
        while self._records and self._records[0].offset < start:
            self._pop()
        batch: list[StoredRecord] = []
        size, stop = 0, min(end, start + self._batch_records)
        while self._records and size < self._batch_bytes and self._records[0].offset < stop:
            batch.append(self._pop())
            size += len(batch[-1].value)
        if size >= self._batch_bytes:
            stop = batch[-1].offset + 1
        return batch, stop if batch else end

    def _pop(self) -> StoredRecord:
        record = self._records.popleft()
        self._bytes -= _size(record)
        return record


def gaps_of(records: Sequence[StoredRecord], start: int, end: int) -> list[tuple[int, int]]:
    """The offsets from `start` to `end` that records of a partition leave out, as half-open ranges."""
    gaps: list[tuple[int, int]] = []
    for record in records:
        if record.offset > start:
            gaps.append((start, record.offset))
        start = record.offset + 1
    return [*gaps, (start, end)] if start < end else gaps


def _size(record: StoredRecord) -> int:
    return len(record.value) + len(record.key or b"")


MAX_LOGS = 64
MAX_PARTITIONS = 4096

_PARTITION_BITS = 12
_OFFSET_BITS = 45
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_LENGTHS = struct.Struct(">HI")
_TICK_BYTES = b"t"


def row_id(log: int, partition: int, offset: int) -> int:
    """The id of a record's row: 6 bits of log, 12 of partition, 45 of offset: one B-tree in reading order."""
    return ((log << _PARTITION_BITS) + partition << _OFFSET_BITS) + offset


def offset_of(row: int) -> int:
    """The offset of the record in a row."""
    return row & _OFFSET_MASK


def headers_to_bytes(headers: Headers) -> bytes | None:
    """Headers as one value; None for none."""
    return _bytes_of(headers) if headers else None


@lru_cache(64)
def _bytes_of(headers: Headers) -> bytes:
    """As one value, remembered: nearly all records have one of a few headers."""
    if headers == TICK:
        return _TICK_BYTES
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += [_LENGTHS.pack(len(encoded), len(value)), encoded, value]
    return b"".join(parts)


def headers_from_bytes(data: bytes | None) -> Headers:
    """The headers that became `data`."""
    if data is None:
        return ()
    return TICK if data == _TICK_BYTES else _headers_of(data)


@lru_cache(64)
def _headers_of(data: bytes) -> Headers:
    headers: list[tuple[str, bytes]] = []
    start = 0
    while start < len(data):
        name_size, value_size = _LENGTHS.unpack_from(data, start)
        start += _LENGTHS.size
        headers.append(
            (data[start : start + name_size].decode(), data[start + name_size : start + name_size + value_size])
        )
        start += name_size + value_size
    return tuple(headers)
