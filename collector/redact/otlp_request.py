"""Redacts the texts of an OTLP request in place: attributes, events, bodies, status messages and names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.otlp.decode import Request, items_of, scopes_of
from collector.redact.patterns import names_secret
from collector.redact.redactor import RedactionFailed, Redactor

_DEEPEST = 64
_FEW = 2
"""Attributes of a span that are looked at one by one."""


def redact_request(request: Request, redactor: Redactor) -> None:
    """Redact every text of the request. Ids and times stay; ids of a wrong size and fields that OTLP does not know go.

    Raises:
        RedactionFailed: a text could not be looked through; the request must not be stored.
    """
    RequestRedaction(redactor).redact(request)


class RequestRedaction:
    """The redaction of one request. It remembers which texts of it are clean: most come again in the next span.

    All methods raise RedactionFailed where a text could not be looked through; the request must not be stored then.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.remembering()
        self._clean: set[str] = {""}

    def redact(self, request: Request) -> None:
        """Redact every text of the request, see `redact_request`."""
        request.DiscardUnknownFields()
        self.surroundings(request)
        for _, scope in scopes_of(request):
            self.items(items_of(scope))

    def surroundings(self, request: Request) -> None:
        """Redact the request's resources and scopes. What OTLP does not know around them stays: nobody writes it."""
        for resource in (
            request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs
        ):
            self._around(resource, resource.resource)
        for _, scope in scopes_of(request):
            self._around(scope, scope.scope)
            self._name(scope.scope, "name")
            self._name(scope.scope, "version")

    def items(self, items: Iterable[Any]) -> None:
        """Redact spans or log records; fields that OTLP does not know go."""
        for item in items:
            item.DiscardUnknownFields()
            if isinstance(item, LogRecord):
                self._record(item)
            else:
                _sizes(item)
                if _is_small(item) or not self._redactor.message_has_no_pii(item):
                    self._span(item)

    def names(self, span: Any) -> None:
        """Redact what a span is called and what its trace carries along; fields that OTLP does not know go."""
        span.DiscardUnknownFields()
        self._name(span, "name")
        self._name(span, "trace_state")

    def _record(self, record: LogRecord) -> None:
        _right_size(record, "span_id", 8)
        if self._redactor.message_has_no_pii(record):
            return
        self._name(record, "event_name")
        self._name(record, "severity_text")
        self._any_value(record.body, _DEEPEST)
        self.pairs(record.attributes)

    def _around(self, group: Any, about: Any) -> None:
        """What a resource or scope says of all its items."""
        about.DiscardUnknownFields()
        self._name(group, "schema_url")
        if hasattr(about, "entity_refs"):
            del about.entity_refs[:]  # nobody reads them
        self.pairs(about.attributes)

    def _span(self, span: Any) -> None:
        self.pairs(span.attributes)
        self._name(span, "name")
        self._name(span, "trace_state")
        if span.status.message:
            self._field(span.status, "message")
        for event in span.events:
            self._name(event, "name")
            self.pairs(event.attributes)
        for link in span.links:
            self._name(link, "trace_state")
            self.pairs(link.attributes)

    def _name(self, message: Any, field: str) -> None:
        """Redact a text that comes again and again: an attribute's name, a scope's."""
        text = getattr(message, field)
        if text not in self._clean:
            self._field(message, field)
            self._clean.add(getattr(message, field))

    def _field(self, message: Any, name: str) -> None:
        text = getattr(message, name)
        redacted = self._redactor.text(text)
        if redacted != text:
            setattr(message, name, redacted)

    def pairs(self, pairs: Iterable[KeyValue], depth: int = _DEEPEST) -> None:
        """Redact some attributes of a span or record, or the fields of a value, nested at most so deep."""
        for pair in pairs:
            if pair.key not in self._clean:
                self._name(pair, "key")
            value = pair.value
            text = value.string_value
            if text:
                if text in self._clean and not names_secret(pair.key):
                    continue
                redacted = self._redactor.named(pair.key, text)
                if redacted != text:
                    value.string_value = redacted
                else:
                    self._clean.add(text)
            elif not value.HasField("bool_value"):
                self._any_value(value, depth)

    def _any_value(self, value: AnyValue, depth: int) -> None:
        if depth <= 0:
            raise RedactionFailed("nested too deeply to be looked through")
        match value.WhichOneof("value"):
            case "string_value":
                self._field(value, "string_value")
            case "int_value":
                redacted = self._redactor.value(value.int_value)
                if isinstance(redacted, str):
                    value.string_value = redacted
            case "bytes_value":
                self._bytes(value)
            case "array_value":
                for each in value.array_value.values:
                    self._any_value(each, depth - 1)
            case "kvlist_value":
                self.pairs(value.kvlist_value.values, depth - 1)
            case _:
                pass

    def _bytes(self, value: AnyValue) -> None:
        """Bytes may be text; those that hold something to take out become what is left of it."""
        text = value.bytes_value.decode("utf-8", "replace")
        redacted = self._redactor.text(text)
        if redacted != text:
            value.bytes_value = redacted.encode()


def _is_small(span: Any) -> bool:
    """Whether to look at its few fields takes less than to write it: they are remembered, its bytes are not."""
    return len(span.attributes) <= _FEW and not (span.events or span.links)


def _sizes(span: Any) -> None:
    """See to the size of a span's ids."""
    _right_size(span, "span_id", 8)
    _right_size(span, "parent_span_id", 8)
    for link in span.links:
        _right_size(link, "trace_id", 16)
        _right_size(link, "span_id", 8)


def _right_size(message: Any, name: str, size: int) -> None:
    """An id of another size is no id, but may be a text."""
    if len(getattr(message, name)) not in (0, size):
        message.ClearField(name)
