"""How a trace was read: per span which dialect read it and what was found where, and why it made no turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.assemble.gather import Piece, gather
from collector.assemble.reading import Read
from collector.assemble.trace import Assembler, Workings
from collector.dialects.call import Call, Kind, conflicts
from collector.errors import BadInput
from collector.span import Span
from evaluators.cases import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSpan:
    """How one span was read. `dialect` and `kind` are None if nobody read it; `found` says what was where.

    `silent` are places that were read and in which nobody says anything; `names` is what a span that nobody read tells
    of a trace all the same: its conversation, its user.
    """

    span_id: str
    name: str
    scope: str
    dialect: str | None
    kind: str | None
    found: Mapping[str, str]
    silent: Sequence[str]
    names: Sequence[str]
    holes: Sequence[str]
    contradictions: Sequence[str]
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTurn:
    """A turn that came of it; `incomplete` says why it cannot be judged."""

    turn_id: str
    span_id: str | None
    conversation_id: str | None
    failed: bool
    incomplete: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTrace:
    """How a trace was read, without judged text. `unreadable` says of pieces why, `events` names log records."""

    trace_id: str
    unreadable: Sequence[str]
    spans: Sequence[ExplainedSpan]
    records: int
    events: Sequence[str]
    turns: Sequence[ExplainedTurn]


def explain(trace_id: str, pieces: Iterable[Piece], assembler: Assembler) -> ExplainedTrace:
    """Read a trace and say how; without spans nothing of it concerns a model."""
    bad: list[BadInput] = []
    gathered = gather(pieces, assembler.dialects, assembler.identity, bad.append)
    unreadable = [str(error) for error in bad]
    if gathered is None:
        return ExplainedTrace(trace_id=trace_id, unreadable=unreadable, spans=(), records=0, events=(), turns=())
    work = assembler.work(gathered)
    read = {each.span.span_id: each for each in work.reads}
    return ExplainedTrace(
        trace_id=trace_id,
        unreadable=unreadable,
        spans=[_span(span, read.get(span.span_id), work, assembler) for span in gathered.spans],
        records=len(gathered.records),
        events=sorted({each.event_name for each in gathered.records}),
        turns=[_turn(each.turn) for each in work.assembly.turns],
    )


def lines_of(trace: ExplainedTrace) -> Iterator[str]:
    """An explained trace in words."""
    yield f"trace {trace.trace_id}"
    yield from (f"  a piece cannot be read: {error}" for error in trace.unreadable)
    if not trace.spans and not trace.records:
        yield "  no span or record of it concerns a model"
        return
    for span in trace.spans:
        yield from _span_lines(span)
    if trace.records:
        yield f"  {trace.records} log records: {', '.join(trace.events)}"
    for turn in trace.turns:
        outcome = "failed" if turn.failed else turn.incomplete or "can be judged"
        yield f"  turn {turn.turn_id} of span {turn.span_id}, conversation {turn.conversation_id}: {outcome}"


def _span_lines(span: ExplainedSpan) -> Iterator[str]:
    yield f"  span {span.span_id} {span.name!r}, scope {span.scope!r}"
    if span.dialect is None:
        also = f"; it names the {' and the '.join(span.names)}" if span.names else ""
        yield f"    no dialect reads it{also}"
        return
    found = ", ".join(f"{field} in {place}" for field, place in span.found.items())
    silent = f"; nothing that somebody said in {', '.join(span.silent)}" if span.silent else ""
    told = f": {found}" if found else ", and finds no content in it"
    yield f"    {span.dialect} reads it as {span.kind}{told}{silent}"
    yield from (f"    {hole}" for hole in span.holes)
    if span.contradictions:
        contradicted = ", ".join(span.contradictions)
        yield f"    dialects contradict each other in {contradicted}; the most specific one wins"
    yield f"    {span.fate}"


def _turn(turn: Turn) -> ExplainedTurn:
    return ExplainedTurn(
        turn_id=turn.turn_id,
        span_id=turn.span_id,
        conversation_id=turn.conversation_id,
        failed=turn.error is not None,
        incomplete=turn.incomplete,
    )


_SILENT = frozenset({"tool", "retrieval", "other"})
"""Kinds whose inputs and outputs are not messages."""


def _span(span: Span, read: Read | None, work: Workings, assembler: Assembler) -> ExplainedSpan:
    if read is None:
        who = zip(("conversation", "user"), assembler.identity.who(span.attributes), strict=True)
        return ExplainedSpan(
            span_id=span.span_id,
            name=span.name,
            scope=span.scope,
            dialect=None,
            kind=None,
            found={},
            silent=(),
            names=[name for name, value in who if value],
            holes=(),
            contradictions=(),
            fate="makes no turn: no dialect reads it",
        )
    call = read.call
    said = {"input": call.input, "output": call.output}
    places = sorted(call.found.items())
    silent = [place for field, place in places if said.get(field, ()) is None]
    return ExplainedSpan(
        span_id=span.span_id,
        name=span.name,
        scope=span.scope,
        dialect=call.dialect,
        kind=call.kind,
        found={field: place for field, place in places if said.get(field, ()) is not None},
        silent=[] if call.kind in _SILENT else silent,
        names=(),
        holes=_holes(read),
        contradictions=sorted(conflicts(assembler.dialects.read_each(span, ()))),
        fate=_fate(read, work),
    )


def _holes(read: Read) -> Sequence[str]:
    call = read.call
    holes = [
        f"input: {call.input_hole}" if call.input_hole else "",
        f"output: {call.output_hole}" if call.output_hole else "",
    ]
    if read.span.dropped_attributes:
        holes.append(f"{read.span.dropped_attributes} attributes were dropped by the sender")
    return [hole for hole in holes if hole]


def _fate(read: Read, work: Workings) -> str:
    span = read.span
    for each in work.assembly.turns:
        if each.turn.span_id == span.span_id:
            return f"makes turn {each.turn.turn_id}"
        if span.span_id in each.spans:
            return f"is part of turn {each.turn.turn_id}"
    call = next((each for each in work.calls if span.span_id in each.span_ids), None)
    if call is None:
        return f"makes no turn: {_why_not(read.call)}"
    if call.is_step:
        return "makes no turn: it asks for a tool, and no answer follows in this trace"
    return "makes no turn: what it answered was on the way to another answer"


_WHY_NOT: dict[Kind, str] = {
    "model": "no answer, tokens, finish reason or error say that the call ended, or it only wraps other calls",
    "tool": "what a tool did is told with the turn that called it",
    "retrieval": "documents are told with the turn they were fetched for",
    "aside": "guardrails, evaluators and rerankers do not answer the user",
    "other": "there is nothing to judge in embeddings, templates and the like",
}


def _why_not(call: Call) -> str:
    if call.kind in _WHY_NOT:
        return _WHY_NOT[call.kind]
    missing = [side for side, said in (("question", call.input), ("answer", call.output)) if said is None]
    if missing:
        return f"it goes around other spans and tells no {' and no '.join(missing)} itself"
    return "it goes around other spans, and no model call in it confirms what it tells"
