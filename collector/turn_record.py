"""A turn as a record of the turns log: the same, whoever made the turn."""

from __future__ import annotations

from collector.logs.log import Record
from collector.records import turn_to_json
from evaluators.cases import Turn


def turn_record(turn: Turn) -> Record:
    """The record, its key the conversation's id, so that the turns of a conversation meet in one partition, in order.

    A turn that names no conversation has its trace's id for a key, or else its own.
    """
    key = turn.conversation_id or turn.trace_id or turn.turn_id
    return Record(key.encode("utf-8", "replace"), turn_to_json(turn))
