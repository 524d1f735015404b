"""Remarks on traces, beside how their spans were read: unread text, settings, competing ids.

Conversation ids are compared over many traces: an id that never repeats, while another does, was made up for each run.

A running service examines one trace a second at most.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from collector.assemble.collect_trace import CollectedTrace, TracePiece
from collector.assemble.identity import IdentityLookup
from collector.assemble.trace import Assembler, TraceAnalysis
from collector.assemble.unread.capture_settings import UNKNOWN, missing_settings, setting_for
from collector.assemble.unread.proposal import MappingProposal, propose, texts_of
from collector.assemble.unread.texts import TextAt, UnreadText, list_unread
from collector.dialects.call import Call
from collector.errors import BadInput
from collector.otlp.decode import read_outline, records_of, spans_of
from collector.otlp.span import LogRecord, Span
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import UNREAD_TEXT, UNREPEATED_IDS
from collector.wording import plural

_FEWEST = 6
"""Traces before anything is said."""
_MAX_IDS = 2000
"""Ids of a service and an attribute that are remembered."""
_MAX_PAIRS = 200
_REPETITIONS = 10
"""The repetitions of ids that are enough in a sample of traces, which misses most of a conversation's traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrepeatedId:
    """An attribute whose ids never repeat in the traces of a service, and another whose ids do."""

    service: str
    attribute: str
    repeated: str
    traces: int

    def sentence(self) -> str:
        """Its meaning, with the setting that chooses the other one."""
        return (
            f"{self.attribute} of {self.service or 'a service without a name'} names another conversation in each of "
            f"{self.traces} traces, while {self.repeated} repeats; "
            f"to use that: assemble.identity.conversation: [{self.repeated}]"
            f"; or, to use {self.attribute} only where there is no other: assemble.identity.made_up: [{self.attribute}]"
        )


class ConversationIdStatistics:
    """Counts how often the ids under each attribute repeat, by service. Memory is bounded by the number of
    `pairs` of service and attribute.

    Few of `sampled` traces are of one conversation, so ten repetitions are enough; otherwise half of the ids must
    repeat.
    """

    def __init__(self, pairs: int = _MAX_PAIRS, *, sampled: bool = False) -> None:
        self._ids: dict[tuple[str, str], dict[int, int]] = {}
        self._pairs = pairs
        self._sampled = sampled

    def add(self, service: str, ids: Mapping[str, str]) -> None:
        """Add the ids of one trace, by attribute."""
        for attribute, value in ids.items():
            key = (service, attribute)
            if key not in self._ids and len(self._ids) >= self._pairs:
                continue
            counts, number = self._ids.setdefault(key, {}), hash(value)
            if number in counts or len(counts) < _MAX_IDS:
                counts[number] = counts.get(number, 0) + 1

    def repeat(self, value: str) -> None:
        """Count an id once more, under whichever attributes it is known."""
        number = hash(value)
        for counts in self._ids.values():
            if number in counts:
                counts[number] += 1

    def find(self) -> list[UnrepeatedId]:
        """The attributes whose ids never repeat while another's do, in at least half as many traces."""
        unrepeated: list[UnrepeatedId] = []
        for (service, attribute), counts in sorted(self._ids.items()):
            if len(counts) < _FEWEST or max(counts.values()) > 1:
                continue
            others = (
                (sum(other.values()), name)
                for (owner, name), other in self._ids.items()
                if owner == service and name != attribute and self._repeats(other)
            )
            total, name = max(others, default=(0, ""))
            if 2 * total >= len(counts):
                unrepeated.append(UnrepeatedId(service=service, attribute=attribute, repeated=name, traces=len(counts)))
        return unrepeated

    def _repeats(self, counts: Mapping[int, int]) -> bool:
        total = sum(counts.values())
        return 2 * len(counts) <= total or (self._sampled and total - len(counts) >= _REPETITIONS)


def ids_of(trace: CollectedTrace, identity: IdentityLookup) -> tuple[str, dict[str, str]]:
    """The service of a trace, and the conversation ids in it by attribute, where there is only one.

    There are no ids if a configured attribute names the conversation: then nothing competes with it.
    """
    values: dict[str, set[str]] = {}
    service = ""
    for span in trace.spans:
        name = span.resource.get("service.name")
        service = name if isinstance(name, str) else service
        if identity.configured is not None and identity.configured.find(span.attributes)[0]:
            return service, {}
        for attribute, value in identity.list_conversations(span.attributes):
            values.setdefault(attribute, set()).add(value)
    return service, {attribute: next(iter(value)) for attribute, value in values.items() if len(value) == 1}


def find_unrepeated(traces: Iterable[CollectedTrace], identity: IdentityLookup) -> list[UnrepeatedId]:
    """The attributes of these traces whose ids never repeat where another's do."""
    statistics = ConversationIdStatistics()
    for trace in traces:
        statistics.add(*ids_of(trace, identity))
    return statistics.find()


