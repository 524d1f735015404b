"""Thin pieces: records of the spans log without what was said, written by a receiver with `assemble.keep: wanted`.

A thin piece is the whole of a trace as far as a receiver saw it, of one turn that no monitor can want. It is a
serialized request like any other piece, whose spans have ids, times, names and little more. Before it, in the same
bytes, stands its turn as a JSON array, in a field whose number OTLP does not use: whoever reads the bytes as OTLP
passes it by. The header `signal` is `thin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import orjson

from collector.errors import BadInput
from collector.logs.log import Headers
from collector.otlp.decode import field_bytes

SIGNAL = b"thin"
HEADERS: Headers = (("signal", SIGNAL),)
"""The headers of a thin piece."""

_TAG = b"\xc2\x3e"  # field 1000, of bytes; OTLP's requests have field 1 alone
_CONTINUES = 0x80


class ThinTurn(NamedTuple):
    """The turn of a thin piece: whose, when, and which dialect reads which of its spans ("none": no one).

    `trace` and `span` are the ids of the trace and the model's span, in hex; times are in nanoseconds since the epoch,
    0 where there is none.
    """

    trace: str
    span: str
    dialect: str
    spans: Mapping[str, str]
    conversation: str
    service: str | None
    start: int
    end: int
    trace_state: str


def thin_piece(turn: ThinTurn, request: bytes) -> bytes:
    """The value of a record: the turn, and the trace's request without what was said."""
    return field_bytes(_TAG, orjson.dumps([*turn])) + request


def begins_thin(value: bytes) -> bool:
    """Whether a record's value begins as a thin piece's does."""
    return value.startswith(_TAG)


def turn_of(value: bytes) -> ThinTurn:
    """The turn of a thin piece.

    Raises:
        BadInput: the value is no thin piece.
    """
    try:
        turn = _DECODER.decode(_first_field(value))
    except (ValueError, IndexError):  # msgspec's own errors are ValueErrors
        raise BadInput("not a thin piece") from None
    is_about_something = turn.trace and turn.span and turn.conversation
    if not (is_about_something and -_MOST_TIME < turn.start < _MOST_TIME and -_MOST_TIME < turn.end < _MOST_TIME):
        raise BadInput("not a thin piece")
    return turn


_DECODER = msgspec.json.Decoder(ThinTurn)
_MOST_TIME = 1 << 64


def _first_field(value: bytes) -> bytes:
    if not value.startswith(_TAG):
        raise ValueError
    at, size, shift = len(_TAG), 0, 0
    while (byte := value[at]) >= _CONTINUES:
        size |= (byte - _CONTINUES) << shift
        shift += 7
        at += 1
    at += 1
    return value[at : at + (size | byte << shift)]
