"""Whoever may write to a source topic writes anything: each message is read or dead-lettered, quickly, and the next comes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator

import pytest
from made_up import Trace, chat

from collector.dead_letters import DeadLetterSettings, DeadLetterWriter, letters_in
from collector.logs.log import StoredRecord
from collector.logs.memory import MemoryLog
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.receive.otlp_ingest import IngestRules
from collector.records.ready_made import Incoming
from collector.redact.open_redactor import Redactors, RedactSettings, open_redactors
from collector.telemetry.registry import Telemetry

GOOD = Trace().span(1, "chat", chat("Hello?", "Hello!")).spans.SerializeToString()
SECRET = "anna@example.com"
DEEP = 100_000


def field(number: int, content: bytes, size: int | None = None) -> bytes:
    """A length-delimited field of protobuf, which may lie about its size."""
    size, encoded = len(content) if size is None else size, b""
    while size > 0x7F:
        encoded += bytes((size & 0x7F | 0x80,))
        size >>= 7
    return bytes((number << 3 | 2,)) + encoded + bytes((size,)) + content


def hostile() -> Iterator[tuple[str, bytes]]:
    yield "says it is longer than it is", field(1, b"abc", 1 << 31)
    yield "a size that never ends", b"\x0a" + b"\xff" * 1000
    yield "cut off", GOOD[:-7]
    yield "compressed", zlib.compress(bytes(4 << 20))
    yield "a bomb as gzip", zlib.compressobj(wbits=31).compress(b"") + b"\x1f\x8b"
    yield "an open group", b"\x0b" + GOOD
    yield "a million empty spans", field(1, field(2, b"\x12\x00" * 1_000_000))
    yield "json that is cut off", b'{"resourceSpans": [' * 10_000
    yield "deep json", b"[" * DEEP + b"]" * DEEP
    yield "deep json in a request", b'{"resourceSpans": ' + b"[" * DEEP + b"]" * DEEP + b"}"
    yield "a number of a million digits", b'{"resourceSpans": ' + b"9" * 1_000_000 + b"}"
    yield "a million keys", b'{"resourceSpans": [], ' + b",".join(b'"%d": 1' % each for each in range(100_000)) + b"}"
    yield "other text", f"{{{SECRET}".encode() * 10_000
    yield "not utf-8", b'{"resourceSpans": "\xff\xfe' + SECRET.encode() + b'"}'
    yield "nothing but zeros", bytes(1 << 20)
    yield "surrogates", b'{"resourceSpans": [{"resource": {"attributes": [{"key": "\\ud800"}]}}]}'


@pytest.mark.parametrize("signal", ["traces", "logs", "turns"])
@pytest.mark.parametrize(("name", "value"), list(hostile()), ids=[name for name, _ in hostile()])
async def test_a_message_of_any_form(name: str, value: bytes, signal: Incoming) -> None:
    del name
    log, letters, telemetry = MemoryLog("log", 1), MemoryLog("dead_letters", 1), Telemetry()
    dead = DeadLetterWriter("receive", "topic", letters, telemetry, DeadLetterSettings(), signal=signal)
    redactor = open_redactors(RedactSettings()).everybody
    receiver = KafkaReceiver(
        SourceTopic("topic", signal),
        log,
        telemetry,
        rules=IngestRules(redactors=Redactors(redactor)),
        on_unreadable=dead.take,
    )
    headers = tuple((f"header {number} {SECRET}", b"x" * 100) for number in range(1000))
    messages = [
        StoredRecord(0, 0, 1.0, SECRET.encode() * 1000, value, headers),
        StoredRecord(0, 1, 1.0, None, GOOD if signal == "traces" else b""),
    ]
    before = time.process_time()
    async with dead.wrap(receiver.open_fold)(0, None) as fold:
        await fold.deliver(messages)
    assert time.process_time() - before < 5.0, "of 2 MB at most"
    written = [each async for each in letters_in(letters)]
    assert len(written) <= 1
    for letter in written:
        assert (letter.position, letter.value, letter.key, letter.headers) == (0, None, None, ())
        assert SECRET not in str(letter)
        assert len(letter.reason) <= 500
    if signal == "traces":
        assert await log.end_offset(0) >= 1, "the next message is read"
