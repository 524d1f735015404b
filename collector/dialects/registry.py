"""The installed dialects, and which of them read a span."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Literal

from collector.dialects.attributes import LONGEST_MASK, LONGEST_NAME, MOST_NAMES, is_masked
from collector.dialects.call import Call, Kind, merge
from collector.dialects.decode import is_unfinished, unquote
from collector.dialects.dialect import Dialect
from collector.dialects.program_fields import unwrap_program
from collector.errors import ConfigError
from collector.otlp.span import CLOSING, QUOTED, Attributes, LogRecord, Span
from collector.plugins import DIALECTS, load, names
from evaluators.cases import Incomplete, Json

_MOST_MASKS = 20_000
"""Combinations of dialects that are remembered."""


class Dialects:
    """The dialects in use, most specific first.

    The readers that a span is given to are a bit mask: bit i is the i-th dialect, and 0 means no evidence of any. A
    mask costs one dictionary access per attribute, since names repeat; testing every dialect would cost twenty.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self.all: tuple[Dialect, ...] = tuple(sorted(dialects, key=lambda each: (each.rank, each.name)))
        self._records: dict[str, int] = {}
        self._by_mask: dict[int, tuple[Dialect, ...]] = {}
        self._events: dict[str, int] = {}
        self._exact: dict[str, int] = {}
        self._beginnings: list[tuple[str, int]] = []
        self._scopes: list[tuple[str, int]] = []
        self._known: dict[str, int] = {}
        self._silent: dict[tuple[object, frozenset[str]], set[bytes]] = {}
        for index, dialect in enumerate(self.all):
            self._register(dialect, 1 << index)
        self._scope_beginnings = tuple(beginning for beginning, _ in self._scopes)
        self.records: frozenset[str] = frozenset(self._records)
        """The kinds of log records that any dialect reads: names of events, or of the classes that log them."""
        self.own_records: frozenset[str] = frozenset(name for dialect in self.all for name in dialect.own_records)
        """The kinds of log records that are about the span that they name, also if it is no model call."""
        self.content_events: frozenset[str] = self.records.union(self._events, ("exception",))
        """The names of events with content that readers parse, on spans or as log records."""

    @classmethod
    def installed(cls, others: Iterable[Dialect] = ()) -> "Dialects":
        """Load every dialect that has an entry point, and add others.

        Raises:
            ConfigError: one cannot be loaded, or is not a Dialect.
        """
        return cls([*others, *(_load(name) for name in names(DIALECTS))])

    def _register(self, dialect: Dialect, bit: int) -> None:
        for name in dialect.evidence:
            if name.endswith("*"):
                self._beginnings.append((name[:-1], bit))
            else:
                self._exact[name] = self._exact.get(name, 0) | bit
        self._scopes += [(scope, bit) for scope in dialect.scopes]
        for names_, masks in ((dialect.events, self._events), (dialect.records, self._records)):
            for name in names_:
                masks[name] = masks.get(name, 0) | bit

    def match(self, keys: Iterable[str], scope: str, events: Iterable[str] = ()) -> int:
        """The mask of the dialects that have evidence in these attribute names, scope and event names."""
        known, mask = self._known, 0
        for key in keys:
            try:
                mask |= known[key]
            except KeyError:
                mask |= self._learn(key)
        if scope and scope.startswith(self._scope_beginnings):
            mask |= _match_beginning(scope, self._scopes)
        for name in events:
            mask |= self._events.get(name, 0)
        return mask

    def silent_beside(self, identity: object, names: frozenset[str]) -> set[bytes]:
        """The attributes that concern no dialect, nor this identity nor these names, for `examine_spans` to fill."""
        return self._silent.setdefault((identity, names), set())

    def _learn(self, key: str) -> int:
        mask = self._exact.get(key, 0) | _match_beginning(key, self._beginnings)
        if len(self._known) < MOST_NAMES and len(key) <= LONGEST_NAME:  # any other is matched each time
            self._known[key] = mask
        return mask

    def _dialects_in(self, mask: int) -> tuple[Dialect, ...]:
        """The dialects whose bits are set, most specific first."""
        dialects = tuple(dialect for index, dialect in enumerate(self.all) if mask >> index & 1)
        if len(self._by_mask) < _MOST_MASKS:
            self._by_mask[mask] = dialects
        return dialects

    def read_each(self, span: Span, records: Sequence[LogRecord]) -> list[Call]:
        """Read a span with each dialect that has evidence in it, most specific first."""
        mask = span.evidence >> 1
        if not span.evidence:  # not looked for
            mask = self.match(span.attributes, span.scope, [event.name for event in span.events])
        attributes = _decode_quoted(span.attributes, span.doubtful)
        if span.events or attributes is not span.attributes:
            span = _decode_twice_encoded(span, attributes)
        for record in records:
            mask |= self._records.get(record.kind, 0)
        calls: list[Call] = []
        dialects = self._by_mask.get(mask)
        for dialect in self._dialects_in(mask) if dialects is None else dialects:
            call = dialect.read(span, records)
            if call is not None:
                call = call if call.dialect else call._replace(dialect=dialect.name)
                calls.append(_mark_cut(_drop_masked(unwrap_program(call)), span))
        if span.dropped_attributes or span.dropped_events or (records and any(map(_DROPPED, records))):
            return [_mark_evicted(call, span) for call in calls]
        return calls

    def glance(self, span: Span) -> tuple[str, Kind] | tuple[Literal[""], None] | None:
        """The dialect and kind of the call that `read` certainly returns; ("", None) for no call; None in doubt."""
        if span.failed or span.events or span.dropped_attributes or span.dropped_events:
            return None
        result: tuple[str, Kind] | tuple[Literal[""], None] = "", None
        mask = span.evidence >> 1
        while mask:
            dialect = self.all[(mask & -mask).bit_length() - 1]
            kind = dialect.glance(span) if dialect.glance is not None else None
            if kind is None or (kind != "nothing" and result[1] not in {None, kind}):
                return None
            if kind != "nothing" and result[1] is None:
                result = dialect.name, kind
            mask &= mask - 1
        return result

    def read(self, span: Span, records: Sequence[LogRecord] = ()) -> Call | None:
        """Read a span with all its dialects and merge the results; None if no dialect reads it."""
        calls = self.read_each(span, records)
        return merge(calls) if len(calls) > 1 else calls[0] if calls else None


