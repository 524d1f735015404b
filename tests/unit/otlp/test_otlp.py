from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format
from made_up import START, TRACE, Trace

from collector.errors import BadInput
from collector.otlp.decode import (
    Signal,
    outlined,
    read_mended,
    read_outline,
    read_request,
    records_of,
    request_from_protobuf,
    spans_of,
    split_by_trace,
)


def example() -> Trace:
    trace = Trace()
    trace.span(
        1,
        "chat",
        {
            "text": "a",
            "empty": "",
            "number": -7,
            "big": 2**62,
            "real": 0.5,
            "yes": True,
            "list": ["a", 1, [2]],
            "map": {"k": {"deep": [None]}},
            "bytes": b"\x00\xff",
        },
        scope="lib",
        error="broke",
        events=[("exception", {"exception.message": "broke"})],
        dropped=3,
    )
    return trace.record(1, "gen_ai.choice", {"message": {"content": "hi"}}, {"k": "v"}, scope="lib")


def hex_ids(value: Any) -> Any:
    """Protobuf's JSON has ids in base64; OTLP's has them in hex."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(each).hex()
            if key.lower().replace("_", "") in {"traceid", "spanid", "parentspanid"}
            else hex_ids(each)
            for key, each in value.items()
        }
    return [hex_ids(each) for each in value] if isinstance(value, list) else value


class TestBothEncodings:
    @pytest.mark.parametrize("snake_case", [False, True])
    @pytest.mark.parametrize("ids", ["hex", "base64"])
    def test_json_gives_the_same_message(self, snake_case: bool, ids: str) -> None:
        trace = example()
        for request, signal in ((trace.spans, "traces"), (trace.logs, "logs")):
            document = json_format.MessageToDict(request, preserving_proto_field_name=snake_case)
            document = hex_ids(document) if ids == "hex" else document
            assert read_request(json.dumps(document).encode(), signal) == request

    def test_numbers_and_enums_may_be_written_either_way(self) -> None:
        span = {"startTimeUnixNano": 12, "endTimeUnixNano": "13", "kind": "SPAN_KIND_SERVER", "status": {"code": 2}}
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        read = read_request(json.dumps(request).encode(), "traces").resource_spans[0].scope_spans[0].spans[0]
        assert (read.start_time_unix_nano, read.end_time_unix_nano, read.kind, read.status.code) == (12, 13, 2, 2)

    def test_first_byte_tells_the_encoding(self) -> None:
        trace = example()
        encoded = trace.spans.SerializeToString()
        document = json.dumps(hex_ids(json_format.MessageToDict(trace.spans))).encode()
        assert read_request(encoded, "traces") == read_request(b"  " + document, "traces") == trace.spans

    @pytest.mark.parametrize("encoded", [b"\n{" + b"\x1a\x79" + b"u" * 121, b"\n\n" + b"\x1a\x08" + b"{" * 8])
    def test_protobuf_that_begins_as_json_would(self, encoded: bytes) -> None:
        """A line feed is the tag of a request's first field, and `{` a length of 123."""
        read = read_request(encoded, "traces")
        assert read == request_from_protobuf(encoded, "traces")
        assert len(read.resource_spans) == 1

    def test_unknown_keys_are_left_out(self) -> None:
        assert read_request(b'{"resourceSpans": [], "new": {"thing": 1}}', "traces").resource_spans == []


class TestBadInput:
    @pytest.mark.parametrize(
        ("document", "says"),
        [
            (b"", "not a JSON document"),
            (b'{"resourceSpans": [,]}', "not a JSON document (line 1, column 20: "),
            (b"\xff", "not a JSON document"),
            (b"[]", "the document is not an object"),
            (b'{"resourceSpans": 1}', "resourceSpans is not an array"),
            (
                b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
                "spans[0].traceId is not an id",
            ),
            (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 4}]}]}]}', "spans[0].name is not a string"),
            (
                b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "-1"}]}]}]}',
                "startTimeUnixNano has a value out of range",
            ),
            (
                b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"kind": 2147483648}]}]}]}',
                "spans[0].kind has a value out of range",
            ),
            (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "x"}]}]}]}', "not a whole number"),
            (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": true}]}]}]}', "not a whole number"),
            (b'{"resourceSpans": [{"resource": {"attributes": [{"value": {"doubleValue": "x"}}]}}]}', "not a number"),
            (b'{"resourceSpans": [{"resource": {"attributes": [{"value": {"boolValue": 1}}]}}]}', "not true or false"),
            (b'{"resourceSpans": [{"resource": {"attributes": [{"value": {"bytesValue": "*"}}]}}]}', "not base64"),
        ],
    )
    def test_json_says_where_and_why(self, document: bytes, says: str) -> None:
        with pytest.raises(BadInput) as raised:
            read_mended(document, "traces", form="json")
        assert says in str(raised.value)

    def test_json_nested_without_end(self) -> None:
        value = b'{"stringValue": "x"}'
        for _ in range(300):
            value = b'{"arrayValue": {"values": [' + value + b"]}}"
        document = b'{"resourceSpans": [{"resource": {"attributes": [{"key": "a", "value": ' + value + b"}]}}]}"
        with pytest.raises(BadInput, match="nested too deeply"):
            read_request(document, "traces")

    @pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\xff", b"garbage"])
    def test_protobuf(self, data: bytes) -> None:
        with pytest.raises(BadInput, match="not an OTLP protobuf request of traces"):
            request_from_protobuf(data, "traces")

    def test_protobuf_nested_without_end(self) -> None:
        value = b""
        for _ in range(300):
            value = _field(5, _field(1, value))  # AnyValue.array_value, ArrayValue.values
        attribute = _field(1, b"k") + _field(2, value)
        with pytest.raises(BadInput):
            request_from_protobuf(_field(1, _field(1, _field(1, attribute))), "traces")


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _length(data) + data


