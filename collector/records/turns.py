"""Turns as records of the turns log, in the order of their conversation, and as outcomes in the metrics."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from math import inf
from operator import attrgetter
from typing import Any

from collector.logs.log import Record
from collector.records.json import turn_fields_to_json, turn_to_json
from collector.records.recorded_turn import TurnFields
from collector.records.tenants import ATTRIBUTE, tenant_of
from evaluators.cases import Turn


def turn_record(turn: Turn) -> Record:
    """The record of a turn, keyed so that a conversation's turns meet in one partition."""
    return Record(turn_key(turn), turn_to_json(turn))


def conversation_key(turn: TurnFields) -> str:
    """The ties between a turn and its conversation; a turn without conversation id is a conversation of its own."""
    return turn.conversation_id or turn.trace_id or turn.turn_id


def turn_key(turn: Turn) -> bytes:
    """The key of a turn's record: the id of its conversation, else of its trace, else its own."""
    return conversation_key(turn).encode("utf-8", "replace")


Place = tuple[float, float]
"""The place of a turn in its conversation; turns in equal places stand in the order of their arrival."""


def happened_at(started: float | None, ended: float | None, received: float) -> float:
    """When a turn happened: when it ended, else when it started, at the latest when it was received (s)."""
    time = started if ended is None else ended
    return received if time is None else min(time, received)


def place_of(started: float | None, happened: float) -> Place:
    """The place of a turn: when it started, else when it happened; of turns with one start the sooner over is first."""
    # Why not arrival alone where starts are equal: when two windows merge, the order of arrival across them is lost.
    # Their turns did not happen at the same time, else one window would have them.
    return happened if started is None or started == happened else started, happened


def in_order(arrivals: Iterable[tuple[Turn, float]]) -> list[Turn]:
    """The turns of a conversation, which come in the order of arrival, each with the time at which it was received."""
    return [turn for turn, _ in sorted(arrivals, key=_place)]


def _place(arrival: tuple[Turn, float]) -> Place:
    turn, received = arrival
    started, ended = (moment.timestamp() if moment else None for moment in (turn.started_at, turn.ended_at))
    return place_of(started, happened_at(started, ended, received))


def received_together(turns: Iterable[Turn]) -> Iterator[tuple[Turn, float]]:
    """The turns of a file, all received at one time, which is later than each of their own times."""
    return ((turn, inf) for turn in turns)


def turn_id_in(value: bytes) -> bytes:
    """The id of the turn in a record's value, as it is written there. The record is not parsed."""
    if value.startswith(_BEFORE_ID):
        return value[len(_BEFORE_ID) : value.find(b'"', len(_BEFORE_ID))]
    return sha256(value).digest()


_BEFORE_ID = b'{"turn_id":"'


def without_content(turn: Turn) -> Turn:
    """The record of a turn that no monitor can want: its id, its conversation, and its time."""
    tenant = tenant_of(turn)
    fields: dict[str, Any] = dict(zip(_BARE_FIELDS, _VALUES(turn), strict=True))
    return Turn(**fields | _NO_CONTENT, attributes={ATTRIBUTE: tenant} if tenant else {})


def bare_turn_record(turn: Turn) -> Record:
    """The record of a turn that has only the fields that `without_content` leaves: the same bytes, sooner."""
    pairs = zip(_BARE_FIELDS, _VALUES(turn), strict=True)
    plain: dict[str, Any] = {name: value for name, value in pairs if value is not None or name in _ALWAYS}
    if turn.attributes:
        plain["attributes"] = turn.attributes
    return Record(turn_key(turn), turn_fields_to_json(plain))


_BARE_FIELDS = (
    "turn_id", "conversation_id", "trace_id", "span_id", "service", "dialect", "started_at", "ended_at", "input",
    "actual_output", "incomplete", "trace_state", "agent_run_of",
)  # fmt: skip
"""The fields of a turn without content, in the order of a turn's."""
_VALUES = attrgetter(*_BARE_FIELDS)
_NO_CONTENT: dict[str, Any] = {"input": None, "actual_output": None, "incomplete": "unwanted"}
_ALWAYS = frozenset(("conversation_id", "trace_id", "input", "actual_output"))


UNWANTED = ("incomplete", "unwanted")
"""The outcome of a turn whose content is not stored."""


def turn_outcome(turn: Turn) -> tuple[str, str]:
    """The outcome of a turn's assembly and its reason: complete, failed, or incomplete and what is missing.

    The run of an agent inside a turn is no turn more.
    """
    if turn.agent_run_of is not None:
        return "agent_run", ""
    if turn.error is not None:
        return "failed", ""
    return ("complete", "") if turn.incomplete is None else ("incomplete", turn.incomplete)
