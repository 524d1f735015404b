"""One bad span or log record costs itself alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace

from collector.errors import BadInput
from collector.otlp.decode import field_bytes, read_mended
from collector.receive.parsed_request import parse
from collector.telemetry.registry import Telemetry

SPAN = {"traceId": "5f" * 16, "spanId": "0a" * 8, "name": "chat"}


def request_of(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def names(body: bytes, form: Any = None) -> list[str]:
    request = read_mended(body, "traces", form=form).request
    return [span.name for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"traceId": "xyz"}, "traceId is not an id"),
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano is not a whole number"),
        ({"attributes": [{"key": "a", "value": {"doubleValue": "x"}}]}, "doubleValue is not a number"),
    ],
)
def test_a_wrong_span_of_json_is_left_out_alone(wrong: dict[str, Any], reason: str) -> None:
    body = request_of(SPAN, {**SPAN, **wrong}, {**SPAN, "name": "tool"})
    assert names(body) == ["chat", "tool"]
    parsed = parse(body, "traces", "json")
    assert (parsed.accepted, parsed.rejected, parsed.items) == (2, 1, 3)
    assert parsed.error_message.startswith("1 left out, the first because resourceSpans[0].scopeSpans[0].spans[1].")
    assert parsed.error_message.endswith(reason)
    telemetry = Telemetry()
    parsed.count(telemetry, "otlp_http", len(body))
    assert (
        telemetry.registry.get_sample_value("evalstream_drops_total", {"stage": "receive", "reason": "unreadable_item"})
        == 1
    )


def test_a_text_that_was_cut_within_a_character_is_mended() -> None:
    trace = Trace(resource={"place": "Læsø"}).span(1, "Anholt-æ", {"text": "æ"}, events=[("æ", {"k": "æ"})])
    body = trace.spans.SerializeToString().replace("æ".encode(), b"\xc3!")
    assert names(body) == ["Anholt-�!"]
    parsed = parse(body, "traces", "protobuf")
    assert (parsed.accepted, parsed.rejected) == (1, 0)
    assert "�".encode() in parsed.records[0].value


def test_an_item_that_is_no_protobuf_is_left_out_alone() -> None:
    trace = Trace().span(1, "chat").span(2, "tool")
    whole = trace.spans.resource_spans[0].scope_spans[0]
    broken = (
        field_bytes(b"\x0a", b"")
        + field_bytes(b"\x12", whole.spans[0].SerializeToString())
        + field_bytes(b"\x12", b"\x0a\xff")
    )
    body = field_bytes(b"\x0a", field_bytes(b"\x12", broken)) + trace.spans.SerializeToString()
    assert names(body, "protobuf") == ["chat", "chat", "tool"]
    assert parse(body, "traces", "protobuf").rejected == 1


def test_where_nothing_is_left_the_request_is_refused() -> None:
    for body in (request_of({**SPAN, "traceId": "xyz"}), b"\x0a\x05\x12\x03\x12\x01\xff", b"garbage"):
        with pytest.raises(BadInput):
            parse(body, "traces")


def test_an_id_may_be_the_base64_of_its_hex() -> None:
    import base64

    span = {**SPAN, "traceId": base64.b64encode(SPAN["traceId"].encode()).decode()}
    request = read_mended(request_of(span), "traces").request
    assert request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() == SPAN["traceId"]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert names(b"\xef\xbb\xbf" + request_of(SPAN)) == ["chat"]
    assert names(b"\xef\xbb\xbf" + request_of(SPAN), "json") == ["chat"]
