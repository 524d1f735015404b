"""Evaluations as OTLP: an event on the judged span, and a short span of their own in the same trace."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import TypeVar

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from collector.export.attributes import EVENT_NAME, SPAN_NAME, Value, attributes, openinference_attributes
from collector.otlp.evaluation_spans import span_id
from collector.otlp.own_items import OWN_SCOPE, OwnItems
from evaluators.results import Evaluation

_REMOTE_PARENT = 0x301  # sampled; the parent is known to be in another process (SpanFlags of the protocol)


def events(
    batch: Sequence[Evaluation], *, service: str, explanation: bool = True, own: OwnItems | None = None
) -> ExportLogsServiceRequest:
    """One `gen_ai.evaluation.result` event per evaluation, with the trace and span id of what was judged.

    Events that `own` signs are recognised when they come back.
    """
    return logs_request([_event(evaluation, explanation=explanation) for evaluation in batch], service=service, own=own)


def logs_request(
    records: Sequence[LogRecord], *, service: str, own: OwnItems | None = None
) -> ExportLogsServiceRequest:
    """A request with log records of ours, signed by `own`."""
    scope = ScopeLogs(scope=_scope(), log_records=[_signed(record, own) for record in records])
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=_resource(service), scope_logs=[scope])])


def spans(
    batch: Sequence[Evaluation],
    *,
    service: str,
    explanation: bool = True,
    own: OwnItems | None = None,
    openinference: bool = False,
) -> ExportTraceServiceRequest:
    """One span per evaluation, child of the judged span; of a conversation, linked to every turn's span.

    With `openinference` they are evaluator spans of that convention, too.

    Evaluations of what had no trace (ready-made turns) have no span: there is no trace for it to be in.
    """
    members = [
        _signed(_span(evaluation, explanation=explanation, openinference=openinference), own)
        for evaluation in batch
        if _id(evaluation.subject.trace_id, 16)
    ]
    if not members:
        return ExportTraceServiceRequest()
    scope = ScopeSpans(scope=_scope(), spans=members)
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=_resource(service), scope_spans=[scope])])


_Item = TypeVar("_Item", LogRecord, Span)


def _signed(item: _Item, own: OwnItems | None) -> _Item:
    if own is not None:
        own.sign(item)
    return item


def _event(evaluation: Evaluation, *, explanation: bool) -> LogRecord:
    return event_record(
        EVENT_NAME,
        time=evaluation.time,
        observed=evaluation.ended_at,
        warning=evaluation.outcome == "failed",
        trace_id=evaluation.subject.trace_id,
        span_id=evaluation.subject.span_id,
        attributes=attributes(evaluation, explanation=explanation),
    )


def event_record(
    name: str,
    *,
    time: datetime,
    observed: datetime,
    trace_id: str | None,
    span_id: str | None,
    attributes: Mapping[str, Value],
    warning: bool = False,
) -> LogRecord:
    """An event about a span."""
    return LogRecord(
        time_unix_nano=_nanoseconds(time),
        observed_time_unix_nano=_nanoseconds(observed),
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warning else SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=name,
        trace_id=_id(trace_id, 16),
        span_id=_id(span_id, 8),
        attributes=_key_values(attributes),
    )


def _span(evaluation: Evaluation, *, explanation: bool, openinference: bool) -> Span:
    others = openinference_attributes(evaluation, explanation=explanation) if openinference else {}
    started = evaluation.happened_at or evaluation.started_at  # an evaluation of last week's turn belongs to last week
    return Span(
        trace_id=_id(evaluation.subject.trace_id, 16),
        span_id=span_id(evaluation.evaluation_id),
        parent_span_id=_id(evaluation.subject.span_id, 8),
        flags=_REMOTE_PARENT,
        name=SPAN_NAME.format(evaluator=evaluation.evaluator),
        kind=Span.SpanKind.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(started),
        end_time_unix_nano=_nanoseconds(started + (evaluation.ended_at - evaluation.started_at)),
        attributes=_key_values(attributes(evaluation, explanation=explanation) | others),
        links=_links(evaluation, to_target=openinference),
        status=_status(evaluation),
    )


def _links(evaluation: Evaluation, *, to_target: bool) -> list[Span.Link]:
    """Links to the spans of a conversation's turns; with `to_target`, a turn's evaluation gets one to its span."""
    subject = evaluation.subject
    links = subject.links
    if to_target and evaluation.scope == "turn" and subject.trace_id and subject.span_id:
        links = ((subject.trace_id, subject.span_id),)
    pairs = ((_id(trace, 16), _id(span, 8)) for trace, span in links)
    return [Span.Link(trace_id=trace, span_id=span) for trace, span in pairs if trace and span]


def _status(evaluation: Evaluation) -> Status | None:
    if evaluation.error is None:
        return None
    return Status(code=Status.StatusCode.STATUS_CODE_ERROR, message=evaluation.error.message)


def _key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: Value) -> AnyValue:
    """An attribute's value as OTLP has it."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value.encode("utf-8", "replace").decode())
        case tuple():
            return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))


def _id(text: str | None, length: int) -> bytes:
    """The bytes of a hex id; none where it is missing or not of this length."""
    try:
        raw = bytes.fromhex(text or "")
    except ValueError:
        return b""
    return raw if len(raw) == length else b""


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1e6) * 1000  # a datetime knows microseconds


def _scope() -> InstrumentationScope:
    return InstrumentationScope(name=OWN_SCOPE, version=version("evalstream"))


def _resource(service: str) -> Resource:
    return Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service))])
