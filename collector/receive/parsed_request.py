"""The parsing of an OTLP request into records of the spans log, one per trace.

A record's key is the trace id (32 hex digits), with `@` and the tenant where the sender is named; its value is that
trace's part of the request in protobuf, its header `signal` is `traces` or `logs`. A thin piece is of another form: see
`collector.records.thin_pieces`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.logs.log import Record
from collector.otlp.decode import (
    Part,
    Request,
    Signal,
    Split,
    group_by_trace,
    read_request,
    request_from_json,
    request_from_protobuf,
    scopes_of,
    split_by_trace,
)
from collector.otlp.inline_media import omit_from_request
from collector.otlp.own_items import SIGNATURE, OwnItems
from collector.receive.rejection import NotRedacted
from collector.receive.traceless_feedback import give_traces
from collector.records.tenants import trace_key
from collector.records.thin_pieces import HEADERS as THIN
from collector.records.thin_pieces import ThinTurn, thin_piece
from collector.redact.otlp_request import RequestRedaction
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import INGEST_LAG, MEDIA_OMITTED, RECEIVE_BYTES, RECEIVE_ITEMS, THINNED

Form = Literal["protobuf", "json"]

_NO_TRACE = "0" * 32


class Thinning(Protocol):
    """Leaves out of the pieces of traces what was said, where nobody can want it."""

    def thin(
        self, groups: Mapping[bytes, Sequence[Part]], tenant: str, redaction: RequestRedaction | None
    ) -> Mapping[bytes, Callable[[], ThinTurn]]:
        """Thin pieces in place, given by trace id; the turn of each is asked for when the request has been redacted.

        Raises:
            RedactionFailed: a text could not be looked through.
        """
        ...


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The records of a request, and counts of its items.

    `without_trace` items have no valid trace id; `self_emitted` ones were written by this service. `ended_at` (s since
    the epoch) is when the last span ended; None for log records and spans without an end. `omitted_media` counts
    pictures and the like whose content is not stored, `thinned` the records that hold nothing of what was said.
    """

    signal: Signal
    records: list[Record]
    accepted: int
    without_trace: int
    self_emitted: int
    ended_at: float | None = None
    omitted_media: int = 0
    thinned: int = 0

    @property
    def items(self) -> int:
        """All items that the request held."""
        return self.accepted + self.without_trace + self.self_emitted

    @property
    def rejected(self) -> int:
        """The items to report to the sender as rejected: a span needs a trace, a log record need not have one."""
        return self.without_trace if self.signal == "traces" else 0

    @property
    def error_message(self) -> str:
        """Why they were rejected."""
        return f"{self.rejected} spans have no valid trace id" if self.rejected else ""

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count a durable request of `size` bytes and, if it was sent `now` (s since the epoch), its lag."""
        if now is not None and self.ended_at is not None:
            telemetry.histogram(INGEST_LAG, source).observe(max(0.0, now - self.ended_at))
        telemetry.counter(RECEIVE_BYTES, source, self.signal).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, self.signal, "accepted").inc(self.accepted)
        if self.self_emitted:
            telemetry.counter(RECEIVE_ITEMS, source, self.signal, "ignored").inc(self.self_emitted)
        if self.omitted_media:
            telemetry.counter(MEDIA_OMITTED, source).inc(self.omitted_media)
        if self.thinned:
            telemetry.counter(THINNED, source).inc(self.thinned)
        if self.without_trace:
            result = "rejected" if self.rejected else "ignored"
            telemetry.counter(RECEIVE_ITEMS, source, self.signal, result).inc(self.without_trace)
            telemetry.drop("receive", f"{self.signal}_without_trace_id", self.without_trace)


def parse(
    body: bytes,
    signal: Signal,
    form: Form | None = None,
    *,
    max_items: int | None = None,
    redactor: Redactor | None = None,
    tenant: str = "",
    own: OwnItems | None = None,
    stored_media: int = 0,
    thinning: Thinning | None = None,
) -> ParsedRequest:
    """Parse a request and split it by trace; without a form it is detected. An empty body is an empty request.

    `tenant` is the name of the sender, "" without one. What `own` has signed is left out. Pictures and the like of more
    than `stored_media` bytes become hash and size. With `thinning`, what was said is left out where nobody can want it.

    Raises:
        TooLarge: it holds more than `max_items` spans or log records, or too much for each of its traces.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if not body:
        return ParsedRequest(signal, [], 0, 0, 0)
    request = _read(body, signal, form, max_items)
    is_signed = SIGNATURE.encode() in body  # to look at every attribute of every request would take long
    self_emitted = own.remove_from(scopes_of(request), everywhere=is_signed) if own is not None else 0
    omitted = omit_from_request(request, body, stored_media)
    groups = group_by_trace(request) if thinning is not None and signal == "traces" else None
    thin = _thin_and_redact(request, groups, tenant, thinning, redactor)
    changed = give_traces(request) or bool(thin)
    # A request of one trace may be appended as it is, but not if redacted: its bytes may hold unknown fields.
    original = (
        body if form == "protobuf" and redactor is None and not self_emitted and not omitted and not changed else None
    )
    turns = {trace_id.hex(): turn() for trace_id, turn in thin.items()}
    parsed = _parsed(signal, split_by_trace(request, original, groups), self_emitted, _ended_at(request), tenant, turns)
    return replace(parsed, omitted_media=omitted) if omitted else parsed


