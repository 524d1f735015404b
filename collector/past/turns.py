"""Past turns and conversations as subjects of evaluations, from the turns log or files, and people's labels of them."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from collector.logs.log import Log, StoredRecord
from collector.logs.whole_log import read_partitions, read_records
from collector.records.attributes import with_declared
from collector.records.json import label_from_json, readable, turn_from_json
from collector.records.shared_records import divide_records
from collector.records.turns import conversation_key, in_order
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Turn
from evaluators.identity import link_of
from evaluators.results import Evaluation, Label


async def labels_in(log: Log) -> AsyncIterator[Label]:
    """Every label of the labels log, partition by partition, without feedback. Raises LogUnavailable."""
    async for record in read_records(log):
        # Other records are feedback, ticks, and labels that a later version wrote.
        if not record.headers and (label := readable(label_from_json, record.value)) is not None:
            yield label


async def newest_labels(log: Log, evaluator: str | None = None) -> Sequence[Label]:
    """The valid label of each person for each evaluation, of one evaluator or of all.

    The later label counts, unless the same person picked the later one and labelled the earlier one because it was
    drawn.
    """
    newest: dict[tuple[str, str | None], Label] = {}
    async for label in labels_in(log):
        if evaluator in (None, label.evaluator):
            key = label.evaluation_id, label.given_by
            newest[key] = max(label, newest.get(key, label), key=_rank)
    return list(newest.values())


def _rank(label: Label) -> tuple[bool, float]:
    return label.label_probability is not None, label.given_at.timestamp()


Turns = Mapping[str, Mapping[str, Turn]]
"""Turns by conversation and id, those of a conversation in its order."""

NO_ATTRIBUTES: Mapping[str, Sequence[str]] = {}


async def turns_in_log(
    log: Log,
    conversations: Collection[str],
    declared: Mapping[str, Sequence[str]] = NO_ATTRIBUTES,
    starts: Sequence[int] | None = None,
) -> Turns:
    """The turns of these conversations in the turns log (from `starts` on), with the application's `declared`
    attributes.

    If a turn came twice, the later one is taken.
    """
    keys = {conversation.encode("utf-8", "replace") for conversation in conversations}
    arrivals: list[tuple[Turn, float]] = []
    async for batch in read_partitions(log, starts):
        members = ((readable_turn(record), record) for record in divide_records(batch) if record.key in keys)
        arrivals += ((with_declared(turn, declared), record.timestamp) for turn, record in members if turn is not None)
    return by_conversation(arrivals)


def readable_turn(record: StoredRecord) -> Turn | None:
    """The turn in a record; None if it holds none, or none that this version can read."""
    # Ticks and snapshots of the evaluate stage have headers; that stage dead-lettered a turn that cannot be read.
    return None if record.headers else readable(turn_from_json, record.value)


def by_conversation(arrivals: Iterable[tuple[Turn, float]]) -> Turns:
    """Turns by conversation and id. They come in the order of arrival, each with the time at which it was received.

    A turn that comes again is taken as it is then, but was received when it first came.
    """
    grouped: dict[str, dict[str, tuple[Turn, float]]] = {}
    for turn, received in arrivals:
        members = grouped.setdefault(conversation_key(turn), {})
        members[turn.turn_id] = turn, members.get(turn.turn_id, (turn, received))[1]
    return {key: {turn.turn_id: turn for turn in in_order(members.values())} for key, members in grouped.items()}


def case_of(evaluation: Evaluation, turns: Turns) -> Turn | Conversation | None:
    """The subject; None if not all of its turns are available."""
    members = turns.get(evaluation.subject.conversation_id, {})
    if evaluation.scope == "turn":
        return members.get(evaluation.subject.turn_id or "")
    return _conversation(evaluation, members)


def _conversation(evaluation: Evaluation, members: Mapping[str, Turn]) -> Conversation | None:
    """The conversation as it was then: without the turns that came later.

    An evaluation has a link for each of its turns, and their number. Without links, if the conversation has more turns
    now, it is unknown which ones were judged.
    """
    links = set(evaluation.subject.links)
    turns = [turn for turn in members.values() if not links or link_of(turn) in links]
    if not turns or len(turns) != evaluation.attributes.get("turns", len(links) or len(turns)):
        return None
    return Conversation(
        **conversation_fields(turns),
        conversation_id=evaluation.subject.conversation_id,
        turns=tuple(replace(turn, history=()) for turn in turns),  # its history repeats the turns before it
        closed_by=str(evaluation.attributes.get("closed_by", "")) or None,
        revision=evaluation.subject.revision,
        attributes=evaluation.attributes,
    )
