"""The turns that nobody wants: a receiver has noted them in front of a piece, and they have no content."""

import hashlib
from typing import Any, NamedTuple

from collector.assemble.turns import AssembledTurn, to_datetime
from collector.logs.log import Record
from collector.records.json import turn_fields_to_json
from collector.records.noted_turns import NotedTurn
from collector.records.tenants import ATTRIBUTE, id_in_tenant
from evaluators.cases import Turn


def make_turn(turn: NotedTurn) -> AssembledTurn:
    """The turn without content."""
    made = Turn(
        turn_id=_turn_id_of(turn), conversation_id=turn.conversation or None, trace_id=turn.trace, span_id=turn.span,
        service=turn.service, dialect=turn.dialect, trace_state=turn.trace_state or None,
        started_at=to_datetime(turn.start), ended_at=to_datetime(turn.end), incomplete="unwanted",
    )  # fmt: skip
    span = frozenset((turn.span,))
    return AssembledTurn(made, span, models=span)


def _turn_id_of(turn: NotedTurn) -> str:
    return hashlib.sha256(f"{turn.trace}\x1f{turn.span}\x1funwanted".encode()).hexdigest()[:32]


class NotedRecord(NamedTuple):
    """The record of a noted turn, its id, and its conversation's id."""

    turn_id: str
    conversation_id: str
    record: Record


def make_noted_record(turn: NotedTurn, tenant: str) -> NotedRecord:
    """The record of a noted turn: the same bytes as of `make_turn`'s turn, in a tenant.

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
