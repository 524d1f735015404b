"""Feedback as a log record that belongs to no trace: it names the response that it is about, long after its trace.

It gets a trace id of its own, made of the response's id, on which it goes its way through the spans log like any other.
"""

from __future__ import annotations

import hashlib

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.otlp.decode import Request

_EVENT = "gen_ai.evaluation.result"
_NAME, _RESPONSE = "event.name", "gen_ai.response.id"


def give_traces(request: Request) -> bool:
    """Give such records their trace ids; says whether there were any."""
    if not isinstance(request, ExportLogsServiceRequest):
        return False
    changed = False
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                if not any(record.trace_id):
                    changed |= _give_trace(record)
    return changed


def _give_trace(record: LogRecord) -> bool:
    response, event = "", record.event_name
    for pair in record.attributes:
        if pair.key == _RESPONSE:
            response = pair.value.string_value
        elif pair.key == _NAME and not event:
            event = pair.value.string_value
    if event != _EVENT or not response:
        return False
    record.trace_id = hashlib.sha256(response.encode()).digest()[:16]
    return True
