"""How many spans or log records a request holds, seen before anything is decoded.

Decoding blows an empty span of two bytes up to 170: the limit on items has to hold before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

_PATH = (1, 2, 2)  # Export*ServiceRequest.resource_*, Resource*.scope_*, Scope*.spans or .log_records
_LENGTH_DELIMITED = 2
_SKIPPED = {1: 8, 5: 4}  # wire type to size in bytes
_SMALLEST_ITEM = 2  # bytes: a tag and a length of 0
_BRACES_PER_ITEM = 25  # an attribute of OTLP/JSON takes two objects


def exceeds(body: bytes, limit: int, *, json: bool = False) -> bool:
    """Whether a request holds more than `limit` items; for JSON a bound that only a hostile body passes."""
    if json:
        return body.count(b"{") > limit * _BRACES_PER_ITEM
    if len(body) <= limit * _SMALLEST_ITEM:
        return False
    return next(islice(_nested(body, 0, len(body), _PATH), limit, None), False)


def _nested(body: bytes, start: int, end: int, path: tuple[int, ...]) -> Iterator[Literal[True]]:
    """One True for every message on the path, whatever its depth."""
    for inner_start, inner_end in _messages(body, start, end, path[0]):
        yield True
        if len(path) > 1:
            yield from _nested(body, inner_start, inner_end, path[1:])


def _messages(body: bytes, at: int, end: int, field: int) -> Iterator[tuple[int, int]]:
    """The places of the length-delimited fields of this number; ends at the first thing that is malformed."""
    while at < end:
        tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, at = _varint(body, at, end)
            if tag >> 3 == field:
                yield at, min(at + length, end)
            at += length
        elif kind in _SKIPPED:
            at += _SKIPPED[kind]
        elif kind == 0:
            _, at = _varint(body, at, end)
        else:
            return


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, end
