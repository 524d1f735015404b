"""Packed turns: a turn without its history, compressed, while its session window is open.

Histories repeat from turn to turn, so storing them would cost the square of a conversation's length. A history tells
one fact that the turns do not: which turns were never received. That fact is stored as hashes.
"""

import hashlib
import zlib
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from zstandard import DICT_TYPE_RAWCONTENT, FRAME_HEADER, ZstdCompressionDict, ZstdCompressor, ZstdDecompressor

from collector.records.json import turn_from_json
from collector.records.recorded_turn import RecordedTurn
from collector.records.turns import Place, place_of
from evaluators.cases import Turn

_LEVEL = 1  # packs prose to a third, in 9 µs for 1.3 kB; zlib's lowest level takes 19 µs
_COMMON = (
    b'"role":"user","content":"attributes":{"usage":{"input_tokens":,"output_tokens":"retrieval_context":["tools_called"'
    b':[{"id":"call_","name":"","arguments":{},"result":"system_prompt":"{"turn_id":"","conversation_id":null,"trace_id":"'
    b'","span_id":"","parent_span_id":"","response_id":"chatcmpl-","service":"","dialect":"openinference","dialect":'
    b'"otel_genai","model":"gpt-4.1-mini","user_id":"","started_at":"2026-","ended_at":"2026-","input":"","actual_output":"'
)
"""Text that most records of turns contain: the compressor's dictionary.

It must not change, because snapshots in the log are compressed with it.
"""


class PackedTurn(NamedTuple):
    """A turn of an open conversation.

    `happened_at` (s since the epoch) decides to which window the turn belongs; `started_at` orders turns within a
    window (see `place`). `user_hash` is the hash of the user's message, None if there is no message. `data` is the
    compressed record.
    """

    started_at: float
    happened_at: float
    user_hash: int | None
    data: bytes

    @property
    def place(self) -> Place:
        """Its place in the conversation."""
        return self.started_at, self.happened_at

    def unpack(self, turn_id: str, conversation_id: str) -> Turn:
        """The turn, without its history. A turn that named no conversation gets `conversation_id`."""
        return replace(turn_from_json(_unpacked(self.data)), turn_id=turn_id, conversation_id=conversation_id)


@cache  # made once, because that takes longer than packing a turn; used by one thread only
def _packer() -> ZstdCompressor:
    return ZstdCompressor(_LEVEL, dict_data=ZstdCompressionDict(_COMMON, DICT_TYPE_RAWCONTENT))


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(FRAME_HEADER):
        return ZstdDecompressor(dict_data=ZstdCompressionDict(_COMMON, DICT_TYPE_RAWCONTENT)).decompress(packed)
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, _COMMON)  # an earlier version wrote the snapshot
    return unpacker.decompress(packed) + unpacker.flush()


class IncomingTurn(NamedTuple):
    """A turn as it was received. `prior_user_hashes` are hashes of the user's messages in its history."""

    turn_id: str
    packed: PackedTurn
    prior_user_hashes: frozenset[int]
    ends_conversation: bool = False
    """Whether the turn says that the conversation is over."""
    rate: float = 1.0
    boost: float = 1.0
    stratum: str = "all"
    upstream: float | None = None
    """The probability with which earlier samplers let the turn through; None if unknown."""
    is_copy: bool = False
    """Whether an earlier record of the log has the turn, too."""


def pack(turn: RecordedTurn, happened_at: float) -> PackedTurn:
    """Pack a turn that happened at `happened_at`."""
    user_hash = user_message_hash(turn.input) if turn.input else None
    data = _packer().compress(turn.content_to_json())  # which holds a buffer as large as what it compressed
    return PackedTurn(*place_of(turn.started, happened_at), user_hash, memoryview(data).tobytes())


def prior_user_hashes(turn: RecordedTurn) -> frozenset[int]:
    """The hashes of the user's messages in the turn's history."""
    return frozenset(map(user_message_hash, turn.earlier_inputs())) if turn.has_history else NO_HASHES


def user_message_hash(text: str) -> int:
    """A hash of 60 bits of a user's message; spaces at its ends do not count."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(errors="replace"), digest_size=8).digest(), "big") >> 4


NO_HASHES: frozenset[int] = frozenset()
