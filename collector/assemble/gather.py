"""From the pieces of a trace, in any order and any number of copies, to its spans and log records in one order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import orjson

from collector.assemble.identity import Identity
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from collector.otlp import Request, Signal, records_of, request_from_protobuf, spans_of
from collector.span import EVENT_NAME, LogRecord, Span


class Piece(NamedTuple):
    """A serialized Export…ServiceRequest that holds nothing but one trace."""

    signal: Signal
    value: bytes


class Noted(NamedTuple):
    """That an event happened which no dialect looks into: when (ns), its name, and at which span ("": none named)."""

    time: int
    name: str
    span_id: str


class Gathered(NamedTuple):
    """The spans of a trace and the log records that dialects ask for, each once, in an order that depends on nothing
    but them. Spans without evidence of a dialect or an identity are there for their place in the tree alone; `noted`
    are the other events of all spans and log records, by time.
    """

    spans: tuple[Span, ...]
    records: tuple[LogRecord, ...]
    noted: tuple[Noted, ...] = ()


def gather(
    pieces: Iterable[Piece], dialects: Dialects, identity: Identity, on_bad: Callable[[BadInput], None]
) -> Gathered | None:
    """Read the pieces of a trace; None if nothing in them has to do with a model.

    A piece that cannot be read is reported to `on_bad` and left out.
    """
    unique: dict[Signal, set[bytes]] = {"traces": set(), "logs": set()}
    for piece in pieces:
        unique[piece.signal].add(piece.value)
    notes = _Notes(dialects)
    records = _records(_requests(unique["logs"], "logs", on_bad), dialects, notes) if unique["logs"] else []
    evidence = _Evidence(dialects, identity, notes)
    spans: list[Span] = []
    for request in _whole(unique["traces"], on_bad):
        spans += spans_of(cast("Any", request), evidence.wanted)
    if not (evidence.seen or records):
        return None
    return Gathered(tuple(_once(spans)), tuple(records), tuple(sorted(notes.found)))


class _Notes:
    """Collects the events that are not content."""

    __slots__ = ("_telling", "found")

    def __init__(self, dialects: Dialects) -> None:
        self.found: set[Noted] = set()
        self._telling = dialects.telling

    def of_span(self, message: Any, names: list[str]) -> None:
        """Look through the events of a span, given with their names; the last of a name stands for all of them."""
        if not self._telling.issuperset(names):
            span_id = message.span_id.hex()
            for name, event in dict(zip(names, message.events, strict=True)).items():
                self.add(event.time_unix_nano, name, span_id)

    def add(self, time: int, name: str, span_id: str) -> None:
        """Note an event if it is one to note."""
        if name not in self._telling and _NAME.fullmatch(name):
            self.found.add(Noted(time, name, span_id))


_NAME = re.compile(EVENT_NAME)


class _Evidence:
    """Decides which spans are decoded, and remembers whether any of them concerns a dialect."""

    __slots__ = ("_dialects", "_identity", "_notes", "seen")

    def __init__(self, dialects: Dialects, identity: Identity, notes: _Notes) -> None:
        self.seen = 0
        self._dialects = dialects
        self._identity = identity
        self._notes = notes

    def wanted(self, keys: list[str], scope: str, message: Any) -> int:
        events = message.events
        names = [event.name for event in events] if events else []
        if names:
            self._notes.of_span(message, names)
        mask = self._dialects.mask(keys, scope, names)
        if mask:
            self.seen |= mask
            return mask << 1
        return int(self._identity.concerns(keys))


def _whole(values: set[bytes], on_bad: Callable[[BadInput], None]) -> Iterable[Request]:
    """All requests as one, since serialized messages one after another are their union; one by one if that fails."""
    if not values:
        return []
    try:
        return [request_from_protobuf(b"".join(sorted(values)) if len(values) > 1 else next(iter(values)), "traces")]
    except BadInput:
        return _requests(values, "traces", on_bad)


def _requests(values: set[bytes], signal: Signal, on_bad: Callable[[BadInput], None]) -> list[Request]:
    requests: list[Request] = []
    for value in sorted(values):
        try:
            requests.append(request_from_protobuf(value, signal))
        except BadInput as error:
            on_bad(error)
    return requests


def _once(spans: Sequence[Span]) -> list[Span]:
    """Each span once, by start. Of several versions of a span the one that ended last and says most is kept."""
    if len(spans) < 2:
        return list(spans)
    by_id: dict[str, Span] = {}
    for span in spans:
        other = by_id.get(span.span_id)
        if other is None or (other != span and _weight(other) < _weight(span)):
            by_id[span.span_id] = span
    return sorted(by_id.values(), key=lambda span: (span.start, span.end, span.span_id))


def _weight(span: Span) -> tuple[int, int, int, bytes]:
    rest = orjson.dumps([span.name, span.attributes, span.status_message], option=orjson.OPT_SORT_KEYS)
    return span.end, len(span.attributes), len(span.events), rest


def _records(requests: Iterable[Request], dialects: Dialects, notes: _Notes) -> list[LogRecord]:
    """The records that dialects ask for, by time; those of one instant stay as their sender put them.

    A record that several requests carry is there as often as in the one that has it most often: a sender may well say
    the same thing twice, but whoever sends a request again says it no more often than before.
    """
    groups: list[list[LogRecord]] = []
    for request in requests:
        group: list[LogRecord] = []
        for record in records_of(cast("Any", request)):
            if record.event_name in dialects.records:
                group.append(record)
            else:
                notes.add(record.time, record.event_name, record.span_id or "")
        if group:
            groups.append(group)
    records = groups[0] if len(groups) == 1 else _without_copies(groups)
    return sorted(records, key=lambda record: record.time)


def _without_copies(groups: list[list[LogRecord]]) -> list[LogRecord]:
    kept: list[LogRecord] = []
    have: Counter[bytes] = Counter()
    for group in groups:
        here: Counter[bytes] = Counter()
        for record in group:
            key = orjson.dumps([*record], option=orjson.OPT_SORT_KEYS)
            here[key] += 1
            if here[key] > have[key]:
                kept.append(record)
        have |= here
    return kept
