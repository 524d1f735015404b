"""Rows of the SQLite log: the one integer that places a record, and headers as bytes."""

from __future__ import annotations

import struct

from collector.logs.log import TICK, Headers

MAX_LOGS = 64
MAX_PARTITIONS = 4096

_PARTITION_BITS = 12
_POSITION_BITS = 45
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_LENGTHS = struct.Struct(">HI")
_TICK_BYTES = b"t"


def row_id(log: int, partition: int, position: int) -> int:
    """The id of a record's row: 6 bits of log, 12 of partition, 45 of position. One B-tree, in order of reading."""
    return ((log << _PARTITION_BITS) + partition << _POSITION_BITS) + position


def position_of(row: int) -> int:
    """The position of the record in a row."""
    return row & _POSITION_MASK


def headers_to_bytes(headers: Headers) -> bytes | None:
    """Headers as one value; None for none."""
    if not headers:
        return None
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
    headers: list[tuple[str, bytes]] = []
    at = 0
    while at < len(data):
        of_name, of_value = _LENGTHS.unpack_from(data, at)
        at += _LENGTHS.size
        headers.append((data[at : at + of_name].decode(), data[at + of_name : at + of_name + of_value]))
        at += of_name + of_value
    return tuple(headers)
