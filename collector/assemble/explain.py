"""How a trace was read: per span which dialect read it and what was found where, and why it made no turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.assemble.gather import Piece, gather
from collector.assemble.reading import Read
from collector.assemble.trace import Assembler, Workings
from collector.dialects.call import conflicts
from collector.errors import BadInput
from collector.span import Span


def explain(trace_id: str, pieces: Iterable[Piece], assembler: Assembler) -> Iterator[str]:
    """Lines that say how a trace was read. No judged text is in them."""
    bad: list[BadInput] = []
    gathered = gather(pieces, assembler.dialects, assembler.identity, bad.append)
    yield f"trace {trace_id}"
    yield from (f"  a piece cannot be read: {error}" for error in bad)
    if gathered is None:
        yield "  no span or record of it concerns a model"
        return
    work = assembler.work(gathered)
    read = {each.span.span_id: each for each in work.reads}
    for span in gathered.spans:
        yield from _span(span, read.get(span.span_id), work, assembler)
    if gathered.records:
        names = sorted({each.event_name for each in gathered.records})
        yield f"  {len(gathered.records)} log records: {', '.join(names)}"
    for each in work.assembly.turns:
        turn = each.turn
        outcome = "failed" if turn.error is not None else turn.incomplete or "can be judged"
        yield f"  turn {turn.turn_id} of span {turn.span_id}, conversation {turn.conversation_id}: {outcome}"


def _span(span: Span, read: Read | None, work: Workings, assembler: Assembler) -> Iterator[str]:
    yield f"  span {span.span_id} {span.name!r}, scope {span.scope!r}"
    if read is None:
        yield "    no dialect reads it"
        return
    call = read.call
    yield f"    {call.dialect} reads it as {call.kind}{_places(read)}"
    yield from (f"    {line}" for line in _holes(read))
    contradicted = sorted(conflicts(assembler.dialects.read_each(span, ())))
    if contradicted:
        yield f"    dialects contradict each other in {', '.join(contradicted)}; the most specific one wins"
    yield f"    {_fate(span, work)}"


def _places(read: Read) -> str:
    found = ", ".join(f"{field} in {place}" for field, place in sorted(read.call.found.items()))
    return f": {found}" if found else ", and finds no content in it"


def _holes(read: Read) -> Sequence[str]:
    call = read.call
    holes = [
        f"input: {call.input_hole}" if call.input_hole else "",
        f"output: {call.output_hole}" if call.output_hole else "",
    ]
    if read.span.dropped_attributes:
        holes.append(f"{read.span.dropped_attributes} attributes were dropped by the sender")
    return [hole for hole in holes if hole]


def _fate(span: Span, work: Workings) -> str:
    for each in work.assembly.turns:
        if each.turn.span_id == span.span_id:
            return f"makes turn {each.turn.turn_id}"
        if span.span_id in each.spans:
            return f"is part of turn {each.turn.turn_id}"
    call = next((each for each in work.calls if span.span_id in each.span_ids), None)
    if call is None:
        return "makes no turn: it is no model call, and no wrapper that tells an exchange of its own"
    if call.is_step:
        return "makes no turn: it asks for a tool, and no answer follows in this trace"
    return "makes no turn: what it answered was on the way to another answer"
