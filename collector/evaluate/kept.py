"""What is kept of a turn while its conversation is open: everything but its history, packed.

Histories repeat from turn to turn, so keeping them would cost the square of a conversation's length. What they tell
beyond the turns themselves, that there were turns which never came here, is kept as hashes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from zstandard import DICT_TYPE_RAWCONTENT, FRAME_HEADER, ZstdCompressionDict, ZstdCompressor, ZstdDecompressor

from collector.records import nameless_turn_to_json, turn_from_json
from evaluators.cases import Turn

_LEVEL = 1  # leaves a third of prose, in 9 µs for 1.3 kB; zlib's lowest takes 19
_USUAL = (
    b'"role":"user","content":"attributes":{"usage":{"input_tokens":,"output_tokens":"retrieval_context":["tools_called"'
    b':[{"id":"call_","name":"","arguments":{},"result":"system_prompt":"{"turn_id":"","conversation_id":null,"trace_id":"'
    b'","span_id":"","parent_span_id":"","response_id":"chatcmpl-","service":"","dialect":"openinference","dialect":'
    b'"otel_genai","model":"gpt-4.1-mini","user_id":"","started_at":"2026-","ended_at":"2026-","input":"","actual_output":"'
)
"""What records of turns have in common, for the packer to refer to.

Conversations carried in the log are packed by it: it may not change.
"""


class Kept(NamedTuple):
    """A turn of an open conversation.

    `at` (s since the epoch) is when it happened, for the order of conversations and the time between turns; `start`
    orders turns within one. `said` is the hash of what the user said, None if nothing is known of it.
    """

    start: float
    at: float
    said: int | None
    packed: bytes

    def turn(self, turn_id: str, conversation_id: str) -> Turn:
        """The turn, without its history. A turn that named no conversation names its own now."""
        return replace(turn_from_json(_unpacked(self.packed)), turn_id=turn_id, conversation_id=conversation_id)


@cache  # made once, and used by the one thread that folds: it takes longer to make than to pack
def _packer() -> ZstdCompressor:
    return ZstdCompressor(_LEVEL, dict_data=ZstdCompressionDict(_USUAL, DICT_TYPE_RAWCONTENT))


def _packed(data: bytes) -> bytes:
    return memoryview(_packer().compress(data)).tobytes()  # a copy: what it gives holds on to as much as `data` takes


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(FRAME_HEADER):
        return ZstdDecompressor(dict_data=ZstdCompressionDict(_USUAL, DICT_TYPE_RAWCONTENT)).decompress(packed)
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, _USUAL)  # carried by an earlier version, which knew nothing else
    return unpacker.decompress(packed) + unpacker.flush()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A turn as the fold met it. `heard` are the hashes of the user's messages in its history."""

    turn_id: str
    kept: Kept
    heard: frozenset[int]
    ends: bool = False
    """Whether it says that the conversation is over."""
    rate: float = 1.0
    boost: float = 1.0
    stratum: str = "all"
    upstream: float | None = None
    """The probability with which it came through samplers before us; None if unknown."""


def keep(turn: Turn, at: float) -> Kept:
    """Pack a turn that happened at `at`."""
    start = turn.started_at.timestamp() if turn.started_at else at
    said = said_hash(turn.input) if turn.input else None
    return Kept(at if start == at else start, at, said, _packed(nameless_turn_to_json(turn)))


def heard(turn: Turn) -> frozenset[int]:
    """The hashes of what the user said before this turn, as its history tells."""
    return frozenset(_heard(turn)) if turn.history else NOTHING


def _heard(turn: Turn) -> Iterator[int]:
    for message in turn.history:
        if message.role == "user" and message.content:
            yield said_hash(message.content)


def said_hash(text: str) -> int:
    """60 bits that stand for what a user said, spaces at its ends aside."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(errors="replace"), digest_size=8).digest(), "big") >> 4


NOTHING: frozenset[int] = frozenset()
