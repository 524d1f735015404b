"""Redacts the texts of an OTLP request in outline: attributes, events, bodies, status messages and names, in place."""

from collections.abc import Iterable, Sequence

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.otlp.decode import items_of, scopes_of
from collector.otlp.outline import Outline
from collector.redact.redactor import RedactionFailed, Redactor

_DEEPEST = 64
_TOGETHER = 1 << 18
"""Bytes that wait to be looked over together."""
_Place = tuple[Outline, str | int]
"""A message and which of its fields, or which of its attributes."""


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

    def redact(self, request: Outline) -> None:
        """Redact every text of the request. Ids and times stay; ids of a wrong size go.

        The request has no fields that OTLP does not know: see `outlined`.
        """
        self.surroundings(request)
        for _, scope in scopes_of(request):
            self.add_items(items_of(scope))
        self.finish()

    def surroundings(self, request: Outline) -> None:
        """Resources and scopes of the request, that are redacted when `finish` is called."""
        are_spans = hasattr(request, "resource_spans")
        for resource in request.resource_spans if are_spans else request.resource_logs:
            self._around(resource, resource.resource)
            for scope in resource.scope_spans if are_spans else resource.scope_logs:
                self._around(scope, scope.scope, "name", "version")

    def add_items(self, items: Iterable[Outline]) -> None:
        """Spans or log records, not both, that are redacted when `finish` is called."""
        is_log_record: bool | None = None
        for item in items:
            if is_log_record is None:  # asked once, as it takes long where the answer is no
                is_log_record = hasattr(item, "body")
            if is_log_record:
                _right_size(item, "span_id", 8)
                self._parts(item, "event_name", "severity_text", "body")
            else:
                self._span(item)

    def _around(self, group: Outline, about: Outline, *texts: str) -> None:
        """The attributes that a resource or scope gives to all its items."""
        self._texts(group, "schema_url")
        if hasattr(about, "entity_refs"):
            del about.entity_refs[:]  # they are never read
        self._parts(about, *texts)

    def _span(self, span: Outline) -> None:
        self._parts(span, "name", "trace_state")
        if len(span.span_id) not in _ID_SIZES:
            span.ClearField("span_id")
        if len(span.parent_span_id) not in _ID_SIZES:
            span.ClearField("parent_span_id")
        if span.HasField("status"):
            self._texts(span.status, "message")
        for event in span.events:
            self._parts(event, "name")
        for link in span.links:
            _right_size(link, "trace_id", 16)
            _right_size(link, "span_id", 8)
            self._parts(link, "trace_state")

    def _parts(self, message: Outline, *fields: str) -> None:
        """The parts of a message; its attributes and some fields wait, unless they are known. A tight loop."""
        clean = self._clean.known
        for number, pair in enumerate(message.attributes[:]):  # a list: protobuf's own is walked in half again the time
            if pair not in clean:  # asked here, too, as a call takes longer
                self._wait(pair, message, number)
        self._texts(message, *fields)

    def _texts(self, message: Outline, *fields: str) -> None:
        for field in fields:
            if text := getattr(message, field):
                part = _FIELD + (text if isinstance(text, bytes) else text.encode())
                if part not in self._clean.known:
                    self._wait(part, message, field)

    def _wait(self, part: bytes, message: Outline, what: str | int) -> None:
        """Let a part of a message wait for others."""
        places = self._waiting.get(part)
        if places is not None:
            places.append((message, what))
            return
        self._waiting[part] = [(message, what)]
        self._size += len(part)
        if self._size >= _TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Redact what waits: look over all parts together, and through those that may hold something."""
        places_of, self._waiting, self._size = self._waiting, {}, 0
        suspects = self._redactor.suspects_of(places_of)
        if suspects:
            suspects = {part for part in places_of if part in suspects and self._redact_all(part, places_of[part])}
        self._clean.update([part for part in places_of if part not in suspects] if suspects else places_of)

    def _redact_all(self, part: bytes, places: Sequence[_Place]) -> bool:
        """Redact a part wherever it is; whether anything was. Attributes that are alike are looked through once."""
        message, what = places[0]
        if not isinstance(what, int):
            return all(self._redact_one(message, what) != part for message, what in places)
        self._redactor.times = len(places)
        redacted = self._redact_one(message, what)
        self._redactor.times = 1
        if redacted != part:
            for message, what in places[1:]:
                message.attributes[what] = redacted
        return redacted != part

    def _redact_one(self, message: Outline, what: str | int) -> bytes:
        if isinstance(what, int):
            part = message.attributes[what]
            redacted = self._pair_bytes(part)
            if redacted != part:
                message.attributes[what] = redacted
            return redacted
        value = getattr(message, what)
        if isinstance(value, bytes):
            redacted = self._value_bytes(value)
            if redacted != value:
                setattr(message, what, redacted)
            return _FIELD + redacted
        text = self._redactor.text(value)
        if text != value:
            setattr(message, what, text)
        return _FIELD + text.encode()

    def _pair_bytes(self, pair: bytes) -> bytes:
        message = KeyValue.FromString(pair)
        self._pair(message, _DEEPEST)
        return message.SerializeToString()

    def _value_bytes(self, value: bytes) -> bytes:
        message = AnyValue.FromString(value)
        self._any_value(message, _DEEPEST)
        return message.SerializeToString()

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
                for any_value in value.array_value.values:
                    self._any_value(any_value, depth - 1)
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
"""Stands before a part that is no attribute, as none begins with it: a fact about one says nothing about the other."""
_ID_SIZES = (0, 8)


def _right_size(message: Outline, name: str, size: int) -> None:
    """An id of another size is no id, but may be a text."""
    if len(getattr(message, name)) not in (0, size):
        message.ClearField(name)