def _match_beginning(name: str, beginnings: Iterable[tuple[str, int]]) -> int:
    mask = 0
    for beginning, bit in beginnings:
        if name.startswith(beginning):
            mask |= bit
    return mask


_QUOTED_BY_DEFINITION = ("mlflow.", "genkit:", "langfuse.", "braintrust.", "logfire.", "gen_ai.tool.")
"""Beginnings of attributes whose texts are JSON, so that an answer which is JSON is in quotes there."""


def _decode_twice_encoded(span: Span, attributes: Attributes) -> Span:
    """The span with documents decoded that an exporter encoded once too often, in its attributes, given, and events."""
    if any(_decode_quoted(event.attributes) is not event.attributes for event in span.events):
        events = tuple(event._replace(attributes=_decode_quoted(event.attributes)) for event in span.events)
        span = span._replace(events=events)
    return span if attributes is span.attributes else span._replace(attributes=attributes)


def _decode_quoted(attributes: Attributes, names: Iterable[str] | None = None) -> Attributes:
    decoded: dict[str, Json] | None = None
    for key in attributes if names is None else names:
        value = attributes.get(key)
        if type(value) is str and value[:2] in QUOTED and not key.startswith(_QUOTED_BY_DEFINITION):
            decoded = decoded or dict(attributes)
            decoded[key] = unquote(value)
    return attributes if decoded is None else decoded


