"""What is to be said of traces in files beside how their spans were read: unread text, settings, competing ids."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.assemble.collect_trace import CollectedTrace, TracePiece
from collector.assemble.trace import Assembler, TraceAnalysis
from collector.assemble.unread.capture_settings import missing_settings, setting_for
from collector.assemble.unread.conversation_ids import UnrepeatedId, find_unrepeated
from collector.assemble.unread.proposal import MappingProposal, propose, texts_of
from collector.assemble.unread.texts import TextAt, UnreadText, list_unread
from collector.dialects.call import Call
from collector.errors import BadInput
from collector.otlp.decode import read_outline, records_of, spans_of
from collector.otlp.span import LogRecord, Span

_MOST = 12
"""Places that are listed; those that look most like question and answer come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found in traces without a complete turn, and about the ids of all of them.

    `unread` are the places of texts that nobody reads, `proposal` a mapping that reads them, `settings` those that make
    libraries write messages, by scope.
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
        """What to tell the user; no judged text."""
        if self.unread:
            yield f"text in {self.traces} traces without a complete turn:"
            for text in self.unread[:_MOST]:
                looks = {"input": ": looks like questions", "output": ": looks like answers"}.get(text.side or "", "")
                yield f"  {text.place} on {text.spans} spans {text.span_name!r} of {text.scope or 'no scope'}{looks}"
            if len(self.unread) > _MOST:
                yield f"  and {len(self.unread) - _MOST} further places"
        if self.proposal is not None:
            yield f"a mapping that gives {self.proposal.turns} turns of these; look at them with normalize -c:"
            yield from self.proposal.lines()
        for scope, setting in sorted(self.settings.items()):
            yield f"{scope} writes no question or no answer; to turn them on: {setting}"
        yield from (unrepeated.sentence() for unrepeated in self.unrepeated)


def examine(traces: Iterable[Sequence[TracePiece]], assembler: Assembler) -> Examination:
    """Examine traces, each given by its pieces."""
    whole = [read_trace(pieces) for pieces in traces]
    bare, texts, settings = unread_texts(whole, assembler)
    proposal = propose(bare, assembler) if texts else None
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
    """The traces without an outcome, what looks like somebody's words in them, and settings that libraries lack."""
    analyses = [(trace, assembler.analyze(trace)) for trace in traces]
    bare = [(trace, analysis) for trace, analysis in analyses if not _has_outcome(analysis)]
    settings: dict[str, str] = {}
    for _, analysis in bare:
        settings |= missing_settings(analysis.parsed_spans)
    read: set[str | None] = {
        parsed_span.span.span_id
        for _, analysis in bare
        for parsed_span in analysis.parsed_spans
        if _is_read(parsed_span.call)
    }
    unread = [_without(trace, read) for trace, _ in bare]
    return unread, [text for trace in unread for text in texts_of(trace) if text.weight > 0], settings


def _has_outcome(analysis: TraceAnalysis) -> bool:
    """Whether a turn was read: it is complete, it failed, continues, or no mapping can cure what it lacks."""
    turns = (turn.turn for turn in analysis.assembly.turns)
    return any(call.is_step for call in analysis.calls) or any(
        turn.error is not None or turn.incomplete not in _CURABLE for turn in turns
    )


def _is_read(call: Call) -> bool:
    """Whether nothing of a span is unread: it has both sides, or it is a step that has neither."""
    return call.kind in {"tool", "retrieval", "auxiliary", "other"} or (
        call.input is not None and call.output is not None
    )


def _without(trace: CollectedTrace, read: Container[str | None]) -> CollectedTrace:
    """The trace with nothing in the spans that are read; they only complete the tree."""
    spans = (span._replace(attributes={}, events=()) if span.span_id in read else span for span in trace.spans)
    return trace._replace(
        spans=tuple(spans), records=tuple(record for record in trace.records if record.span_id not in read)
    )


_STEPS = frozenset({"tool", "retrieval", "auxiliary", "other"})
_CURABLE = frozenset({"no_content", "scaffolding", "unsupported"})


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
            spans |= {span.span_id: span for span in spans_of(request)}
        else:
            records += (log_record for log_record in records_of(request) if log_record.span_id)
    ordered = sorted(spans.values(), key=lambda span: (span.start, span.end, span.span_id))
    return CollectedTrace(tuple(ordered), tuple(sorted(records, key=lambda record: record.time)))
