"""A request in Kafka is read in whatever a pipeline wraps it."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
import zstandard
from google.protobuf.json_format import MessageToJson
from log_doubles import FailingLog
from made_up import ASSEMBLER, Trace, chat
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from truth import PAYLOADS

from collector.assemble.collect_trace import TracePiece
from collector.errors import BadInput, TooLarge
from collector.logs.log import StoredRecord
from collector.receive.bodies import GzipDecompressor, ZstdDecompressor
from collector.receive.kafka import KafkaReceiver, SourceTopic, unwrap
from collector.records.shared_records import pieces_of
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn

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
    assert unwrap(message) == REQUEST


@pytest.mark.parametrize("content", [DOCUMENT, json.dumps(DOCUMENT)])
def test_json_in_an_envelope(content: Any) -> None:
    for around in ({"schema": {}, "payload": content}, {"specversion": "1.0", "data": content}):
        assert json.loads(unwrap(b"\xef\xbb\xbf" + json.dumps(around).encode())) == DOCUMENT


@pytest.mark.parametrize(
    "message", [b'{"payload": 1', b'{"payload": 1}', b'{"schema": 1, "payload": 2}', b"\x00", b'{"specversion": "1.0"}']
)
def test_what_is_no_envelope_stays(message: bytes) -> None:
    assert unwrap(message) == message


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


CAPTURED = min((PAYLOADS / "opik").glob("*-traces.pb")).read_bytes()


def as_go_writes(value: Any) -> Any:
    """A document of OTLP as Go's own JSON of its messages writes it: one of several fields below `Value`."""
    if isinstance(value, list):
        return [as_go_writes(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = [name for name in value if name.endswith("Value")]
    if len(value) == 1 and names:
        return {"Value": {names[0][:1].upper() + names[0][1:]: as_go_writes(value[names[0]])}}
    return {name: as_go_writes(item) for name, item in value.items()}


def captured_document() -> Any:
    """A captured request as OTLP's JSON, whose ids are hex."""
    document = json.loads(MessageToJson(ExportTraceServiceRequest.FromString(CAPTURED)))
    for span in (span for each in document["resourceSpans"] for scope in each["scopeSpans"] for span in scope["spans"]):
        for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[key] = base64.b64decode(span[key]).hex()
    return document


def twice(value: Any) -> Any:
    """A document whose messages were encoded once too often."""
    if isinstance(value, list):
        return [twice(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("key") == "input.value":
        return {"key": "input.value", "value": {"stringValue": json.dumps(value["value"]["stringValue"])}}
    return {name: twice(item) for name, item in value.items()}


@pytest.mark.parametrize(
    "message",
    [
        b"\x00\x00\x00\x00\x07\x00" + CAPTURED,
        b"\x00\x00\x00\x00\x07" + json.dumps(captured_document()).encode(),
        json.dumps({"schema": {"type": "bytes"}, "payload": base64.b64encode(CAPTURED).decode()}).encode(),
        json.dumps({"schema": {"type": "string"}, "payload": json.dumps(captured_document())}).encode(),
        json.dumps({"specversion": "1.0", "type": "t", "data": captured_document()}).encode(),
        b"\xef\xbb\xbf" + json.dumps(captured_document()).encode(),
        json.dumps(as_go_writes(captured_document())).encode(),
        json.dumps(twice(captured_document())).encode(),
    ],
    ids=["confluent", "confluent-json", "connect", "connect-text", "cloudevents", "mark", "go", "twice"],
)
async def test_a_captured_request_is_read_out_of_a_topic(message: bytes) -> None:
    assert await turns_of(message) == await turns_of(CAPTURED) != []


async def turns_of(message: bytes) -> list[Turn]:
    """The turns of a message in a source topic, which has to be readable."""
    log, unreadable = FailingLog(), list[BadInput]()

    async def report(_message: StoredRecord, error: BadInput) -> None:
        unreadable.append(error)

    receiver = KafkaReceiver(SourceTopic("source", "traces"), log, Telemetry(), on_unreadable=report)
    async with receiver.open_fold(0, None) as fold:
        await fold.deliver([StoredRecord(0, 0, 0.0, b"", message)])
    assert unreadable == []
    records = [
        StoredRecord(0, 0, 0.0, each.key, each.value, each.headers) for appended in log.appends for each in appended
    ]
    pieces = [TracePiece("traces", piece.value or b"") for record in records for piece in pieces_of(record)]
    return [each.turn for each in ASSEMBLER.assemble(pieces).turns]
