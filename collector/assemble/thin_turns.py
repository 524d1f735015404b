"""The turns of thin pieces, alone and together with the other pieces of their trace.

A thin piece has one call without texts, and is a turn by itself. The rest of its trace is assembled as if that call
were not there: it has no text to compare. If a thin turn and another are about one call, one counts: see `combine`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from collector.assemble.collect_trace import UNREAD, TracePiece
from collector.assemble.read_spans import SpanTree
from collector.assemble.turns import AssembledTurn, to_datetime
from collector.errors import BadInput
from collector.logs.log import Record
from collector.otlp.decode import read_outline, spans_of
from collector.otlp.span import Span
from collector.records.json import turn_fields_to_json
from collector.records.noted_turns import NotedTurn, noted_turn
from collector.records.tenants import ATTRIBUTE, id_in_tenant
from evaluators.cases import Turn

_NO_DIALECT = 1
"""The evidence of a span whose attributes are decoded and that no dialect reads."""


def list_thin_turns(pieces: Iterable[TracePiece], on_bad: Callable[[BadInput], None]) -> list[NotedTurn]:
    """The turns of thin pieces by the ids of their models' spans; of several versions the one that ended last."""
    turns: dict[str, NotedTurn] = {}
    for value in {piece.value for piece in pieces}:
        try:
            turn = noted_turn(value)
        except BadInput as error:
            on_bad(error)
            continue
        other = turns.get(turn.span)
        if other is None or _rank(other) < _rank(turn):
            turns[turn.span] = turn
    return [turns[span_id] for span_id in sorted(turns)] if len(turns) > 1 else list(turns.values())


def _rank(turn: NotedTurn) -> tuple[int, list[tuple[str, str]], str]:
    return turn.end, sorted(turn.spans.items()), repr(turn)


def list_thin_spans(pieces: Iterable[TracePiece], on_bad: Callable[[BadInput], None]) -> list[Span]:
    """The spans of pieces, as if no dialect read them: they connect the other spans of the trace."""
    spans: list[Span] = []
    for value in sorted({piece.value for piece in pieces}):
        try:
            spans += spans_of(read_outline(value, "traces"), lambda _keys, _scope, _span: _NO_DIALECT)
        except BadInput as error:
            on_bad(error)
    return spans


def make_turn(turn: NotedTurn) -> AssembledTurn:
    """The turn without content."""
    made = Turn(
        turn_id=_turn_id_of(turn),
        conversation_id=turn.conversation or None,
        trace_id=turn.trace,
        span_id=turn.span,
        service=turn.service,
        dialect=turn.dialect,
        started_at=to_datetime(turn.start),
        ended_at=to_datetime(turn.end),
        incomplete="unwanted",
        trace_state=turn.trace_state or None,
    )
    span = frozenset((turn.span,))
    return AssembledTurn(made, span, models=span)


def _turn_id_of(turn: NotedTurn) -> str:
    return hashlib.sha256(f"{turn.trace}\x1f{turn.span}\x1funwanted".encode()).hexdigest()[:32]


class NotedRecord(NamedTuple):
    """The record of a thin turn, its id, and its conversation's id."""

    turn_id: str
    conversation_id: str
    record: Record


def make_noted_record(turn: NotedTurn, tenant: str) -> NotedRecord:
    """The record of a thin turn that stands alone: the same bytes as of `make_turn`'s turn, in a tenant.

    If few turns are judged, this is the usual case, so none becomes a `Turn`.
    """
    turn_id = id_in_tenant(_turn_id_of(turn), tenant)
    conversation_id = id_in_tenant(turn.conversation, tenant)
    fields: dict[str, Any] = {
        "turn_id": turn_id,
        "conversation_id": conversation_id,
        "trace_id": turn.trace,
        "span_id": turn.span,
    }
    if turn.service is not None:
        fields["service"] = turn.service
    fields["dialect"] = turn.dialect
    if turn.start > 0:
        fields["started_at"] = to_datetime(turn.start)
    if turn.end > 0:
        fields["ended_at"] = to_datetime(turn.end)
    fields |= _NO_CONTENT
    if turn.trace_state:
        fields["trace_state"] = turn.trace_state
    if tenant:
        fields["attributes"] = {ATTRIBUTE: tenant}
    return NotedRecord(
        turn_id, conversation_id, Record(conversation_id.encode("utf-8", "replace"), turn_fields_to_json(fields))
    )


_NO_CONTENT = {"input": None, "actual_output": None, "incomplete": "unwanted"}


def dialects_of(turns: Iterable[NotedTurn], without: Collection[str] = ()) -> dict[str, str]:
    """The dialect that reads each span, by span id, except some; spans that no dialect reads are left out."""
    return {
        span_id: dialect
        for turn in turns
        for span_id, dialect in turn.spans.items()
        if dialect != UNREAD and span_id not in without
    }


def count_spans(turns: Iterable[NotedTurn], others: Iterable[str] = ()) -> Counter[str]:
    """How many spans each dialect reads; `others` are the ids of further spans that no dialect reads."""
    by_span = dict.fromkeys(others, UNREAD)
    for turn in turns:
        by_span |= turn.spans
    return Counter(by_span.values())


def combine(whole: Sequence[AssembledTurn], thin: Sequence[NotedTurn], tree: SpanTree) -> list[AssembledTurn]:
    """The turns of a trace of which some pieces came whole and others thin, in order of their ends.

    Each thin turn is one model call; `whole` are the turns of everything else in the trace. Both may have the same
    call, and then one turn counts:

    - The thin turn replaces a turn with its own span (from log records of its call), and one of a span around it
      if that has no model call.
    - If exactly one other call is above or below it, in the same conversation, two libraries have traced one call: the
      thin turn replaces that turn, too.
    - If there are several, or one of another conversation, the thin turn is a step of theirs: they count and it does
      not. Nor does a thin turn inside another thin turn.
    """
    remaining: dict[int, AssembledTurn] = dict(enumerate(whole))
    added: list[AssembledTurn] = []
    around = {turn.span: frozenset(tree.ancestors(turn.span)) for turn in thin}
    for turn in thin:
        if any(other.span in around[turn.span] for other in thin):
            continue
        span, over = turn.span, around[turn.span]
        replaced = {number for number, other in remaining.items() if _is_replaced(other, span, over)}
        nested = {number for number, other in remaining.items() if _is_about(other, span, over, tree)} - replaced
        if len(nested) == 1 and _is_same_call(remaining[next(iter(nested))], turn):
            replaced |= nested
        elif nested:
            continue
        models = frozenset(model for number in replaced for model in remaining.pop(number).models)
        made = make_turn(turn)
        added.append(made._replace(models=made.models | models))
    return sorted([*remaining.values(), *added], key=_end)


def _is_replaced(whole: AssembledTurn, span_id: str, around: frozenset[str]) -> bool:
    return span_id in whole.models or (not whole.models and whole.enclosing in around)


def _is_about(whole: AssembledTurn, span_id: str, around: frozenset[str], tree: SpanTree) -> bool:
    if whole.enclosing in around or not around.isdisjoint(whole.models):
        return True
    return any(span_id in tree.ancestors(model) for model in whole.models)


def _is_same_call(whole: AssembledTurn, turn: NotedTurn) -> bool:
    return whole.turn.conversation_id == turn.conversation and len(whole.models) == 1 and whole.enclosing is None


def _end(each: AssembledTurn) -> tuple[float, str]:
    ended = each.turn.ended_at
    return ended.timestamp() if ended else 0.0, each.turn.turn_id
