"""Records of the log in which the spans of turns and their evaluations meet: both have the trace as their key.

A span goes into it before its turn goes into the turns log, so the turn's span precedes its evaluations.
"""

from collections.abc import Collection, Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from collector.errors import BadInput
from collector.logs.log import Headers, Record
from collector.otlp.decode import request_from_protobuf
from collector.records.json import evaluation_to_json
from collector.records.tenants import trace_key
from evaluators.results import Evaluation

SPAN: Headers = (("kind", b"span"),)
"""The headers of a span: the value is an OTLP request with this span alone, and its resource and scope."""
EVALUATION: Headers = (("kind", b"evaluation"),)
"""The headers of an evaluation: the value is its JSON."""


def span_records(key: bytes, pieces: Iterable[bytes], span_ids: Collection[str]) -> list[Record]:
    """The records of some spans of a trace, given the requests that it came in; unreadable ones are left out.

    If a span has several versions, the version that ended last with the most content is taken, as for its turn.
    """
    best: dict[str, tuple[tuple[int, int, int, bytes], ExportTraceServiceRequest]] = {}
    for piece in pieces:
        for span_id, span, request in _spans(piece, span_ids):
            rank = (span.end_time_unix_nano, len(span.attributes), len(span.events), span.SerializeToString())
            if span_id not in best or best[span_id][0] < rank:
                best[span_id] = rank, request
    return [Record(key, request.SerializeToString(), SPAN) for _, request in best.values()]


def _spans(piece: bytes, span_ids: Collection[str]) -> Iterable[tuple[str, Span, ExportTraceServiceRequest]]:
    """The spans of a request that have these ids, each with a request of its own."""
    try:
        request = request_from_protobuf(piece, "traces")
    except BadInput:
        return
    assert isinstance(request, ExportTraceServiceRequest)
    for about in request.resource_spans:
        for scope in about.scope_spans:
            for span in scope.spans:
                if (span_id := span.span_id.hex()) in span_ids:
                    inner = ScopeSpans(scope=scope.scope, schema_url=scope.schema_url, spans=[span])
                    outer = ResourceSpans(resource=about.resource, schema_url=about.schema_url, scope_spans=[inner])
                    yield span_id, span, ExportTraceServiceRequest(resource_spans=[outer])


def evaluation_record(evaluation: Evaluation) -> Record | None:
    """The record of an evaluation; None if it names no span, as with ready-made turns."""
    subject = evaluation.subject
    if not subject.trace_id or not subject.span_id:
        return None
    tenant = evaluation.attributes.get("tenant")
    key = trace_key(subject.trace_id, tenant if isinstance(tenant, str) else "")
    return Record(key, evaluation_to_json(evaluation), EVALUATION)
