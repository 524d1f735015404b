"""Decompression with a limit: a batch of a few hundred kilobytes can hold gigabytes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import snappy
import zstandard
from kafka.errors import UnsupportedCodecError

_snappy: Any = snappy  # untyped
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_ANY_GZIP = zlib.MAX_WBITS | 16
_VARINT_MORE = 0x80
_MAX_MEMBERS = 1_000
"""Members of a gzip stream. Producers write one; twenty bytes make an empty one, which costs as much as thousands."""
_SLICE = 64 * 1024
"""Compressed bytes that are decompressed at a time: at the end of every member, zlib copies what is left of them."""


class DecompressedTooLarge(Exception):
    """A batch is larger than the limit when decompressed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a batch is larger than {limit} bytes when decompressed")


def decompress(codec: int, data: bytes, limit: int) -> bytes:
    """Decompress a batch's records with Kafka's codec number, to at most `limit` bytes.

    Raises:
        DecompressedTooLarge: there is more.
        Exception: the codec's own, for broken data.
    """
    if codec not in _CODECS:
        raise UnsupportedCodecError(f"codec {codec} is unknown")
    return _CODECS[codec](data, limit)


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = members = 0
    member = None
    for start in range(0, len(data), _SLICE):
        rest = data[start : start + _SLICE]
        while rest:
            if member is None or member.eof:  # a gzip file may have several members
                members += 1
                if members > _MAX_MEMBERS:
                    raise ValueError(f"the gzip data has more than {_MAX_MEMBERS} members")
                member = zlib.decompressobj(_ANY_GZIP)
            parts.append(member.decompress(rest, limit - size + 1))
            size += len(parts[-1])
            _check(size, limit, limit)
            rest = member.unused_data
    if member is not None and not member.eof:
        raise EOFError("the gzip data is cut off")
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        _check(_snappy_length(data), limit, limit)
        return _snappy_block(data)
    blocks: list[bytes] = []
    left = limit
    at = _XERIAL_HEADER
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : end]
        _check(_snappy_length(block), left, limit)
        blocks.append(_snappy_block(block))
        left -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_block(data: bytes) -> bytes:
    return _snappy.uncompress(data)


def _snappy_length(data: bytes) -> int:
    """The length that a block declares, as a varint; decompression fails if it is wrong."""
    length = 0
    for index, byte in enumerate(data[:5]):
        length |= (byte & ~_VARINT_MORE) << 7 * index
        if not byte & _VARINT_MORE:
            return length
    raise ValueError("the snappy data has no length")


def _unlz4(data: bytes, limit: int) -> bytes:
    frame: Any = lz4.frame.LZ4FrameDecompressor()
    result: bytes = frame.decompress(data, max_length=limit + 1)
    _check(len(result), limit, limit)
    if not frame.eof:
        raise EOFError("the lz4 data is cut off")
    return result


def _unzstd(data: bytes, limit: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(limit, 8 << 20))
    with decompressor.stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        result = reader.read(limit + 1)
    _check(len(result), limit, limit)
    return result


def _check(size: int, left: int, limit: int) -> None:
    if size > left:
        raise DecompressedTooLarge(limit)


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {1: _gunzip, 2: _unsnappy, 3: _unlz4, 4: _unzstd}
