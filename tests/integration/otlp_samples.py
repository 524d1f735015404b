"""OTLP requests as applications send them."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def traces_request(*trace_ids: bytes, text: str = "hello") -> ExportTraceServiceRequest:
    """One span for each trace id, in this order."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="shop")))
    scope = resource.scope_spans.add()
    scope.scope.name = "shop.instrumentation"
    for number, each in enumerate(trace_ids, 1):
        span = scope.spans.add(trace_id=each, span_id=number.to_bytes(8, "big"), name="chat")
        span.attributes.append(KeyValue(key="gen_ai.prompt", value=AnyValue(string_value=text)))
    return request


def logs_request(*trace_ids: bytes) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for each in trace_ids:
        scope.log_records.add(trace_id=each, body=AnyValue(string_value="hello"))
    return request
