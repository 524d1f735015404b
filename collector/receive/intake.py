"""From an OTLP request to records of the spans log: one per trace.

A record's key is the trace id (32 hex digits), its value that trace's part of the request in protobuf, its header
`signal` is `traces` or `logs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.logs.log import Record
from collector.otlp import (
    Request,
    Signal,
    Split,
    logs_from_json,
    read_request,
    request_from_protobuf,
    split_by_trace,
    traces_from_json,
)
from collector.receive.item_count import exceeds
from collector.receive.refusal import NotRedacted, TooLarge
from collector.redact.otlp_request import redact_request
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry import INGEST_LAG, RECEIVED_BYTES, RECEIVED_ITEMS, Telemetry

Form = Literal["protobuf", "json"]

_NO_TRACE = "0" * 32


@dataclass(frozen=True, slots=True)
class Intake:
    """What a request comes to: records to append, and how many of its items they hold.

    `without_trace` items name no trace, or none that is valid; `own` ones this service has written itself. `ended_at`
    (s since the epoch) is when the last span ended, None for log records and where it does not say.
    """

    signal: Signal
    records: list[Record]
    accepted: int
    without_trace: int
    own: int
    ended_at: float | None = None

    @property
    def rejected(self) -> int:
        """How many items the sender is told were refused: a span needs a trace, a log record need not have one."""
        return self.without_trace if self.signal == "traces" else 0

    @property
    def complaint(self) -> str:
        """Why they were refused."""
        return f"{self.rejected} spans have no valid trace id" if self.rejected else ""

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count a request of `size` bytes that is durable, and how late it came where it is `now` that it was sent."""
        if now is not None and self.ended_at is not None:
            telemetry.histogram(INGEST_LAG, source).observe(max(0.0, now - self.ended_at))
        telemetry.counter(RECEIVED_BYTES, source, self.signal).inc(size)
        telemetry.counter(RECEIVED_ITEMS, source, self.signal, "accepted").inc(self.accepted)
        if self.own:
            telemetry.counter(RECEIVED_ITEMS, source, self.signal, "ignored").inc(self.own)
        if self.without_trace:
            result = "rejected" if self.rejected else "ignored"
            telemetry.counter(RECEIVED_ITEMS, source, self.signal, result).inc(self.without_trace)
            telemetry.drop("receive", f"{self.signal}_without_trace_id", self.without_trace)


def take_in(
    body: bytes,
    signal: Signal,
    form: Form | None = None,
    *,
    max_items: int | None = None,
    redactor: Redactor | None = None,
) -> Intake:
    """Read a request and cut it up by trace; no form means to look which it is. An empty body is an empty request.

    Raises:
        TooLarge: it holds more than `max_items` spans or log records.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and exceeds(body, max_items, json=_is_json(body, form)):
        raise TooLarge(f"the request holds more than {max_items} {_ITEMS[signal]}")
    if not body:
        return Intake(signal, [], 0, 0, 0)
    request = _read(body, signal, form)
    if redactor is not None:
        _redact(request, redactor)
    as_it_came = form == "protobuf" and redactor is None  # what came may hold fields that nobody has looked through
    return _intake(signal, split_by_trace(request, body if as_it_came else None), _ended_at(request))


def _redact(request: Request, redactor: Redactor) -> None:
    try:
        redact_request(request, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of the request is stored") from None


_ITEMS: dict[Signal, str] = {"traces": "spans", "logs": "log records"}


def _is_json(body: bytes, form: Form | None) -> bool:
    return form == "json" or (form is None and body[:64].lstrip()[:1] == b"{")


def _read(body: bytes, signal: Signal, form: Form | None) -> Request:
    match form:
        case "protobuf":
            return request_from_protobuf(body, signal)
        case "json":
            return traces_from_json(body) if signal == "traces" else logs_from_json(body)
        case None:
            return read_request(body, signal)


def _ended_at(request: Request) -> float | None:
    """When the last span in the request ended: senders put them down as they end. Looking at all would cost time."""
    if not isinstance(request, ExportTraceServiceRequest):
        return None
    for resource in reversed(request.resource_spans):
        for scope in reversed(resource.scope_spans):
            if scope.spans:
                return scope.spans[-1].end_time_unix_nano / 1e9 or None
    return None


def _intake(signal: Signal, split: Split, ended_at: float | None) -> Intake:
    headers = (("signal", signal.encode()),)
    records: list[Record] = []
    without = split.without_trace
    for trace, piece in split.pieces:
        if len(trace) == 32 and trace != _NO_TRACE:
            records.append(Record(trace.encode(), piece, headers))
        else:
            without += split_by_trace(request_from_protobuf(piece, signal)).items
    return Intake(signal, records, split.items - without - split.own, without, split.own, ended_at)
