"""Requests cut up by trace, against the plain way of doing it: copying messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.decode import Signal, request_from_protobuf, split_by_trace

CAPTURED = Path(__file__).parents[2] / "golden" / "otlp"


def everything(signal: Signal) -> Any:
    """All captured requests as one: many traces, resources and scopes."""
    return request_from_protobuf(
        b"".join(each.read_bytes() for each in sorted(CAPTURED.glob(f"*/*-{signal}.pb"))), signal
    )


def copied(request: Any) -> dict[str, Any]:
    """What is to come out, by trace."""
    traces: dict[str, Any] = {}
    spans = isinstance(request, ExportTraceServiceRequest)
    for outer, resource in enumerate(request.resource_spans if spans else request.resource_logs):
        for inner, scope in enumerate(resource.scope_spans if spans else resource.scope_logs):
            for item in scope.spans if spans else scope.log_records:
                if not item.trace_id:
                    continue
                made = traces.setdefault(item.trace_id.hex(), (type(request)(), {}))
                into = made[1].get((outer, inner))
                if into is None:
                    holder = made[1].get(outer)
                    if holder is None:
                        holder = (made[0].resource_spans if spans else made[0].resource_logs).add()
                        holder.resource.CopyFrom(resource.resource)
                        holder.schema_url = resource.schema_url
                        made[1][outer] = holder
                    into = (holder.scope_spans if spans else holder.scope_logs).add()
                    into.scope.CopyFrom(scope.scope)
                    into.schema_url = scope.schema_url
                    made[1][outer, inner] = into
                (into.spans if spans else into.log_records).append(item)
    return {trace: made for trace, (made, _) in traces.items()}


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_pieces_of_captured_traffic_hold_what_copies_would(signal: Signal) -> None:
    request = everything(signal)
    wanted = copied(request)
    assert len(wanted) > 20
    found = {trace: request_from_protobuf(value, signal) for trace, value in split_by_trace(request).pieces}
    assert found == wanted


def test_sizes_that_take_one_to_four_bytes_to_write() -> None:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add(schema_url="https://example.com/schema")
    for number, length in enumerate((0, 127, 128, 16_383, 16_384, 2_097_152)):
        scope = resource.scope_spans.add(schema_url="y" * (length % 300))
        scope.spans.add(trace_id=(number + 1).to_bytes(16, "big"), name="x" * length)
    found = {trace: request_from_protobuf(value, "traces") for trace, value in split_by_trace(request).pieces}
    assert found == copied(request)


def test_several_traces_of_log_records_in_one_scope() -> None:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number in range(6):
        scope.log_records.add(trace_id=(number % 2 + 1).to_bytes(16, "big"), event_name=str(number))
    found = {trace: request_from_protobuf(value, "logs") for trace, value in split_by_trace(request).pieces}
    assert found == copied(request)
