"""OTLP answers, in the form of the request: protobuf or JSON."""

from __future__ import annotations

import math

from aiohttp import web
from google.protobuf.json_format import MessageToJson
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.otlp.decode import Signal
from collector.receive.parsed_request import Form
from collector.receive.rejection import Rejected

Answer = ExportTraceServiceResponse | ExportLogsServiceResponse

_FORMS: dict[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_TYPES: dict[Form, str] = {form: type_ for type_, form in _FORMS.items()}
_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    405: Code.UNIMPLEMENTED,
    408: Code.DEADLINE_EXCEEDED,
    413: Code.RESOURCE_EXHAUSTED,
    415: Code.INVALID_ARGUMENT,
    429: Code.UNAVAILABLE,
    500: Code.INTERNAL,
    503: Code.UNAVAILABLE,
}


def form_of(content_type: str) -> Form | None:
    """The form that a content type names; None if OTLP knows it not."""
    return _FORMS.get(content_type)


def success(signal: Signal, *, rejected: int = 0, message: str = "") -> Answer:
    """What says that a request is durable, all but the `rejected` spans or log records."""
    if signal == "traces":
        answer = ExportTraceServiceResponse()
        if rejected:
            answer.partial_success.rejected_spans = rejected
            answer.partial_success.error_message = message
        return answer
    logs = ExportLogsServiceResponse()
    if rejected:
        logs.partial_success.rejected_log_records = rejected
        logs.partial_success.error_message = message
    return logs


def accepted(signal: Signal, form: Form, *, rejected: int = 0, message: str = "") -> web.Response:
    """That as an HTTP response."""
    return _response(200, form, success(signal, rejected=rejected, message=message))


def rejected(form: Form | None, rejection: Rejected) -> web.Response:
    """The answer to a request that is not taken: a `google.rpc.Status`, as JSON where the form is unknown."""
    status = Status(code=_CODES.get(rejection.status, Code.UNKNOWN), message=rejection.message)
    response = _response(rejection.status, form or "json", status)
    response.headers.update(rejection.headers)
    if rejection.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(rejection.retry_after)))
    return response


def _response(status: int, form: Form, answer: Answer | Status) -> web.Response:
    body = answer.SerializeToString() if form == "protobuf" else MessageToJson(answer, indent=None).encode()
    return web.Response(status=status, body=body, content_type=_TYPES[form])
