"""Turns as records of the turns log."""

from __future__ import annotations

from collector.logs.log import Record
from collector.records import turn_to_json
from evaluators.cases import Turn


def turn_record(turn: Turn) -> Record:
    """The record of a turn, keyed so that a conversation's turns meet in one partition."""
    key = turn.conversation_id or turn.trace_id or turn.turn_id
    return Record(key.encode("utf-8", "replace"), turn_to_json(turn))
