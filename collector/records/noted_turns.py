"""Notes in front of pieces in the spans log: the only turn of a piece, as its receiver saw it.

A noted piece is a serialized request like any other. Before it, in the same bytes, stands its turn as a JSON array, in
a field whose number OTLP does not use: a reader of OTLP skips it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import orjson

from collector.errors import BadInput
from collector.otlp.decode import field_bytes

_TAG = b"\xc2\x3e"  # field 1000, of bytes; OTLP's requests have field 1 alone
_CONTINUES = 0x80


class NotedTurn(NamedTuple):
    """A turn without its content: whose, when, and which dialect reads which span of its trace ("none": no one).

    `trace` and `span` are the ids of the trace and the model's span, in hex; times are in nanoseconds since the epoch,
    0 if unknown. `conversation` is "" if the trace names none; such a turn is never written.
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


def with_note(turn: NotedTurn, request: bytes) -> bytes:
    """The value of a record: the note of a turn, and the request it is about."""
    return field_bytes(_TAG, orjson.dumps([*turn])) + request


def has_note(value: bytes) -> bool:
    """Whether a record's value begins as one with a note does."""
    return value.startswith(_TAG)


def noted_turn(value: bytes) -> NotedTurn:
    """The turn that a record's value has a note of.

    Raises:
        BadInput: the value has no valid note.
    """
    try:
        turn = _DECODER.decode(_first_field(value))
    except (ValueError, IndexError):  # msgspec's own errors are ValueErrors
        raise BadInput("not a note of a turn") from None
    is_about_something = turn.trace and turn.span and turn.conversation
    if not (is_about_something and -_MOST_TIME < turn.start < _MOST_TIME and -_MOST_TIME < turn.end < _MOST_TIME):
        raise BadInput("not a note of a turn")
    return turn


_DECODER = msgspec.json.Decoder(NotedTurn)
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