def _length(data: bytes) -> bytes:
    size, encoded = len(data), b""
    while size > 127:
        encoded += bytes([size & 127 | 128])
        size >>= 7
    return encoded + bytes([size])


class TestReading:
    def test_span(self) -> None:
        span = spans_of(outlined(example().spans))[0]
        assert span.trace_id == TRACE
        assert (span.span_id, span.parent_span_id) == ("0000000000000001", None)
        assert (span.name, span.scope, span.failed, span.status_message) == ("chat", "lib", True, "broke")
        assert (span.start, span.end) == (START + 10**9, START + 15 * 10**8)
        assert span.dropped_attributes == 3
        assert span.resource == {"service.name": "shop"}
        assert span.events[0].attributes == {"exception.message": "broke"}
        assert span.attributes == {
            "text": "a",
            "empty": "",
            "number": -7,
            "big": 2**62,
            "real": 0.5,
            "yes": True,
            "list": ["a", 1, [2]],
            "map": {"k": {"deep": [None]}},
            "bytes": "00ff",
        }

    def test_a_resource_that_comes_again_is_decoded_once_unless_it_is_long(self) -> None:
        def resource(service: str) -> Any:
            request = example().spans
            request.resource_spans[0].resource.attributes[0].value.string_value = service
            return spans_of(outlined(request))[0].resource

        assert resource("shop") is resource("shop")
        assert resource("shop") != resource("bar")
        assert resource("x" * 20_000) is not resource("x" * 20_000)
        assert resource("x" * 20_000) == {"service.name": "x" * 20_000}

    def test_record(self) -> None:
        record = records_of(outlined(example().logs))[0]
        assert (record.event_name, record.span_id, record.scope) == ("gen_ai.choice", "0000000000000001", "lib")
        assert record.body == {"message": {"content": "hi"}}

    def test_a_name_that_is_a_place_in_the_source_gives_way(self) -> None:
        place = "event src/session.rs:120"
        named = Trace().record(1, place, "x", {"event.name": "acme.prompt"})
        [record] = records_of(read_outline(named.pieces()[0].value, "logs"))
        assert record.event_name == "acme.prompt"
        [record] = records_of(read_outline(Trace().record(1, place, "x").pieces()[0].value, "logs"))
        assert record.event_name == place

    @pytest.mark.parametrize("key", ["event.name", "event_name"])
    def test_older_senders_name_a_record_in_an_attribute(self, key: str) -> None:
        record = records_of(outlined(Trace().record(1, "", None, {key: "gen_ai.choice"}).logs))[0]
        assert record.event_name == "gen_ai.choice"

    def test_unwanted_spans_keep_their_place_alone(self) -> None:
        span = spans_of(outlined(example().spans), lambda *_: 0)[0]
        assert span.span_id == "0000000000000001"
        assert not span.attributes
        assert not span.events


class TestSplitting:
    def test_a_single_trace_keeps_its_bytes(self) -> None:
        request = example().spans
        encoded = request.SerializeToString() + b"\x0a\x00"  # not what serializing again would give
        split = split_by_trace(request_from_protobuf(encoded, "traces"), encoded)
        assert split.pieces == [(TRACE, encoded)]

    def test_several_traces(self) -> None:
        one, other = Trace("01" * 16).span(1).span(2, scope="b"), Trace("02" * 16).span(3, scope="b")
        request = request_from_protobuf(one.spans.SerializeToString() + other.spans.SerializeToString(), "traces")
        split = split_by_trace(request)
        assert [trace_id for trace_id, _ in split.pieces] == ["01" * 16, "02" * 16]
        pieces = [spans_of(read_outline(value, "traces")) for _, value in split.pieces]
        assert [[(span.span_id[-1], span.scope) for span in spans] for spans in pieces] == [
            [("1", ""), ("2", "b")],
            [("3", "b")],
        ]
        assert pieces[0][0].resource == {"service.name": "shop"}
        assert (split.items, split.without_trace) == (3, 0)

    def test_what_names_no_trace_is_counted_and_left_out(self) -> None:
        trace = Trace().record(1, "a")
        trace.logs.resource_logs[0].scope_logs[0].log_records.add(event_name="stray")
        split = split_by_trace(trace.logs)
        assert (split.items, split.without_trace) == (2, 1)
        assert [record.event_name for record in records_of(read_outline(split.pieces[0][1], "logs"))] == ["a"]

    def test_nothing(self) -> None:
        assert split_by_trace(request_from_protobuf(b"", "traces")).pieces == []


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_a_json_document_without_the_key_of_a_request_is_refused(signal: Signal) -> None:
    """A turn sent to the wrong place was accepted, and lost."""
    key = {"traces": "resourceSpans", "logs": "resourceLogs"}[signal]
    for wrong in ('{"input": "?", "actual_output": "!"}', '{"resourceMetrics": []}', '{"turns": []}'):
        with pytest.raises(BadInput, match=f"it has no {key}"):
            read_mended(wrong.encode(), signal, form="json")
    snake = "resource_spans" if signal == "traces" else "resource_logs"
    for right in ("{}", f'{{"{key}": []}}', f'{{"{snake}": [], "later": 1}}', f'{{"{key}": null}}'):
        assert read_mended(right.encode(), signal, form="json").rejected == 0
    assert read_mended(b"", signal, form="protobuf").rejected == 0, "empty protobuf is an empty request"
