from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_samples import logs_request, trace_id, traces_request

from collector.errors import BadInput, TooLarge
from collector.otlp.own_items import OwnItems
from collector.receive.parsed_request import parse
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_ITEMS

ONE, TWO = trace_id(1), trace_id(2)


def test_one_record_per_trace_with_key_header_and_part():
    intake = parse(traces_request(ONE, TWO, ONE).SerializeToString(), "traces", "protobuf")
    assert [record.key for record in intake.records] == [ONE.hex().encode(), TWO.hex().encode()]
    assert {record.headers for record in intake.records} == {(("signal", b"traces"),)}
    parts = [ExportTraceServiceRequest.FromString(record.value) for record in intake.records]
    assert [len(part.resource_spans[0].scope_spans[0].spans) for part in parts] == [2, 1]
    assert intake.accepted == 3


@pytest.mark.parametrize("form", ["json", None])
def test_json_becomes_protobuf(form):
    body = b'  {"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"0000000000000001"}]}]}]}' % (
        ONE.hex().encode()
    )
    (record,) = parse(body, "traces", form).records
    assert ExportTraceServiceRequest.FromString(record.value).resource_spans[0].scope_spans[0].spans[0].trace_id == ONE


@pytest.mark.parametrize("bad", [b"", bytes(16), b"short", bytes(15) + b"ab"], ids=["none", "zero", "short", "long"])
def test_spans_without_a_valid_trace_id_are_refused_and_told(bad: bytes):
    telemetry = Telemetry()
    intake = parse(traces_request(bad, ONE, bad).SerializeToString(), "traces", "protobuf")
    intake.count(telemetry, "test", 100)
    assert (intake.accepted, intake.rejected) == (1, 2)
    assert intake.error_message == "2 spans have no valid trace id"
    assert telemetry.counter(RECEIVE_ITEMS, "test", "traces", "rejected")._value.get() == 2


def test_log_records_without_a_trace_are_left_out_quietly():
    telemetry = Telemetry()
    intake = parse(logs_request(b"", ONE).SerializeToString(), "logs", "protobuf")
    intake.count(telemetry, "test", 100)
    assert (intake.accepted, intake.rejected, intake.error_message) == (1, 0, "")
    assert telemetry.counter(RECEIVE_ITEMS, "test", "logs", "ignored")._value.get() == 1


def test_what_the_service_has_signed_is_left_out():
    own, request = OwnItems(b"key"), traces_request(ONE, TWO)
    request.resource_spans[0].scope_spans[0].scope.name = "evalstream"
    own.sign(request.resource_spans[0].scope_spans[0].spans[0])
    intake = parse(request.SerializeToString(), "traces", "protobuf", own=own)
    assert (intake.accepted, intake.self_emitted, intake.rejected, intake.items) == (1, 1, 0, 2)
    assert [record.key for record in intake.records] == [TWO.hex().encode()]


def test_an_empty_body_is_an_empty_request():
    assert parse(b"", "traces", "json").records == []


@pytest.mark.parametrize(
    ("body", "form"), [(b"\xff\xff\xff", "protobuf"), (b"{", "json"), (b"[]", "json"), (b"{", None)]
)
def test_unreadable_bodies_are_bad_input(body: bytes, form):
    with pytest.raises(BadInput):
        parse(body, "traces", form)


@pytest.mark.parametrize("form", ["protobuf", None])
def test_more_items_than_allowed_are_too_large(form):
    body = traces_request(*[ONE] * 50).SerializeToString()
    assert parse(body, "traces", form, max_items=60).accepted == 50
    with pytest.raises(TooLarge, match="more than 49 spans"):
        parse(body, "traces", form, max_items=49)


def test_json_of_protobufs_own_making_is_read_as_ids_in_base64():
    body = MessageToJson(traces_request(ONE)).encode()
    assert parse(body, "traces", "json").records[0].key == ONE.hex().encode()


def test_a_tenants_spans_have_a_key_of_their_own():
    body = traces_request(ONE).SerializeToString()
    keys = [parse(body, "traces", "protobuf", tenant=tenant).records[0].key for tenant in ("", "team-a")]
    assert keys == [ONE.hex().encode(), ONE.hex().encode() + b"@team-a"]
