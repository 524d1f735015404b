"""OTLP bytes to requests, and requests to spans and log records. Pure; whatever cannot be read raises BadInput.

Protobuf is the one form the rest of the service knows: OTLP/JSON becomes the same messages here (`otlp_json`). Requests
are read as OTLP's own messages, which checks all of their bytes, and taken apart in outline.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from google.protobuf.message import DecodeError, EncodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from collector.errors import BadInput, TooLarge
from collector.otlp import outline
from collector.otlp.json import load_document, message_from_document, without_mark
from collector.otlp.lenient import mend_document, mend_protobuf
from collector.otlp.span import NOTHING, QUOTED, SHORT, Attributes, LogRecord, Span, SpanEvent, make_span
from evaluators.cases import Json

MAX_DEPTH = 64
"""Deepest nesting of arrays and maps in an attribute; what lies deeper is left out."""

_MOST_KNOWN = 20_000
"""Attributes that are remembered."""


def pairs_of(pairs: Sequence[bytes], doubtful: list[str]) -> list[tuple[str, Json]]:
    """Decode the names and values of attributes, each given by its KeyValue's bytes. A tight loop.

    `doubtful` gets the names of those that may be cut or encoded once too often: see `Span.doubtful`.
    """
    try:
        return [_known(pair) if len(pair) <= SHORT else _decode_doubtful(pair, doubtful) for pair in pairs]
    except _QuotedError:
        doubtful.clear()
        return [_decode_doubtful(pair, doubtful) for pair in pairs]


def attributes_of(pairs: Sequence[bytes]) -> dict[str, Json]:
    """Decode attributes, each given by its KeyValue's bytes; if several have one name, the last."""
    return dict(pairs_of(pairs, []))


def _decode_doubtful(pair: bytes, doubtful: list[str]) -> tuple[str, Json]:
    message = KeyValue.FromString(pair)
    name, value = message.key, message.value
    doubtful.append(name)
    return name, value.string_value or any_value(value)


class _QuotedError(Exception):
    """A short attribute may be a document that was encoded once too often; such a one is not remembered."""


@lru_cache(_MOST_KNOWN)
def _known(pair: bytes) -> tuple[str, Json]:
    name, value = _decode_doubtful(pair, [])
    if type(value) is str and value[:2] in QUOTED:
        raise _QuotedError
    return name, value


_SIMPLE = frozenset({"string_value", "int_value", "bool_value"})


def any_value(value: AnyValue, depth: int = MAX_DEPTH) -> Json:
    """Decode one value: text, number, bool, list, dict.

    Bytes become hex; a number that JSON does not have, and nesting below `depth`, become None.
    """
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in _SIMPLE else _other(value, kind, depth)


