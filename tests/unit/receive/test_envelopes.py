"""A request in Kafka is read in whatever a pipeline wraps it."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
import zstandard
from made_up import Trace, chat

from collector.errors import BadInput, TooLarge
from collector.receive.bodies import GzipDecompressor, ZstdDecompressor
from collector.receive.kafka import unwrapped

REQUEST = Trace().span(1, "chat", chat("Is it open?", "No.")).spans.SerializeToString()
DOCUMENT: dict[str, Any] = {"resourceSpans": []}


@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x00\x00\x00\x07" + REQUEST,
        b"\x00\x00\x00\x00\x07\x00" + REQUEST,
        json.dumps({"schema": None, "payload": base64.b64encode(REQUEST).decode()}).encode(),
        json.dumps({"specversion": "1.0", "id": "1", "data_base64": base64.b64encode(REQUEST).decode()}).encode(),
        REQUEST,
    ],
)
def test_the_request_is_found(message: bytes) -> None:
    assert unwrapped(message) == REQUEST


@pytest.mark.parametrize("content", [DOCUMENT, json.dumps(DOCUMENT)])
def test_json_in_an_envelope(content: Any) -> None:
    for around in ({"schema": {}, "payload": content}, {"specversion": "1.0", "data": content}):
        assert json.loads(unwrapped(b"\xef\xbb\xbf" + json.dumps(around).encode())) == DOCUMENT


@pytest.mark.parametrize(
    "message", [b'{"payload": 1', b'{"payload": 1}', b'{"schema": 1, "payload": 2}', b"\x00", b'{"specversion": "1.0"}']
)
def test_what_is_no_envelope_stays(message: bytes) -> None:
    assert unwrapped(message) == message


def test_deflate_and_zstd_within_their_limit() -> None:
    text = b"a" * 300_000
    stream = GzipDecompressor(len(text), 47)
    assert stream.feed(zlib.compress(text)) == text
    frame = zstandard.compress(text)
    whole = ZstdDecompressor(len(text))
    assert whole.feed(frame[:9]) + whole.feed(frame[9:]) == text
    whole.close()
    with pytest.raises(TooLarge):
        ZstdDecompressor(1000).feed(frame)
    with pytest.raises(BadInput, match="not valid zstd"):
        ZstdDecompressor(1000).feed(b"garbage")
    half = ZstdDecompressor(len(text))
    half.feed(frame[:-3])
    with pytest.raises(BadInput, match="cut off"):
        half.close()
