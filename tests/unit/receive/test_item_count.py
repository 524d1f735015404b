from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.receive.item_count import exceeds

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
    assert exceeds(request_of(spans), LIMIT) is over  # resource and scope count too: hence the two below the limit


def test_two_million_empty_spans_are_seen_before_they_are_decoded():
    empty = b"\x12\x00" * 2_000_000
    scope = b"\x12" + varint(len(empty)) + empty
    assert exceeds(b"\x0a" + varint(len(scope)) + scope, LIMIT)


def test_two_million_empty_resources_are_seen_too():
    assert exceeds(b"\x0a\x00" * 2_000_000, LIMIT)


@pytest.mark.parametrize("noise", [b"\xff" * 5000, b"\x12" * 5000, b"\x0a\xff\xff\xff\xff\x0f" * 2000, b"\x0b" * 3000])
def test_malformed_bytes_end_the_count(noise: bytes):
    assert exceeds(noise, LIMIT) in (True, False)


def test_a_hostile_json_document_is_over():
    assert exceeds(b"{}," * 2_000_000, LIMIT, json=True)
    assert not exceeds(b'{"a":{}}' * LIMIT, LIMIT, json=True)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
