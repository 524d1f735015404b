from __future__ import annotations

import random

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.outline import has_more_items_than, has_more_objects_than, items_in

LIMIT = 1000


def request_of(spans: int) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(spans):
        scope.spans.add(name="x" * (number % 300), start_time_unix_nano=number + 1, kind=1).attributes.add(
            key="\x12" * 5
        )
    return request.SerializeToString()


@pytest.mark.parametrize(("spans", "over"), [(0, False), (LIMIT - 2, False), (LIMIT + 1, True)])
def test_counts_spans_as_they_lie_in_the_bytes(spans: int, over: bool):
    assert (
        has_more_items_than(request_of(spans), LIMIT) is over
    )  # resource and scope count too: hence the two below the limit


def test_two_million_empty_spans_are_seen_before_they_are_decoded():
    empty = b"\x12\x00" * 2_000_000
    scope = b"\x12" + varint(len(empty)) + empty
    assert has_more_items_than(b"\x0a" + varint(len(scope)) + scope, LIMIT)


def test_two_million_empty_resources_are_seen_too():
    assert has_more_items_than(b"\x0a\x00" * 2_000_000, LIMIT)


@pytest.mark.parametrize("noise", [b"\xff" * 5000, b"\x12" * 5000, b"\x0a\xff\xff\xff\xff\x0f" * 2000, b"\x0b" * 3000])
def test_malformed_bytes_end_the_count(noise: bytes):
    assert has_more_items_than(noise, LIMIT) in (True, False)


def test_a_hostile_json_document_is_over():
    assert has_more_objects_than(b"{}," * 2_000_000, LIMIT)
    assert not has_more_objects_than(b'{"a":{}}' * LIMIT, LIMIT)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


UNKNOWN_GROUP = b"\x23\x24"
"""Field 4, begun and ended: the decoder skips it and reads on."""


@pytest.mark.parametrize(
    "noise", [UNKNOWN_GROUP, b"\x9b\x06\x9c\x06", b"\x23\x2b\x2c\x24", b"\xfa\x01\x00", b"\x25abcd"]
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nothing_unknown_ends_the_count(noise: bytes, depth: int):
    """What the decoder skips is skipped here: two bytes of it once hid two million spans."""
    body = b"\x12\x00" * (LIMIT + 1)
    for level, tag in ((2, b"\x12"), (1, b"\x0a")):
        content = noise + body if depth == level else body
        body = tag + varint(len(content)) + content
    body = noise + body if depth == 0 else body
    assert len(ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans) == LIMIT + 1
    assert has_more_items_than(body, LIMIT)


def hostile(draw: random.Random, tags: list[bytes]) -> bytes:
    """A request, or a part of one: members between fields that nobody knows."""
    noise = [b"", b"", UNKNOWN_GROUP, b"\x23\x12\x00\x24", b"\xf8\x06\x01", b"\x31" + bytes(8), b"\x0d" + bytes(4)]
    body = b""
    for _ in range(draw.randrange(4)):
        inner = hostile(draw, tags[1:]) if tags[1:] else b""
        body += draw.choice(noise) + tags[0] + varint(len(inner)) + inner
    return body + draw.choice(noise)


def test_the_decoder_and_the_count_agree_on_random_bytes():
    """Whatever is decoded has been counted."""
    draw = random.Random(1)
    decoded = 0
    for _ in range(3000):
        body = bytearray(hostile(draw, [b"\x0a", b"\x12", b"\x12"]))
        if body and draw.random() < 0.5:
            body[draw.randrange(len(body))] = draw.randrange(256)
        body = bytes(body)
        try:
            request = ExportTraceServiceRequest.FromString(body)
        except DecodeError:
            continue
        count = sum(
            1 + sum(1 + len(scope.spans) for scope in resource.scope_spans) for resource in request.resource_spans
        )
        decoded += count > 1
        for limit in range(count):
            assert has_more_items_than(body, limit), (body, limit)
    assert decoded > 500, decoded


@pytest.mark.parametrize(
    "keys", [("resourceSpans", "scopeSpans", "spans"), ("resource_logs", "scope_logs", "log_records")]
)
def test_items_of_json_are_counted_under_either_name_of_a_key(keys: tuple[str, str, str]):
    document = {keys[0]: [{keys[1]: [{keys[2]: [{}] * 7}, 3]}, "x"]}
    assert items_in(document) == 11
    assert items_in([document]) == items_in({keys[0]: {}}) == 0
