"""Outlines hold the bytes of what they are made of, and their attributes read as OTLP's own messages do."""

from __future__ import annotations

from typing import Any

import pytest
from hostile import Hostile, requests
from made_up import ASSEMBLER, Trace, any_value as value_of
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from collector.assemble.collect_trace import TracePiece
from collector.otlp.decode import (
    any_value,
    attributes_of,
    outlined,
    pairs_of,
    read_outline,
    request_from_protobuf,
    scopes_of,
    split_by_trace,
)
from collector.otlp.outline import outline_of


def test_an_outline_is_written_as_what_it_was_read_from() -> None:
    for signal, data in requests():
        written = request_from_protobuf(data, signal).SerializeToString()
        assert outline_of(written, signal).SerializeToString() == written
        assert outlined(request_from_protobuf(data, signal)).SerializeToString() == written


def test_attributes_read_as_those_of_messages() -> None:
    for signal, data in requests():
        outlines = [each for _, scope in scopes_of(read_outline(data, signal)) for each in items(scope)]
        messages = [each for _, scope in scopes_of(request_from_protobuf(data, signal)) for each in items(scope)]
        for outline, message in zip(outlines, messages, strict=True):
            assert [name for name, _ in pairs_of(outline.attributes, [])] == [pair.key for pair in message.attributes]
            assert attributes_of(outline.attributes) == {pair.key: any_value(pair.value) for pair in message.attributes}


def test_whoever_reads_attributes_leaves_them_as_they_are() -> None:
    """Values that are remembered are the same objects for all spans, lists and mappings among them."""
    pairs: set[bytes] = set()
    for signal, data in requests():
        pieces = [TracePiece(signal, piece) for _, piece in split_by_trace(request_from_protobuf(data, signal)).pieces]
        for piece in pieces:
            ASSEMBLER.assemble([piece])
        for _, scope in scopes_of(read_outline(data, signal)):
            pairs.update(pair for each in items(scope) for pair in each.attributes)
    fresh = {pair: KeyValue.FromString(pair) for pair in pairs}
    assert len(pairs) > 1000
    assert any(isinstance(value, list) for pair in pairs for value in attributes_of([pair]).values())
    for pair, message in fresh.items():
        assert attributes_of([pair]) == {message.key: any_value(message.value)}


def items(scope: Any) -> Any:
    return scope.spans if hasattr(scope, "spans") else scope.log_records


@pytest.mark.parametrize("body", [None, "", "said"])
def test_an_empty_body_is_not_a_missing_one(body: str | None) -> None:
    logs = Trace().record(1, "gen_ai.choice", body).logs
    record = logs.resource_logs[0].scope_logs[0].log_records[0]
    if body is None:
        record.ClearField("body")
    encoded = logs.SerializeToString()
    assert outline_of(encoded, "logs").SerializeToString() == encoded


def test_what_otlp_does_not_know_goes_wherever_it_is() -> None:
    request = Trace().span(1, "chat", {"gen_ai.system": "x"}).spans
    span = request.resource_spans[0].scope_spans[0].spans[0]
    unknown = b"\xc2\x3e\x0fada@example.com"
    for message in (request, span, span.attributes[0], span.attributes[0].value):
        message.MergeFromString(unknown)
    assert request.SerializeToString().count(b"example.com") == 4
    assert b"example.com" not in outlined(request, known_fields_only=True).SerializeToString()


def test_of_several_attributes_of_one_name_the_last_counts() -> None:
    pairs = [KeyValue(key="a"), KeyValue(key="a")]
    pairs[0].value.int_value, pairs[1].value.string_value = 1, "b" * 200
    encoded = [pair.SerializeToString() for pair in pairs]
    assert attributes_of(encoded) == {"a": "b" * 200}
    assert attributes_of(reversed(encoded)) == {"a": 1}
    assert [name for name, _ in pairs_of(encoded, [])] == ["a", "a"]


def test_any_value_has_the_same_bytes_and_value() -> None:
    hostile = Hostile("outline")
    for _ in range(300):
        pair = KeyValue(key="a")
        pair.value.CopyFrom(value_of(hostile.value()))
        assert attributes_of([pair.SerializeToString()]) == {"a": any_value(pair.value)}