_MOST = 12
"""Places that are listed; those that look most like question and answer come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings in traces without a complete turn, and about the ids of all of them.

    `unread` are the places of texts that no dialect reads, `proposal` a mapping that reads them, `settings` those that
    make libraries write messages, by scope.
    """

    traces: int = 0
    unread: Sequence[UnreadText] = ()
    proposal: MappingProposal | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])
    unrepeated: Sequence[UnrepeatedId] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.unread or self.settings or self.unrepeated)

    def as_json(self) -> dict[str, Any]:
        """The same as one object."""
        return {
            "unread": list(self.unread),
            "mapping": list(self.proposal.lines()) if self.proposal else [],
            "settings": self.settings,
            "unrepeated": list(self.unrepeated),
        }

    def lines(self) -> Iterator[str]:
        """The message for the user, without judged text."""
        if self.unread:
            yield f"text in {plural(self.traces, 'trace')} without a complete turn:"
            for text in self.unread[:_MOST]:
                looks = {"input": ": looks like questions", "output": ": looks like answers"}.get(text.side or "", "")
                spans = plural(text.spans, "span")
                yield f"  {text.place} on {spans} {text.span_name!r} of {text.scope or 'no scope'}{looks}"
            if len(self.unread) > _MOST:
                yield f"  and {len(self.unread) - _MOST} further places"
        if self.proposal is not None:
            tried = f"{plural(self.proposal.turns, 'turn')} of {plural(self.proposal.traces, 'trace')}"
            yield f"put this mapping, a guess that gives {tried}, into the configuration, restart, see later traces:"
            yield from self.proposal.lines()
        for scope, setting in sorted(self.settings.items()):
            named = f"scope {scope!r}" if scope else "a span without a scope"
            yield f"{named} writes no question or no answer; to have both in traces: {setting}"
        yield from (unrepeated.sentence() for unrepeated in self.unrepeated)


def examine(traces: Iterable[Sequence[TracePiece]], assembler: Assembler) -> Examination:
    """Examine traces, each given by its pieces."""
    whole = [read_trace(pieces) for pieces in traces]
    bare, texts, settings = unread_texts(whole, assembler)
    proposal = propose(bare, assembler) if texts else None
    if texts:  # the words are there, but in a place that no dialect reads
        settings = {scope: setting for scope, setting in settings.items() if setting != UNKNOWN}
    if texts and proposal is None:
        settings |= {text.span.scope: setting for text in texts if (setting := setting_for(text.span.scope))}
    return Examination(
        traces=len(bare),
        unread=list_unread(texts),
        proposal=proposal,
        settings=settings,
        unrepeated=find_unrepeated(whole, assembler.identity),
    )


def unread_texts(
    traces: Sequence[CollectedTrace], assembler: Assembler
) -> tuple[list[CollectedTrace], list[TextAt], dict[str, str]]:
    """The traces without an outcome, the texts in them that look like a person's words, and settings that libraries
    lack.
    """
    analyses = [(trace, assembler.analyze(trace)) for trace in traces]
    bare = [(trace, analysis) for trace, analysis in analyses if not _needs_no_mapping(analysis)]
    settings: dict[str, str] = {}
    for _, analysis in bare:
        settings |= missing_settings(analysis.parsed_spans)
    read: set[str | None] = {
        parsed_span.span.span_id
        for _, analysis in bare
        for parsed_span in analysis.parsed_spans
        if _is_fully_read(parsed_span.call)
    }
    unread = [_without_spans(trace, read) for trace, _ in bare]
    return unread, [text for trace in unread for text in texts_of(trace) if text.weight > 0], settings


def _needs_no_mapping(analysis: TraceAnalysis) -> bool:
    """Whether the trace has a turn that no mapping could improve: complete, failed, continuing, or incurable."""
    turns = (turn.turn for turn in analysis.assembly.turns)
    return any(call.is_step for call in analysis.calls) or any(
        turn.error is not None or turn.incomplete not in _CURABLE for turn in turns
    )


def _is_fully_read(call: Call) -> bool:
    """Whether a span was read completely: it has question and answer, or it is a step, which has neither."""
    return call.kind in {"tool", "retrieval", "auxiliary", "other"} or None not in (call.input, call.output)


def _without_spans(trace: CollectedTrace, read: Container[str | None]) -> CollectedTrace:
    """The trace with nothing in the spans that are read; they only complete the tree."""
    spans = (span._replace(attributes={}, events=()) if span.span_id in read else span for span in trace.spans)
    return trace._replace(
        spans=tuple(spans), records=tuple(record for record in trace.records if record.span_id not in read)
    )


_CURABLE = frozenset({"no_content", "scaffolding"})


_ORDER = attrgetter("start", "end", "span_id")


