"""What past evaluations were about: turns, found again in the turns log or in files, put together as they were."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from collector.errors import BadInput
from collector.evaluate.plan import conversation_key
from collector.evaluate.session import digest_of
from collector.logs.log import Log, Stored
from collector.records import turn_from_json
from collector.whole_conversation import said_of_whole
from evaluators.cases import Conversation, Turn
from evaluators.outcome import Evaluation

Turns = Mapping[str, Mapping[str, Turn]]
"""Turns by conversation and id."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


async def turns_in_log(log: Log, conversations: Collection[str]) -> Turns:
    """The turns of these conversations in the turns log. A turn that came twice is as it came last."""
    keys = {each.encode("utf-8", "replace") for each in conversations}
    found: list[Turn] = []
    for partition in range(log.partitions):
        async for batch in log.read(partition, 0):
            found += (turn for record in batch if record.key in keys and (turn := _turn(record)) is not None)
    return by_conversation(found)


def _turn(record: Stored) -> Turn | None:
    if record.headers:
        return None  # a tick, or what the evaluate stage carries forward
    try:
        return turn_from_json(record.value)
    except BadInput:
        return None  # the evaluate stage put it aside


def by_conversation(turns: Iterable[Turn]) -> Turns:
    """Turns in the order in which they are looked up."""
    found: dict[str, dict[str, Turn]] = {}
    for turn in turns:
        found.setdefault(conversation_key(turn), {})[turn.turn_id] = turn
    return found


def case_of(evaluation: Evaluation, turns: Turns) -> Turn | Conversation | None:
    """What was judged; None if not all of it is there any more."""
    members = turns.get(evaluation.subject.conversation_id, {})
    if evaluation.scope == "turn":
        return members.get(evaluation.subject.turn_id or "")
    return _conversation(evaluation, members)


def _conversation(evaluation: Evaluation, members: Mapping[str, Turn]) -> Conversation | None:
    """The conversation as it was then: without the turns that came later.

    An evaluation names its turns by their spans, and says how many there were. Turns without spans are told by number
    alone: if there are more by now, nobody knows which were meant.
    """
    links = set(evaluation.subject.links)
    turns = [each for each in members.values() if not links or (each.trace_id, each.span_id) in links]
    count = evaluation.attributes.get("turns", len(links) or len(turns))
    if not turns or len(turns) != count:
        return None
    ordered = sorted(turns, key=_order)
    return Conversation(
        **said_of_whole(ordered),
        conversation_id=evaluation.subject.conversation_id,
        turns=tuple(replace(each, history=()) for each in ordered),  # it repeats the turns before
        closed_by=str(evaluation.attributes.get("closed_by", "")) or None,
        revision=evaluation.subject.revision,
        attributes=evaluation.attributes,
    )


def _order(turn: Turn) -> tuple[datetime, str]:
    return turn.started_at or _LONG_AGO, turn.turn_id


def identity_of(case: Turn | Conversation) -> tuple[str, str]:
    """The subject's id and revision, as they go into an evaluation's id."""
    if isinstance(case, Turn):
        return case.turn_id, "1"
    return case.conversation_id, digest_of(each.turn_id for each in case.turns)
