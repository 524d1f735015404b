"""Redacts the texts of an OTLP request in place: attributes, events, bodies, status messages and names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.otlp.decode import Request
from collector.redact.patterns import names_secret
from collector.redact.redactor import RedactionFailed, Redactor

_DEEPEST = 64


def redact_request(request: Request, redactor: Redactor) -> None:
    """Redact every text of the request. Ids and times stay; ids of a wrong size and fields that OTLP does not know go.

    Raises:
        RedactionFailed: a text could not be looked through; the request must not be stored.
    """
    request.DiscardUnknownFields()
    walk = _Walk(redactor)
    if isinstance(request, ExportTraceServiceRequest):
        for resource in request.resource_spans:
            walk.around(resource, resource.resource)
            for scope in resource.scope_spans:
                walk.around(scope, scope.scope)
                walk.name(scope.scope, "name")
                walk.name(scope.scope, "version")
                for span in scope.spans:
                    _sizes(span)
                    if not redactor.message_has_no_pii(span):
                        walk.span(span)
    else:
        for source in request.resource_logs:
            walk.around(source, source.resource)
            for logger in source.scope_logs:
                walk.around(logger, logger.scope)
                walk.name(logger.scope, "name")
                walk.name(logger.scope, "version")
                for record in logger.log_records:
                    _right_size(record, "span_id", 8)
                    if redactor.message_has_no_pii(record):
                        continue
                    walk.name(record, "event_name")
                    walk.name(record, "severity_text")
                    walk.any_value(record.body, _DEEPEST)
                    walk.pairs(record.attributes, _DEEPEST)


def redact_pairs(pairs: Iterable[KeyValue], redactor: Redactor) -> None:
    """Redact some attributes of a span, as `redact_request` does.

    Raises:
        RedactionFailed: a text could not be looked through; the request must not be stored.
    """
    _Walk(redactor).pairs(pairs, _DEEPEST)


class _Walk:
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._clean: set[str] = {""}

    def around(self, group: Any, about: Any) -> None:
        """What a resource or scope says of all its items."""
        self.name(group, "schema_url")
        if hasattr(about, "entity_refs"):
            del about.entity_refs[:]  # nobody reads them
        self.pairs(about.attributes, _DEEPEST)

    def span(self, span: Any) -> None:
        self.pairs(span.attributes, _DEEPEST)
        self.name(span, "name")
        self.name(span, "trace_state")
        if span.status.message:
            self.field(span.status, "message")
        for event in span.events:
            self.name(event, "name")
            self.pairs(event.attributes, _DEEPEST)
        for link in span.links:
            self.name(link, "trace_state")
            self.pairs(link.attributes, _DEEPEST)

    def name(self, message: Any, field: str) -> None:
        """Redact a text that comes again and again: an attribute's name, a scope's."""
        text = getattr(message, field)
        if text not in self._clean:
            self.field(message, field)
            self._clean.add(getattr(message, field))

    def field(self, message: Any, name: str) -> None:
        text = getattr(message, name)
        redacted = self._redactor.text(text)
        if redacted != text:
            setattr(message, name, redacted)

    def pairs(self, pairs: Iterable[KeyValue], depth: int) -> None:
        for pair in pairs:
            if pair.key not in self._clean:
                self.name(pair, "key")
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
                self.any_value(value, depth)

    def any_value(self, value: AnyValue, depth: int) -> None:
        if depth <= 0:
            raise RedactionFailed("nested too deeply to be looked through")
        match value.WhichOneof("value"):
            case "string_value":
                self.field(value, "string_value")
            case "int_value":
                redacted = self._redactor.value(value.int_value)
                if isinstance(redacted, str):
                    value.string_value = redacted
            case "bytes_value":
                self._bytes(value)
            case "array_value":
                for each in value.array_value.values:
                    self.any_value(each, depth - 1)
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