def _thin_and_redact(
    request: Request,
    groups: Mapping[bytes, Sequence[Part]] | None,
    tenant: str,
    thinning: Thinning | None,
    redactor: Redactor | None,
) -> Mapping[bytes, Callable[[], ThinTurn]]:
    """Thin what nobody can want, and redact what is left; gives what makes the turns of thin pieces, by trace id."""
    thin: Mapping[bytes, Callable[[], ThinTurn]] = {}
    redaction = None if redactor is None else RequestRedaction(redactor)
    try:
        if thinning is not None and groups is not None:
            thin = thinning.thin(groups, tenant, redaction)
        if redaction is not None:
            redaction.redact(request)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of the request is stored") from None
    return thin


def _read(body: bytes, signal: Signal, form: Form | None, max_items: int | None) -> Request:
    match form:
        case "protobuf":
            return request_from_protobuf(body, signal, max_items)
        case "json":
            return request_from_json(body, signal, max_items)
        case None:
            return read_request(body, signal, max_items)


def _ended_at(request: Request) -> float | None:
    """When the last span ended: senders list spans in the order of their ends, so the others are not read."""
    if not isinstance(request, ExportTraceServiceRequest):
        return None
    for resource in reversed(request.resource_spans):
        for scope in reversed(resource.scope_spans):
            if scope.spans:
                return scope.spans[-1].end_time_unix_nano / 1e9 or None
    return None


def _parsed(
    signal: Signal,
    split: Split,
    self_emitted: int,
    ended_at: float | None,
    tenant: str,
    turns: Mapping[str, ThinTurn],
) -> ParsedRequest:
    headers = (("signal", signal.encode()),)
    records: list[Record] = []
    without_trace, thinned = split.without_trace, 0
    for trace_id, piece in split.pieces:
        if len(trace_id) != 32 or trace_id == _NO_TRACE:
            without_trace += split_by_trace(request_from_protobuf(piece, signal)).items
        elif trace_id in turns:
            thinned += 1
            records.append(Record(trace_key(trace_id, tenant), thin_piece(turns[trace_id], piece), THIN))
        else:
            records.append(Record(trace_key(trace_id, tenant), piece, headers))
    accepted = split.items - without_trace
    return ParsedRequest(signal, records, accepted, without_trace, self_emitted, ended_at, thinned=thinned)
