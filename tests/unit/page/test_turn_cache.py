from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collector.page.view import OVERHEAD, TurnCache
from evaluators.cases import Turn


def turn(number: int, conversation: str, **changes: Any) -> Turn:
    started = datetime.fromtimestamp(1_800_000_000 + number, UTC)
    return Turn(turn_id=f"t{number}", conversation_id=conversation, started_at=started, input=f"q{number}", **changes)


def add(texts: TurnCache, number: int, conversation: str, size: int = 100, partition: int = 0) -> None:
    texts.add(turn(number, conversation), size, partition, number, float(number))


def ids(texts: TurnCache, conversation: str) -> list[str]:
    return [each.turn_id for each in texts.turns(conversation)]


def test_turns_come_in_the_order_of_their_start_and_each_once():
    texts = TurnCache(1 << 20)
    for number in (3, 1, 2, 1):
        add(texts, number, "a")
    assert ids(texts, "a") == ["t1", "t2", "t3"]
    assert texts.turn("a", "t2").input == "q2"
    assert texts.turn("a", "t9") is None


def test_a_turn_without_a_start_counts_from_when_it_was_first_received():
    texts = TurnCache(1 << 20)
    early, late = (Turn(turn_id=each, conversation_id="a", input="q") for each in ("z", "a"))
    for position, (each, seconds) in enumerate([(early, 1), (late, 3), (turn(2, "a"), 4), (early, 5)]):
        texts.add(each, 100, 0, position, 1_800_000_000.0 + seconds)
    assert ids(texts, "a") == ["z", "t2", "a"]
    assert texts.lowest(0) == 0


def test_a_turn_without_conversation_is_one_of_its_own():
    texts = TurnCache(1 << 20)
    texts.add(Turn(turn_id="t1", trace_id="f00"), 10, 0, 1, 1.0)
    assert ids(texts, "f00") == ["t1"]


def test_what_nobody_wants_goes_first_then_the_oldest():
    texts = TurnCache(3 * (100 + OVERHEAD))
    add(texts, 1, "judged")
    texts.pin("judged")
    for number in range(2, 6):
        add(texts, number, f"c{number}")
    assert ids(texts, "judged") == ["t1"]
    assert [ids(texts, f"c{number}") for number in range(2, 6)] == [[], [], ["t4"], ["t5"]]


def test_even_what_is_wanted_stays_within_the_budget():
    texts = TurnCache(2 * (100 + OVERHEAD))
    for number in range(5):
        texts.pin(f"c{number}")
        add(texts, number, f"c{number}")
    assert [bool(ids(texts, f"c{number}")) for number in range(5)] == [False, False, False, True, True]


def test_what_is_released_by_all_is_gone():
    texts = TurnCache(1 << 20)
    add(texts, 1, "a")
    texts.pin("a")
    texts.pin("a")
    texts.unpin("a")
    assert ids(texts, "a") == ["t1"]
    texts.unpin("a")
    assert ids(texts, "a") == []


def test_the_lowest_position_is_never_above_the_oldest_kept_turn():
    texts = TurnCache(20 * (100 + OVERHEAD))
    for number in range(2000):
        add(texts, number, f"c{number % 50}", partition=number % 2)
        for partition in (0, 1):
            kept = [
                each.position
                for place in (texts._pinned, texts._unpinned)
                for talk in place.values()
                for each in talk.values()
                if each.partition == partition
            ]
            if kept:
                assert texts.lowest(partition) <= min(kept)
    assert texts.lowest(0) > 1000, "and it moves on"


def test_a_partition_that_is_given_up_takes_its_turns_along():
    texts = TurnCache(1 << 20)
    add(texts, 1, "a", partition=0)
    add(texts, 2, "b", partition=1)
    texts.forget(0)
    assert (ids(texts, "a"), ids(texts, "b"), texts.lowest(0)) == ([], ["t2"], None)
