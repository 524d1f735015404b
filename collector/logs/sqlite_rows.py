"""Rows of the SQLite log: the one integer that addresses a record, and headers as bytes."""

from __future__ import annotations

import struct
from functools import lru_cache

from collector.logs.log import TICK, Headers

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
    """As one value, remembered: the same few headers are those of nearly all records."""
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
    if data == _TICK_BYTES:
        return TICK
    return _headers_of(data)


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
