"""The order in which a conversation of the past is judged again."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from evaluation_samples import of_conversation

from collector.logs.memory import MemoryLog
from collector.past.turns import by_conversation, case_of, turns_in_log
from collector.records.turns import turn_record
from evaluators.cases import Conversation, Turn


@pytest.mark.parametrize("ids", [("t-9", "t-10", "t-11"), ("b", "a")])
def test_turns_without_a_start_stand_in_the_order_of_their_arrival(ids: tuple[str, ...]) -> None:
    evaluation = of_conversation()
    subject = replace(evaluation.subject, conversation_id="c", links=())
    evaluation = replace(evaluation, subject=subject, attributes={})
    turns = by_conversation(
        (Turn(turn_id=each, conversation_id="c", input="q", actual_output="a"), 1.0) for each in ids
    )
    judged = case_of(evaluation, turns)
    assert isinstance(judged, Conversation)
    assert [turn.turn_id for turn in judged.turns] == list(ids)


def test_a_turn_without_a_start_counts_from_when_it_was_first_received() -> None:
    started = Turn(turn_id="b", conversation_id="c", started_at=datetime.fromtimestamp(5.0, UTC))
    early, late = (Turn(turn_id=each, conversation_id="c") for each in ("z", "a"))
    [members] = by_conversation([(early, 4.0), (late, 6.0), (started, 7.0), (early, 8.0)]).values()
    assert list(members) == ["z", "b", "a"]


async def test_between_partitions_the_time_of_receipt_decides() -> None:
    """The number of partitions has changed while the conversation went on."""
    log = MemoryLog("turns", partitions=2)
    for partition, turn_id, received in ((1, "b", 4.0), (0, "a", 5.0), (1, "c", 6.0)):
        record = turn_record(Turn(turn_id=turn_id, conversation_id="c"))
        await log.append([replace(record, partition=partition, timestamp=received)])
    [members] = (await turns_in_log(log, ["c"])).values()
    assert list(members) == ["b", "a", "c"]
