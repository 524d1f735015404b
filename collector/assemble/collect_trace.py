"""The spans and log records of a trace, collected from its pieces, which come in any order and number of copies."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import orjson
from google.protobuf.message import DecodeError

from collector.assemble.identity import IdentityLookup
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from collector.otlp import decode
from collector.otlp.outline import Outline, outline_of
from collector.otlp.span import EVENT_NAME, LogRecord, Span

UNREAD = "none"
"""Stands for the dialect's name in spans that no dialect has read."""


class TracePiece(NamedTuple):
    """A serialized Export…ServiceRequest with parts of one trace only, and the number of its record, if it has one."""

    signal: decode.Signal
    value: bytes
    number: int = -1


class ApplicationEvent(NamedTuple):
    """An event that no dialect reads: its time (ns), its name, and its span's id ("" if it names none)."""

    time: int
    name: str
    span_id: str


class CollectedTrace(NamedTuple):
    """The spans of a trace and the log records that dialects read, each once, in an order that follows from their
    content.

    Spans without evidence of a dialect, an identity or a declared attribute have no attributes here: they only
    complete the tree. `events`
    are the other events of all spans and log records, by time.
    """

    spans: tuple[Span, ...]
    records: tuple[LogRecord, ...]
    events: tuple[ApplicationEvent, ...] = ()


def collect_trace(
    pieces: Iterable[TracePiece],
    dialects: Dialects,
    identity: IdentityLookup,
    on_bad: Callable[[BadInput], None],
    names: frozenset[str] = frozenset(),
    on_unknown: Callable[[int], None] = lambda _number: None,
) -> CollectedTrace | None:
    """Collect the pieces of a trace; None if nothing in them concerns a model.

    A piece that cannot be read is reported to `on_bad` and left out. `names` are attributes that are read on any span:
    the application's own, and references. `on_unknown` is given the number of spans where
    none concerns a model.
    """
    pieces = tuple(pieces)
    try:
        return _collect(pieces, dialects, identity, names, on_unknown)
    except DecodeError:  # pieces were checked when they came, and checking one again takes as long as reading it
        readable = tuple(piece for piece in pieces if _is_readable(piece, on_bad))
        return _collect(readable, dialects, identity, names, on_unknown)


def collect_parts(parts: Iterable[decode.Part], dialects: Dialects, identity: IdentityLookup) -> CollectedTrace | None:
    """Collect a request's parts with spans of one trace, without declared attributes; None if no dialect reads any."""
    findings = _Findings(dialects, identity)
    examined = decode.examine_spans(parts, findings.find_evidence, findings.silent)
    if not findings.matched:
        return None
    return CollectedTrace(tuple(deduplicate_spans(decode.decode_examined(examined))), ())


def _is_readable(piece: TracePiece, on_bad: Callable[[BadInput], None]) -> bool:
    try:
        decode.request_from_protobuf(piece.value, piece.signal)
    except BadInput as error:
        on_bad(error)
        return False
    return True


def _collect(
    pieces: Sequence[TracePiece],
    dialects: Dialects,
    identity: IdentityLookup,
    names: frozenset[str],
    on_unknown: Callable[[int], None],
) -> CollectedTrace | None:
    """Collect pieces; raises DecodeError where one of them cannot be read."""
    logs, traces = set[bytes](), set[bytes]()
    for piece in pieces:
        (logs if piece.signal == "logs" else traces).add(piece.value)
    findings = _Findings(dialects, identity, names)
    # sorted: in an order that does not depend on when they came
    records = _collect_records([outline_of(log, "logs") for log in sorted(logs)], dialects, findings) if logs else []
    examined: list[decode.ExaminedScope] = []
    if traces:  # all at once: concatenated messages are their union, and one parse is much cheaper
        joined = outline_of(b"".join(sorted(traces)), "traces")
        examined = decode.examine_spans(decode.span_parts(joined), findings.find_evidence, findings.silent)
    if not (findings.matched or records):
        on_unknown(len({span.span_id for scope in examined for span, *_ in scope.spans}))
        return None
    spans = decode.decode_examined(examined)
    return CollectedTrace(tuple(deduplicate_spans(spans)), tuple(records), tuple(sorted(findings.events)))


