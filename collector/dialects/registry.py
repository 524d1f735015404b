"""All dialects that are installed, and which of them a span concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.dialects.call import Call, union
from collector.dialects.dialect import Dialect, Read
from collector.dialects.reading import LONGEST_MASK, is_masked
from collector.errors import ConfigError
from collector.plugins import DIALECTS, load, names
from collector.span import LogRecord, Span

_MEMORY = 20_000
"""How many attribute names are remembered; senders that make up names are looked at each time."""


class Dialects:
    """The dialects in use, most specific first.

    Which readers a span concerns is a bit mask: bit i stands for the i-th dialect. 0 means that the span has no
    evidence of any dialect.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self.all: tuple[Dialect, ...] = tuple(sorted(dialects, key=lambda each: (each.rank, each.name)))
        self._records: dict[str, int] = {}
        self._by_mask: dict[int, tuple[Read, ...]] = {}
        self._events: dict[str, int] = {}
        self._exact: dict[str, int] = {}
        self._beginnings: list[tuple[str, int]] = []
        self._scopes: list[tuple[str, int]] = []
        self._known: dict[str, int] = {}
        for index, each in enumerate(self.all):
            self._register(each, 1 << index)
        self.records: frozenset[str] = frozenset(self._records)
        """The names of the log records that any dialect asks for."""
        self.telling: frozenset[str] = self.records | self._events.keys() | {"exception"}
        """The names of events that readers look into, on spans or as log records."""

    @classmethod
    def installed(cls) -> Dialects:
        """Load every dialect there is an entry point for.

        Raises:
            ConfigError: one cannot be loaded, or is no Dialect.
        """
        return cls(_load(name) for name in names(DIALECTS))

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

    def mask(self, keys: Iterable[str], scope: str, events: Iterable[str] = ()) -> int:
        """The dialects that a span concerns, by its attribute names, its scope, and the names of its events."""
        known, mask = self._known, 0
        for key in keys:
            try:
                mask |= known[key]
            except KeyError:
                mask |= self._learn(key)
        if scope:
            mask |= self._of_scope(scope)
        for name in events:
            mask |= self._events.get(name, 0)
        return mask

    def _learn(self, key: str) -> int:
        mask = self._exact.get(key, 0)
        for beginning, bit in self._beginnings:
            if key.startswith(beginning):
                mask |= bit
        if len(self._known) < _MEMORY:
            self._known[key] = mask
        return mask

    def _of_scope(self, scope: str) -> int:
        mask = 0
        for beginning, bit in self._scopes:
            if scope.startswith(beginning):
                mask |= bit
        return mask

    def _readers(self, mask: int) -> tuple[Read, ...]:
        """The readers whose bits are set, most specific first."""
        readers = self._by_mask.get(mask)
        if readers is None:
            readers = tuple(each.read for index, each in enumerate(self.all) if mask >> index & 1)
            if len(self._by_mask) < _MEMORY:
                self._by_mask[mask] = readers
        return readers

    def read_each(self, span: Span, records: Sequence[LogRecord]) -> list[Call]:
        """What each dialect says of a span, most specific first."""
        mask = span.evidence >> 1 if span.evidence else self._mask_of(span)
        for record in records:
            mask |= self._records.get(record.event_name, 0)
        calls: list[Call] = []
        for read in self._readers(mask):
            call = read(span, records)
            if call is not None:
                calls.append(_unmasked(call))
        return calls

    def _mask_of(self, span: Span) -> int:
        return self.mask(span.attributes, span.scope, [event.name for event in span.events])

    def read(self, span: Span, records: Sequence[LogRecord] = ()) -> Call | None:
        """What a span says, put together from all dialects that read it; None if none does."""
        calls = self.read_each(span, records)
        return union(calls) if calls else None


def _unmasked(call: Call) -> Call:
    """A side whose last words were taken away is not there, so that another reader's or span's words can be."""
    given, came = call.input, call.output
    if given and len(given[-1].text) < LONGEST_MASK and is_masked(given[-1].text):
        call = call._replace(input=None, input_hole="redacted")
    if came and len(came[-1].text) < LONGEST_MASK and is_masked(came[-1].text):
        call = call._replace(output=None, output_hole="redacted")
    return call


def _load(name: str) -> Dialect:
    dialect = load(DIALECTS, name)
    if not isinstance(dialect, Dialect):
        raise ConfigError(f"the dialect plug-in {name!r} is a {type(dialect).__name__}, not a Dialect")
    return dialect
