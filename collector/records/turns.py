"""Turns as records of the turns log, and as outcomes in the metrics."""

from __future__ import annotations

from collector.logs.log import Record
from collector.records.json import turn_to_json
from evaluators.cases import Turn


def turn_record(turn: Turn) -> Record:
    """The record of a turn, keyed so that a conversation's turns meet in one partition."""
    key = turn.conversation_id or turn.trace_id or turn.turn_id
    return Record(key.encode("utf-8", "replace"), turn_to_json(turn))


def turn_outcome(turn: Turn) -> tuple[str, str]:
    """The outcome of a turn's assembly and its reason: complete, failed, or incomplete and what is missing.

    The run of an agent inside a turn is no turn more.
    """
    if turn.agent_run_of is not None:
        return "agent_run", ""
    if turn.error is not None:
        return "failed", ""
    return ("complete", "") if turn.incomplete is None else ("incomplete", turn.incomplete)