_SIDES = ("input", "output")
_DROPPED = attrgetter("dropped_attributes")
_MOST_DIGITS = 9
_KINDS = frozenset(
    (
        "openinference.span.kind", "gen_ai.operation.name", "langfuse.observation.type", "traceloop.span.kind",
        "llm.request.type", "mlflow.spanType", "langsmith.span.kind", "mastra.span.type", "genkit:type",
        "spring.ai.kind", "haystack.component.type", "gen_ai.span.kind", "ai.operationId",
    )
)  # fmt: skip
"""The attributes that tell a span's kind. Without them a dialect may take it for something else."""

_GUESSING = frozenset({"spring_ai", "generic"})
"""Dialects that read attributes which other dialects have, too."""


def _mark_evicted(call: Call, span: Span) -> Call:
    """Mark messages if a limit may have dropped some: all but those that one attribute has as a whole."""
    for side in _SIDES:
        if getattr(call, side) is not None and not _is_whole(call, side, span):
            call = _mark(call, side, "evicted_attributes")
    return call


def _is_whole(call: Call, side: str, span: Span) -> bool:
    source, attributes = call.sources.get(side, ""), span.attributes
    if side == "output" and not any(answer.role == "assistant" and answer.text for answer in call.output or ()):
        return False
    if not span.dropped_attributes:
        return bool(source) and (source in attributes or bool(_list_indexes(source, attributes)))
    if _lacks_beginning(call.sources.get("input", ""), attributes):
        return True
    is_known = call.dialect not in _GUESSING and not _KINDS.isdisjoint(attributes)
    return is_known and (source in attributes or (side == "output" and bool(_list_indexes(source, attributes))))


def _list_indexes(source: str, attributes: Attributes) -> set[str]:
    beginning = source.removesuffix("*")
    return {key[len(beginning) :].partition(".")[0] for key in attributes if beginning and key.startswith(beginning)}


def _lacks_beginning(source: str, attributes: Attributes) -> bool:
    """Whether the first of some messages are missing and no other: Python's SDK drops what was set first."""
    indexes = _list_indexes(source, attributes)
    numbers = {int(index) for index in indexes if index.isascii() and index.isdigit() and len(index) < _MOST_DIGITS}
    if not numbers or min(numbers) == 0 or max(numbers) - min(numbers) != len(numbers) - 1:
        return False
    first = f"{source.removesuffix('*')}{min(numbers)}."
    return any(key.startswith(first) and key.endswith("role") for key in attributes)


def _mark_cut(call: Call, span: Span) -> Call:
    """Mark messages out of a document that was cut, where a reader has not."""
    attributes, sources = span.attributes, call.sources
    for side in _SIDES:
        source = sources.get(side)
        value = attributes.get(source) if source else None
        if type(value) is str and value[:1] in CLOSING and value[-1] != CLOSING[value[0]] and is_unfinished(value):
            call = _mark(call, side, "truncated") if getattr(call, side) is not None else call
    return call


def _mark(call: Call, side: str, reason: Incomplete) -> Call:
    if side == "input":
        return call if call.input_incomplete is not None else call._replace(input_incomplete=reason)
    return call if call.output_incomplete is not None else call._replace(output_incomplete=reason)


def _drop_masked(call: Call) -> Call:
    """Drop an input or output whose last message is masked, so that another reader or span can fill it."""
    input_messages, output_messages = call.input, call.output
    if input_messages and len(input_messages[-1].text) < LONGEST_MASK and is_masked(input_messages[-1].text):
        call = call._replace(input=None, input_incomplete="redacted")
    if output_messages and len(output_messages[-1].text) < LONGEST_MASK and is_masked(output_messages[-1].text):
        call = call._replace(output=None, output_incomplete="redacted")
    return call


def _load(name: str) -> Dialect:
    dialect = load(DIALECTS, name)
    if not isinstance(dialect, Dialect):
        raise ConfigError(f"the dialect plug-in {name!r} is a {type(dialect).__name__}, not a Dialect")
    return dialect