def read_trace(pieces: Iterable[TracePiece]) -> CollectedTrace:
    """A trace with all attributes of all spans, and all log records that name one; pieces that are invalid left out."""
    spans: dict[str, Span] = {}
    records: list[LogRecord] = []
    for piece in pieces:
        try:
            request = read_outline(piece.value, piece.signal)
        except BadInput:
            continue
        if piece.signal == "traces":
            for span in spans_of(request):
                spans[span.span_id] = span
        else:
            records += (log_record for log_record in records_of(request) if log_record.span_id)
    ordered = sorted(spans.values(), key=_ORDER)
    return CollectedTrace(tuple(ordered), tuple(sorted(records, key=lambda record: record.time)))


logger = logging.getLogger(__name__)

_VALUE: Callable[[TracePiece], bytes] = attrgetter("value")
_INTERVAL = 1.0
"""Seconds between traces that are examined, on the log's clock: examining takes longer than assembling."""
_MAX_SCOPES, _OTHER_SCOPES = 20, "other"
_LONGEST_SCOPE = 100
_MAX_BYTES = 1 << 20
_WATCHED_PAIRS = 20
_MAX_VALUES = 10_000
_EVERY = 20
"""Examined traces from one report to the next."""


class UnreadTextWatch:
    """Looks at traces without a turn for text that looks like questions and answers."""

    def __init__(self, assembler: Assembler, telemetry: Telemetry) -> None:
        self._assembler = assembler
        self._telemetry = telemetry
        self.next_at = 0.0
        """The log's time (s) from which a trace is examined."""
        self._scopes: set[str] = set()

    def examine(self, _trace_id: str, pieces: Sequence[TracePiece], now: float) -> None:
        """Count the spans of a trace whose text no dialect reads. `now` is the log's time, in seconds."""
        if now < self.next_at or sum(map(len, map(_VALUE, pieces))) > _MAX_BYTES:
            return
        self.next_at = now + _INTERVAL
        texts = unread_texts([read_trace(pieces)], self._assembler)[1]
        for scope in sorted({text.span.scope for text in texts}):
            of_scope = [text for text in texts if text.span.scope == scope]
            if {text.side for text in of_scope} >= {"input", "output"}:
                spans = {text.span.span_id for text in of_scope}
                self._telemetry.counter(UNREAD_TEXT, self._label(scope)).inc(len(spans))

    def _label(self, scope: str) -> str:
        name = scope[:_LONGEST_SCOPE] or "none"
        if len(self._scopes) < _MAX_SCOPES:
            self._scopes.add(name)
        return name if name in self._scopes else _OTHER_SCOPES


class ConversationIdWatch:
    """Notices ids that never repeat while another does, and says so once for each service and attribute.

    It reports and changes nothing. The ids that repeat may be those of a browser or a user. And a process that takes
    over does not know the earlier traffic, so it might put the same turns into other conversations.
    """

    def __init__(self, assembler: Assembler, telemetry: Telemetry) -> None:
        self._identity = assembler.identity
        self._telemetry = telemetry
        self.next_at = 0.0
        """The log's time (s) from which a trace is examined."""
        self._traces = 0
        self._statistics = ConversationIdStatistics(_WATCHED_PAIRS, sampled=True)
        self._first_traces: dict[str, str] = {}
        self._reported: set[tuple[str, str]] = set()

    def note_ids(self, trace_id: str, conversations: Iterable[str | None]) -> None:
        """Note the ids in the statistics that the turns of a trace repeat. This is cheap, so it is done for every
        trace.

        Otherwise a sample would hardly ever have two traces of a conversation, and all ids would seem never to repeat.
        """
        for conversation in conversations:
            first = self._first_traces.get(conversation or "")
            if first is not None and first != trace_id:
                self._statistics.repeat(conversation or "")

    def examine(self, trace_id: str, pieces: Sequence[TracePiece], now: float) -> None:
        """Take a trace into the statistics. `now` is the log's time, in seconds."""
        if now < self.next_at or sum(map(len, map(_VALUE, pieces))) > _MAX_BYTES:
            return
        self.next_at = now + _INTERVAL
        service, ids = ids_of(read_trace(pieces), self._identity)
        new = {name: value for name, value in ids.items() if self._first_traces.get(value) != trace_id}
        self._statistics.add(service, new)
        for value in new.values():
            if len(self._first_traces) < _MAX_VALUES:
                self._first_traces.setdefault(value, trace_id)
        self._traces += 1
        if self._traces % _EVERY == 0:
            self._report()

    def _report(self) -> None:
        for unrepeated in self._statistics.find():
            if (unrepeated.service, unrepeated.attribute) not in self._reported:
                self._reported.add((unrepeated.service, unrepeated.attribute))
                self._telemetry.counter(UNREPEATED_IDS, unrepeated.attribute[:_LONGEST_SCOPE]).inc()
                logger.warning("%s", unrepeated.sentence())