def _other(value: AnyValue, kind: str | None, depth: int) -> Json:
    if kind == "double_value":
        return value.double_value if isfinite(value.double_value) else None
    if depth <= 0:
        return None
    if kind == "array_value":
        return [any_value(each, depth - 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: any_value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    return value.bytes_value.hex() if kind == "bytes_value" else None


Signal = Literal["traces", "logs"]
Form = Literal["protobuf", "json"]
Request: TypeAlias = ExportTraceServiceRequest | ExportLogsServiceRequest

_SPLIT_BYTES = 16 * 1024**2
_SPLIT_FACTOR = 8
"""The limit on the sum of a request's pieces: so many bytes, or so many times the request's own."""

_ERROR = Status.STATUS_CODE_ERROR


class ReadRequest(NamedTuple):
    """A request, how many of its items could not be read, and why. A `mended` one is not what its bytes say."""

    request: Request
    rejected: int = 0
    reason: str = ""
    mended: bool = False


def request_from_protobuf(data: bytes, signal: Signal, max_items: int | None = None) -> Request:
    """Read an Export…ServiceRequest; a TracesData or LogsData message is the same bytes.

    Raises:
        TooLarge: it holds more than `max_items` spans or log records.
        BadInput: these are not such bytes.
    """
    if max_items is not None and outline.has_more_items_than(data, max_items):
        raise _too_many(max_items, signal)
    try:
        return _TYPES[signal].FromString(data)
    except DecodeError:
        remedy = "; this is JSON, whose content type is application/json" if data.lstrip()[:1] == b"{" else ""
        raise BadInput(f"not an OTLP protobuf request of {signal}{remedy}") from None


_TYPES: dict[Signal, type[Request]] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}

_KEYS = {"traces": {"resourceSpans", "resource_spans"}, "logs": {"resourceLogs", "resource_logs"}}
"""The key that a request has in JSON, as the specification writes it, and in snake_case. An empty request has none."""


def read_request(data: bytes, signal: Signal) -> Request:
    """Read a request as `read_mended` does."""
    return read_mended(data, signal).request


def read_mended(data: bytes, signal: Signal, max_items: int | None = None, *, form: Form | None = None) -> ReadRequest:
    """Read a request; items that cannot be read are left out. Without a form the first byte tells it: `{` is JSON.

    A protobuf request may begin so too: with a line feed, the tag of its first field, and a length of 123.

    Raises:
        TooLarge: it holds more than `max_items` spans or log records.
        BadInput: it is neither, or no item of it can be read.
    """
    data = without_mark(data) if form != "protobuf" else data
    if form == "protobuf" or (form is None and data.lstrip()[:1] != b"{"):
        return _from_protobuf(data, signal, max_items)
    try:
        return _from_json(data, signal, max_items)
    except TooLarge:
        raise
    except BadInput:
        if form == "json" or not data.startswith(_REQUEST):
            raise
        return _from_protobuf(data, signal, max_items)


def _from_protobuf(data: bytes, signal: Signal, max_items: int | None) -> ReadRequest:
    try:
        return ReadRequest(request_from_protobuf(data, signal, max_items))
    except TooLarge:
        raise
    except BadInput:
        mended = mend_protobuf(data, _TYPES[signal].DESCRIPTOR)
        if mended is None:
            raise
        return ReadRequest(request_from_protobuf(mended.request, signal), mended.rejected, mended.reason, True)


def _from_json(data: bytes, signal: Signal, max_items: int | None) -> ReadRequest:
    if max_items is not None and outline.has_more_objects_than(data, max_items):
        raise _too_many(max_items, signal)
    document = load_document(data)
    if max_items is not None and outline.items_in(document) > max_items:
        raise _too_many(max_items, signal)
    _require_key(document, signal)
    read = partial(message_from_document, message=_TYPES[signal])
    try:
        return ReadRequest(read(document))
    except BadInput:
        mended = mend_document(document, read)
        if mended is None:
            raise
        return ReadRequest(read(mended.request), mended.rejected, mended.reason, True)


def _require_key(document: object, signal: Signal) -> None:
    """An empty document is a request without items; one with other keys alone is none."""
    keys = set(cast("dict[str, object]", document)) if isinstance(document, dict) else set[str]()
    if keys and keys.isdisjoint(_KEYS[signal]):
        where = "; finished turns go into a file of receive.files, or a topic of receive.kafka"
        spans = signal == "traces"
        key = "resourceSpans" if spans else "resourceLogs"
        raise BadInput(f"not an OTLP request of {signal}: it has no {key}{where if spans else ''}")


def _too_many(limit: int, signal: Signal) -> TooLarge:
    return TooLarge(f"the request holds more than {limit} {'spans' if signal == 'traces' else 'log records'}")


def read_outline(data: bytes, signal: Signal) -> outline.Outline:
    """Read an Export…ServiceRequest in outline.

    Raises:
        BadInput: these are not such bytes.
    """
    request_from_protobuf(data, signal)  # an outline has attributes that were not read yet
    return outline.outline_of(data, signal)


def outlined(request: Request, *, known_fields_only: bool = False) -> outline.Outline:
    """A request in outline; with `known_fields_only` without fields that OTLP does not have; they are removed from the
    request, too.

    Raises:
        BadInput: it cannot be written.
    """
    if known_fields_only:
        request.DiscardUnknownFields()
    try:
        encoded = request.SerializeToString()
    except (EncodeError, ValueError):
        raise BadInput("the request is nested too deeply") from None
    return outline.outline_of(encoded, "traces" if isinstance(request, ExportTraceServiceRequest) else "logs")


class Split(NamedTuple):
    """A request cut up by trace.

    `pieces` are (trace id in hex, serialized request), `without_trace` how many items name no trace, and are in no
    piece.
    """

    pieces: list[tuple[str, bytes]]
    items: int
    without_trace: int


Part = tuple[Any, Any, Sequence[Any]]
"""A resource, a scope of it, and some of the scope's items: a list, or a repeated field of protobuf, which is none."""


def group_by_trace(request: Request | outline.Outline) -> dict[bytes, list[Part]]:
    """The parts of a request by trace id, in order of appearance; under b"" are the items that name no trace."""
    groups: dict[bytes, list[Part]] = {}
    for resource, scope in scopes_of(request):
        by_trace: dict[bytes, list[Any]] = {}
        for item in items_of(scope):
            by_trace.setdefault(item.trace_id, []).append(item)
        for trace_id, some in by_trace.items():
            groups.setdefault(trace_id, []).append((resource, scope, some))
    return groups


def split_by_trace(request: Request | outline.Outline, encoded: bytes | None = None) -> Split:
    """Cut a request into one serialized request per trace, in order of appearance.

    `encoded` is the request's own protobuf encoding, if there is one: the one of a request with a single trace is used
    again unchanged.

    Raises:
        TooLarge: the pieces come to much more than the request.
        BadInput: a piece cannot be serialized.
    """
    named = group_by_trace(request)
    items = sum(map(count_items, named.values()))
    without = count_items(named.pop(b"", ()))
    if encoded is not None and len(named) == 1 and not without:
        return Split([(next(iter(named)).hex(), encoded)], items, 0)
    writer = PieceWriter(request)
    return Split([(trace_id.hex(), writer.piece(parts)) for trace_id, parts in named.items()], items, without)


def count_items(parts: Iterable[Part]) -> int:
    """How many spans or log records these parts have."""
    number = 0
    for _, _, items in parts:
        number += len(items)
    return number


class PieceWriter:
    """Writes parts of a request as requests of their own. Each repeats its resource, so many may hold a large one.

    Puts them together from serialized messages, since copying each message into a new request takes twice as long. The
    numbers of the fields are the same for spans and for log records.
    """

    def __init__(self, request: Request | outline.Outline) -> None:
        self._request = request
        self._around: dict[int, tuple[bytes, bytes]] = {}  # by the identity of the resource or scope
        self._total, self._most = 0, _SPLIT_BYTES

    def piece(self, parts: Iterable[Part]) -> bytes:
        """A serialized request that holds these parts; resources and scopes stay as they were in the first piece.

        Raises:
            TooLarge: the pieces so far come to much more than the request.
            BadInput: it cannot be serialized.
        """
        try:
            piece = self._write(parts)
        except (EncodeError, ValueError):
            raise BadInput("the request is nested too deeply") from None
        self._total += len(piece)
        if self._total > self._most:  # only then is the request's size asked for, which takes as long as to write it
            self._most = max(_SPLIT_BYTES, _SPLIT_FACTOR * self._request.ByteSize())
        if self._total > self._most:
            raise TooLarge(
                f"the request's traces, each with its resource, come to more than {self._most >> 20} MiB; "
                "send fewer traces in one request or shorter resource attributes"
            )
        return piece

    def _write(self, parts: Iterable[Part]) -> bytes:
        resources: dict[int, tuple[Any, list[bytes]]] = {}
        for resource, scope, items in parts:
            inner = b"".join([field_bytes(_MEMBER, item.SerializeToString()) for item in items])
            scopes = resources.setdefault(id(resource), (resource, []))[1]
            scopes.append(self._wrapped(_MEMBER, scope, scope.scope, inner))
        return b"".join(
            [self._wrapped(_REQUEST, each, each.resource, b"".join(scopes)) for each, scopes in resources.values()]
        )

    def _wrapped(self, tag: bytes, holder: Any, about: Any, inner: bytes) -> bytes:
        around = self._around.get(id(holder))
        if around is None:
            url = field_bytes(_SCHEMA_URL, holder.schema_url.encode()) if holder.schema_url else b""
            around = self._around[id(holder)] = (field_bytes(_ABOUT, about.SerializeToString()), url)
        return field_bytes(tag, around[0] + inner + around[1])


_REQUEST = _ABOUT = b"\x0a"  # field 1: a request's resources; the resource or scope that items belong to
_MEMBER = b"\x12"  # field 2: a resource's scopes, a scope's items
_SCHEMA_URL = b"\x1a"  # field 3


def field_bytes(tag: bytes, content: bytes) -> bytes:
    """Write a field of protobuf that holds bytes: its tag, their number seven bits at a time, and they themselves."""
    return tag + _write_number(len(content)) + content


@lru_cache(_MOST_KNOWN)
def _write_number(number: int) -> bytes:
    return _BYTES[number & 0x7F | 0x80] + _write_number(number >> 7) if number > 0x7F else _BYTES[number]


_BYTES = [bytes((value,)) for value in range(256)]


def scopes_of(request: Any) -> Iterator[tuple[Any, Any]]:
    """The (resource, scope) pairs of a request."""
    if hasattr(request, "resource_spans"):
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                yield resource, scope
    else:
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                yield resource, scope


def items_of(scope: Any) -> Sequence[Any]:
    """The spans or log records of a scope."""
    return scope.spans if hasattr(scope, "spans") else scope.log_records


Wanted = Callable[[Collection[str], str, outline.Outline], int]
"""Whether a span's attributes are worth decoding, by its attribute names, its scope's name and its outline.

0 means no; another number is kept with the span as its `evidence`.
"""


def spans_of(request: outline.Outline, wanted: Wanted | None = None) -> list[Span]:
    """The spans of a request in outline; those not `wanted` come without attributes and events."""
    return decode_examined(examine_spans(span_parts(request), wanted))


def span_parts(request: outline.Outline) -> list[Part]:
    """The parts of a request with spans, all of them."""
    return [(resource, scope, scope.spans) for resource in request.resource_spans for scope in resource.scope_spans]


ExaminedSpan: TypeAlias = tuple[outline.Outline, Attributes, Sequence[str], int | None]
"""A span with its decoded attributes, the doubtful ones' names, and the answer of `Wanted`, if it was asked.

A bare tuple, as it is made for every span."""


class ExaminedScope(NamedTuple):
    """The spans of a scope, its name, and their resource."""

    resource: outline.Outline
    name: str
    spans: list[ExaminedSpan]


def examine_spans(
    parts: Iterable[Part], wanted: Wanted | None = None, silent: set[bytes] | None = None
) -> list[ExaminedScope]:
    """Ask of each span whether it is wanted, before more of it is read: most traces have none that is.

    `silent` are attributes of earlier spans that were not wanted; it gets several, as the answer for one does not
    depend on the others.
    """
    scopes: list[ExaminedScope] = []
    for resource, scope, items in parts:
        name = scope.scope.name
        spans: list[ExaminedSpan] = []
        for span in items:
            pairs: list[bytes] = span.attributes[:]  # each is made and hashed once
            if silent and wanted and pairs and pairs[0] in silent:  # one that is wanted begins with what says so
                others = [KeyValue.FromString(pair).key for pair in pairs if pair not in silent]
                if not wanted(others, name, span):
                    spans.append((span, NOTHING, (), 0))
                    continue
            doubtful: list[str] = []
            attributes = dict(pairs_of(pairs, doubtful))
            evidence = wanted(attributes, name, span) if wanted else None
            spans.append((span, attributes, doubtful, evidence))
            if evidence == 0 and silent is not None:
                if len(silent) >= _MOST_KNOWN:
                    silent.clear()
                silent.update([pair for pair in pairs if len(pair) <= SHORT])
        scopes.append(ExaminedScope(resource.resource, name, spans))
    return scopes


def decode_examined(scopes: Iterable[ExaminedScope]) -> list[Span]:
    """The spans of scopes; those not wanted come without attributes and events."""
    spans: list[Span] = []
    for scope in scopes:
        about = resource_of(scope.resource)
        spans += [decode_span(span, scope.name, about) for span in scope.spans]
    return spans


def resource_of(resource: outline.Outline) -> Attributes:
    """The attributes of a resource in outline."""
    if not resource.attributes:
        return NOTHING
    encoded = resource.SerializeToString()
    return _decode_resource(encoded) if len(encoded) <= _LONGEST_RESOURCE else attributes_of(resource.attributes)


_LONGEST_RESOURCE = 16_384
"""Bytes of a resource that is remembered."""


@lru_cache(256)
def _decode_resource(encoded: bytes) -> Attributes:
    """The attributes of a resource, decoded once: a process sends the same one with each request."""
    return attributes_of(outline.resource_attributes(encoded))


def decode_span(examined: ExaminedSpan, scope: str, resource: Attributes) -> Span:
    """A span of a scope of this name; one that is not wanted comes without attributes and events."""
    span, attributes, doubtful, evidence = examined
    wanted = evidence is None or evidence > 0
    status, events, links, dropped_events = span.status, span.events, span.links, span.dropped_events_count
    if events:
        dropped_events += sum([event.dropped_attributes_count for event in events])
    fields = (
        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex() or None,
        span.name, span.start_time_unix_nano, span.end_time_unix_nano, status.code == _ERROR, status.message,
        attributes if wanted else NOTHING,
        _events(span) if wanted and events else (),
        tuple([(link.trace_id.hex(), link.span_id.hex()) for link in links]) if links else (),
        scope, resource, span.trace_state, span.dropped_attributes_count,
        evidence or 0, dropped_events, doubtful if wanted else (),
    )  # fmt: skip
    return make_span(Span, fields)


def _events(span: outline.Outline) -> tuple[SpanEvent, ...]:
    return tuple(SpanEvent(event.name, event.time_unix_nano, attributes_of(event.attributes)) for event in span.events)


def records_of(request: outline.Outline) -> list[LogRecord]:
    """The log records of a request in outline that belong to a trace."""
    records: list[LogRecord] = []
    for resource, scope in scopes_of(request):
        name = scope.scope.name
        about = resource_of(resource.resource)
        records.extend(_record(log_record, name, about) for log_record in scope.log_records if log_record.trace_id)
    return records


_PLACE = "event "
"""Begins the names that Rust's tracing gives events: their place in the source, which moves with each release."""


def _record(record: outline.Outline, scope: str, resource: Attributes) -> LogRecord:
    attributes = attributes_of(record.attributes)
    name = record.event_name
    if not name or name.startswith(_PLACE):
        name = attributes.get("event.name") or attributes.get("event_name") or name
    return LogRecord(
        record.trace_id.hex(),
        record.span_id.hex() or None,
        name if isinstance(name, str) else "",
        record.time_unix_nano or record.observed_time_unix_nano,
        any_value(AnyValue.FromString(record.body)),
        attributes,
        scope,
        resource,
        record.dropped_attributes_count,
    )
