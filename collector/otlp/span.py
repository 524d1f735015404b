"""The neutral form of OTLP: spans and log records, before any dialect is read.

Named tuples, because one is made for every span that comes in and a frozen dataclass takes five times as long to make.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from evaluators.cases import Json

Attributes = Mapping[str, Json]

NOTHING: Attributes = {}
"""The attributes of what has none."""
SHORT = 128
"""Bytes of an attribute, its name included, that may be remembered: most of a span's were on another span before."""
QUOTED = frozenset(('"[', '"{'))
"""The beginnings of documents that were encoded once too often."""
CLOSING = {"[": "]", "{": "}"}
"""The ends of JSON documents by their beginnings."""


class SpanEvent(NamedTuple):
    """An event on a span. `time` is in nanoseconds since the epoch."""

    name: str
    time: int
    attributes: Attributes


EVENT_NAME = r"\S{1,100}"
"""The form of the application's own event names; some loggers put whole sentences there."""


class Span(NamedTuple):
    """One OTLP span. Ids are lower-case hex, `parent_span_id` None at the root; times in nanoseconds since the epoch.

    `failed` is status code ERROR; `status_message` may be empty even then. `dropped_attributes` and `dropped_events`
    are how many the sender's own limits took away, of events also their attributes. `evidence` is what was found about
    the span's dialects while its bytes were read. `doubtful` are the names of its attributes of more than `SHORT`
    bytes, or of all where a shorter one may be encoded once too often; None if they were not looked for.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start: int
    end: int
    failed: bool = False
    status_message: str = ""
    attributes: Attributes = NOTHING
    events: tuple[SpanEvent, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    scope: str = ""
    resource: Attributes = NOTHING
    trace_state: str = ""
    dropped_attributes: int = 0
    evidence: int = 0
    dropped_events: int = 0
    doubtful: Sequence[str] | None = None


make_span = cast("Callable[[type[Span], tuple[Any, ...]], Span]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - generic
"""Makes a span of all its fields, in a third of the time that its class takes."""


class LogRecord(NamedTuple):
    """One OTLP log record that belongs to a trace. `span_id` is None where it names none.

    `time` is when it happened, or where the sender does not say, when it was observed; nanoseconds since the epoch.
    """

    trace_id: str
    span_id: str | None
    event_name: str
    time: int
    body: Json
    attributes: Attributes = NOTHING
    scope: str = ""
    resource: Attributes = NOTHING
    dropped_attributes: int = 0

    @property
    def kind(self) -> str:
        """The kind of record: its event name; without one, its scope, the class that logged it."""
        return self.event_name or self.scope
