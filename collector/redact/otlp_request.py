"""Redacts the texts of an OTLP request in place: attributes, events, bodies, status messages and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.otlp.decode import Request, items_of, scopes_of
from collector.otlp.parts import parts_of
from collector.redact.redactor import RedactionFailed, Redactor

_DEEPEST = 64
_TOGETHER = 1 << 18
"""Bytes that wait to be looked over together."""
_Place = tuple[Any, str | int | None]
"""A message and which of its fields, or which of its attributes; None for an attribute itself."""


def redact_request(request: Request, redactor: Redactor) -> None:
    """Redact every text of the request. Ids and times stay; ids of a wrong size and fields that OTLP does not know go.

    Raises:
        RedactionFailed: a text could not be looked through; the request must not be stored.
    """
    RequestRedaction(redactor).redact(request)


class RequestRedaction:
    """The redaction of one request. Its parts are looked over together, but for those that are known to be clean.

    All methods raise RedactionFailed where a text could not be looked through; the request must not be stored then.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.remembering()
        self._clean = self._redactor.clean
        self._waiting: dict[bytes, list[_Place]] = {}
        self._size = 0
        self._clean_names: set[str] = set()

    def redact(self, request: Request) -> None:
        """Redact every text of the request, see `redact_request`."""
        request.DiscardUnknownFields()
        self.surroundings(request)
        for _, scope in scopes_of(request):
            self.add_items(items_of(scope))
        self.finish()

    def surroundings(self, request: Request) -> None:
        """Redact the request's resources and scopes. What OTLP does not know around them stays: nobody writes it."""
        for resource in (
            request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs
        ):
            self._around(resource, resource.resource)
        for _, scope in scopes_of(request):
            self._around(scope, scope.scope, "name", "version")
        self.finish()

    def add_items(self, items: Iterable[Any]) -> None:
        """Spans or log records that are redacted when `finish` is called; fields that OTLP does not know go."""
        for item in items:
            item.DiscardUnknownFields()
            if isinstance(item, LogRecord):
                _right_size(item, "span_id", 8)
                self._parts(item, "event_name", "severity_text", "body")
            else:
                self._span(item)

    def names(self, span: Any) -> None:
        """Redact what a span is called and what its trace carries along; fields that OTLP does not know go."""
        span.DiscardUnknownFields()
        for field in ("name", "trace_state"):
            self._at_once(_FIELD + getattr(span, field).encode(), span, field)

    def pairs(self, pairs: Iterable[KeyValue]) -> None:
        """Redact some attributes of a span."""
        for pair in pairs:
            self._at_once(pair.SerializeToString(), pair, None)

    def _at_once(self, part: bytes, message: Any, what: str | int | None) -> None:
        """Redact a part of a message without waiting for others."""
        if part not in self._clean.known:
            self._look_through({part: [(message, what)]})

    def _around(self, group: Any, about: Any, *texts: str) -> None:
        """What a resource or scope says of all its items."""
        about.DiscardUnknownFields()
        self._text(group, "schema_url")
        if hasattr(about, "entity_refs"):
            del about.entity_refs[:]  # nobody reads them
        self._parts(about, *texts)

    def _span(self, span: Any) -> None:
        parts = self._parts(span, "name", "trace_state")
        if len(parts.span_id) not in _ID_SIZES:
            span.ClearField("span_id")
        if len(parts.parent_span_id) not in _ID_SIZES:
            span.ClearField("parent_span_id")
        if len(parts.status) > _BARE_STATUS:
            self._text(span.status, "message")
        if parts.events:
            for event in span.events:
                self._parts(event, "name")
        if parts.links:
            for link in span.links:
                _right_size(link, "trace_id", 16)
                _right_size(link, "span_id", 8)
                self._parts(link, "trace_state")

    def _parts(self, message: Any, *fields: str) -> Any:
        """The parts of a message; its attributes and some fields wait, unless they are known. A tight loop."""
        parts = parts_of(message)
        clean = self._clean.known
        for number, pair in enumerate(parts.attributes):
            if pair not in clean:  # asked here, too, as a call takes longer
                self._wait(pair, message, number)
        for field in fields:
            text = getattr(parts, field)
            if text and (part := _FIELD + text) not in clean:
                self._wait(part, message, field)
        return parts

    def _text(self, message: Any, field: str) -> None:
        text = getattr(message, field)
        if text:
            self._wait(_FIELD + text.encode(), message, field)

    def _wait(self, part: bytes, message: Any, what: str | int | None) -> None:
        """Let a part of a message wait for others, unless it is known to be clean."""
        if part in self._clean.known:
            return
        places = self._waiting.get(part)
        if places is not None:
            places.append((message, what))
            return
        self._waiting[part] = [(message, what)]
        self._size += len(part)
        if self._size >= _TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Redact what waits."""
        waiting, self._waiting, self._size = self._waiting, {}, 0
        self._look_through(waiting)

    def _look_through(self, places_of: Mapping[bytes, Sequence[_Place]]) -> None:
        """Look over parts of messages together, and through those that may hold something."""
        suspects = self._redactor.suspects_of(places_of)
        for part, places in places_of.items():
            if part not in suspects or not self._redact_all(part, places):
                self._clean.add(part)

    def _redact_all(self, part: bytes, places: Iterable[_Place]) -> bool:
        """Redact a part wherever it is, as what is found counts each time; whether anything was."""
        return all(self._redact_one(message, what) != part for message, what in places)

    def _redact_one(self, message: Any, what: str | int | None) -> bytes:
        if isinstance(what, str):
            value = getattr(message, what)
            if not isinstance(value, str):
                self._any_value(value, _DEEPEST)
                return _FIELD + value.SerializeToString()
            redacted = self._redactor.text(value)
            if redacted != value:
                setattr(message, what, redacted)
            return _FIELD + redacted.encode()
        pair = message if what is None else message.attributes[what]
        self._pair(pair, _DEEPEST)
        return pair.SerializeToString()

    def _pair(self, pair: KeyValue, depth: int) -> None:
        """Redact an attribute, or a field of a value, nested at most so deep."""
        name = pair.key
        if name not in self._clean_names:
            redacted = self._redactor.text(name)
            if redacted == name:
                self._clean_names.add(name)
            else:
                name = pair.key = redacted
        text = pair.value.string_value
        if not text:
            self._any_value(pair.value, depth)
            return
        redacted = self._redactor.named(name, text)
        if redacted != text:
            pair.value.string_value = redacted

    def _any_value(self, value: AnyValue, depth: int) -> None:
        if depth <= 0:
            raise RedactionFailed("nested too deeply to be looked through")
        match value.WhichOneof("value"):
            case "string_value":
                text = self._redactor.text(value.string_value)
                if text != value.string_value:
                    value.string_value = text
            case "int_value":
                number = self._redactor.value(value.int_value)
                if isinstance(number, str):
                    value.string_value = number
            case "bytes_value":
                self._bytes(value)
            case "array_value":
                for each in value.array_value.values:
                    self._any_value(each, depth - 1)
            case "kvlist_value":
                for pair in value.kvlist_value.values:
                    self._pair(pair, depth - 1)
            case _:
                pass

    def _bytes(self, value: AnyValue) -> None:
        """Bytes may be text; those that hold something to take out become what is left of it."""
        text = value.bytes_value.decode("utf-8", "replace")
        redacted = self._redactor.text(text)
        if redacted != text:
            value.bytes_value = redacted.encode()


_FIELD = b"\0"
"""Stands before a part that is no attribute, as none begins with it: what is known of one is not known of the other."""
_ID_SIZES = (0, 8)
_BARE_STATUS = 2
"""Bytes of a status without a message."""


def _right_size(message: Any, name: str, size: int) -> None:
    """An id of another size is no id, but may be a text."""
    if len(getattr(message, name)) not in (0, size):
        message.ClearField(name)