class _Findings:
    """Decides which spans are decoded, and collects the events that no dialect reads as content.

    `matched` is the mask of all dialects that have evidence in the trace, `silent` are attributes that say nothing.
    """

    __slots__ = ("_content_events", "_dialects", "_identity", "_names", "events", "matched", "silent")

    def __init__(self, dialects: Dialects, identity: IdentityLookup, names: frozenset[str] = frozenset()) -> None:
        self.matched = 0
        self.events: set[ApplicationEvent] = set()
        self._names = names
        self._dialects = dialects
        self._identity = identity
        self._content_events = dialects.content_events
        self.silent = dialects.silent_beside(identity, names)

    def add_span_events(self, span: Outline, names: list[str]) -> None:
        """Add the events of a span, given their names; of several with one name only the last is used."""
        if not self._content_events.issuperset(names):
            span_id = span.span_id.hex()
            for name, event in dict(zip(names, span.events, strict=True)).items():
                self.add(event.time_unix_nano, name, span_id)

    def add(self, time: int, name: str, span_id: str) -> None:
        """Add an event, unless it is content or its name is not valid."""
        if name not in self._content_events and _NAME.fullmatch(name):
            self.events.add(ApplicationEvent(time, name, span_id))

    def find_evidence(self, keys: Collection[str], scope: str, span: Outline) -> int:
        events = span.events
        names = [event.name for event in events] if events else []
        if names:
            self.add_span_events(span, names)
        if mask := self._dialects.match(keys, scope, names):
            self.matched |= mask
            return mask << 1
        if self._names and not (self._names.isdisjoint(keys) and self._names.isdisjoint(names)):
            return 1
        return int(self._identity.concerns(keys))


_NAME = re.compile(EVENT_NAME)


def deduplicate_spans(spans: Sequence[Span]) -> list[Span]:
    """Each span once, by start. Of several versions of a span the one that ended last with the most content wins."""
    if len(spans) < 2:
        return list(spans)
    by_id: dict[str, Span] = {}
    for span in spans:
        other = by_id.get(span.span_id)
        if other is None or (other != span and _measure_completeness(other) < _measure_completeness(span)):
            by_id[span.span_id] = span
    return sorted(by_id.values(), key=_ORDER)


_ORDER = attrgetter("start", "end", "span_id")


def _measure_completeness(span: Span) -> tuple[int, int, int, bytes]:
    rest = orjson.dumps([span.name, span.attributes, span.status_message], option=orjson.OPT_SORT_KEYS)
    return span.end, len(span.attributes), len(span.events), rest


def _collect_records(requests: Iterable[Outline], dialects: Dialects, findings: _Findings) -> list[LogRecord]:
    """The records that dialects read, by time; those of one instant stay in the sender's order.

    If several requests have the same record, it is kept as often as the request with most copies has it: a sender may
    write equal records, but a request that is sent again must not add any. OTLP has no record ids.
    """
    groups: list[list[LogRecord]] = []
    for request in requests:
        group: list[LogRecord] = []
        for record in decode.records_of(request):
            if record.kind in dialects.records:
                group.append(record)
            else:
                findings.add(record.time, record.event_name, record.span_id or "")
        if group:
            groups.append(group)
    return sorted(groups[0] if len(groups) == 1 else _deduplicate_records(groups), key=lambda record: record.time)


def _deduplicate_records(groups: list[list[LogRecord]]) -> list[LogRecord]:
    result: list[LogRecord] = []
    counts: Counter[bytes] = Counter()
    for group in groups:
        group_counts: Counter[bytes] = Counter()
        for record in group:
            key = orjson.dumps([*record], option=orjson.OPT_SORT_KEYS)
            group_counts[key] += 1
            if group_counts[key] > counts[key]:
                result.append(record)
        counts |= group_counts
    return result
