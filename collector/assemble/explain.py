"""How a trace was read: per span which dialect read it and what was found where, and why it made no turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.assemble.gather import Piece, gather
from collector.assemble.reading import Read
from collector.assemble.trace import Assembler, Workings
from collector.dialects.call import Call, Kind, conflicts
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
        named = [
            name
            for name, value in zip(("conversation", "user"), assembler.identity.who(span.attributes), strict=True)
            if value
        ]
        also = f"; it names the {' and the '.join(named)}" if named else ""
        yield f"    no dialect reads it{also}"
        return
    call = read.call
    yield f"    {call.dialect} reads it as {call.kind}{_places(read)}"
    yield from (f"    {line}" for line in _holes(read))
    contradicted = sorted(conflicts(assembler.dialects.read_each(span, ())))
    if contradicted:
        yield f"    dialects contradict each other in {', '.join(contradicted)}; the most specific one wins"
    yield f"    {_fate(read, work)}"


def _places(read: Read) -> str:
    call = read.call
    said = {"input": call.input, "output": call.output}
    found = sorted(call.found.items())
    read_at = ", ".join(f"{field} in {place}" for field, place in found if said.get(field, ()) is not None)
    silent = ", ".join(place for field, place in found if said.get(field, ()) is None)
    places = f": {read_at}" if read_at else ", and finds no content in it"
    return f"{places}; nothing that somebody said in {silent}" if silent and call.kind not in _SILENT else places


_SILENT = frozenset({"tool", "retrieval", "other"})
"""Kinds whose inputs and outputs are not messages."""


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
