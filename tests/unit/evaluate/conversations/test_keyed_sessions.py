from dataclasses import asdict, replace
from typing import Any

import pytest

from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.packed_turn import IncomingTurn, pack, prior_user_hashes
from collector.evaluate.conversations.session_window import SessionWindowSettings, WindowResult
from collector.evaluate.conversations.snapshot import outline_snapshot, parse_snapshot, snapshot_record
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.records.json import turn_to_json
from collector.records.recorded_turn import RecordedTurn
from evaluators.cases import Message, Turn

ENDS = SessionWindowSettings(idle_gap=10, allowed_lateness=100)


class Seen:
    """Conversations fed with turns at a position and time each; what closed, in order."""

    def __init__(self, ends: SessionWindowSettings = ENDS) -> None:
        self.conversations = KeyedSessions(ends)
        self.closed: list[WindowResult] = []
        self.position = 0
        self.time = 0.0

    def add(
        self, turn_id: str, at: float, conversation: str = "c", *, said: str = "", history: Any = (), **how: Any
    ) -> str:
        self.advance(at)
        turn = Turn(
            turn_id=turn_id, input=said or turn_id, history=tuple(Message(role="user", content=h) for h in history)
        )
        recorded = RecordedTurn(turn_to_json(turn))
        incoming = IncomingTurn(turn_id, pack(recorded, at), prior_user_hashes(recorded), **how)
        window, closed = self.conversations.add(
            conversation, incoming, ReplayPoint(self.position, self.time), self.time
        )
        self.closed += closed
        self.position += 1
        return "new" if window else "duplicate"

    def advance(self, time: float) -> list[WindowResult]:
        self.time = max(self.time, time)
        before = len(self.closed)
        self.closed += self.conversations.advance(self.time, self.position)
        return self.closed[before:]


def ids(closed: WindowResult) -> list[str]:
    return [turn_id for turn_id, _ in closed.turns]


def test_closes_when_idle_with_turns_in_order_of_their_start() -> None:
    seen = Seen()
    seen.add("t2", 101.0)
    seen.add("t1", 100.0)
    assert seen.conversations.due_at == 111.0
    assert seen.advance(110.9) == []
    (closed,) = seen.advance(111.0)
    assert (ids(closed), closed.closed_by, closed.revision, closed.supersedes, closed.replay_point.offset) == (
        ["t1", "t2"], "idle", 1, (), 0,
    )  # fmt: skip
    assert seen.conversations.open == 0
    assert [each.unpack(turn_id, "c").input for turn_id, each in closed.turns] == ["t1", "t2"]


def test_a_turn_that_comes_twice_changes_nothing() -> None:
    seen = Seen()
    assert [seen.add("t", 1.0), seen.add("t", 9.0)] == ["new", "duplicate"]
    assert len(seen.advance(11.0)) == 1
    assert seen.add("t", 50.0) == "duplicate"
    assert seen.advance(1000.0) == []


def test_a_turn_that_comes_twice_defers_what_is_remembered_of_its_conversation() -> None:
    """Else a replay that takes the second for the first would remember more than there is."""
    seen = Seen()
    seen.add("t1", 1.0)
    assert len(seen.advance(11.0)) == 1
    assert seen.add("t1", 50.0) == "duplicate"
    assert (seen.advance(259.9), len(seen.conversations)) == ([], 1)
    record = snapshot_record("m", *next(seen.conversations.items()), 2, 0)
    [window] = parse_snapshot(record.value).windows
    assert (window.touched_at, window.last_ignored_at) == (1.0, 50.0)
    assert (seen.advance(260.0), len(seen.conversations)) == ([], 0)


def test_a_late_turn_reopens_as_the_next_revision_that_supersedes_the_last() -> None:
    seen = Seen()
    seen.add("t1", 1.0)
    (first,) = seen.advance(20.0)
    seen.add("t0", 0.5)
    (second,) = seen.advance(31.0)
    assert (ids(second), second.revision, second.supersedes) == (["t0", "t1"], 2, (first.closed_revision,))
    assert second.closed_revision.digest != first.closed_revision.digest
    assert seen.advance(1000.0) == []
    assert seen.conversations.low_watermark is None
    assert (len(seen.conversations), seen.conversations.size, seen.conversations.due_at) == (0, 0, None)


def test_who_comes_back_after_the_allowance_opens_afresh_however_late() -> None:
    seen = Seen()
    seen.add("t1", 1.0)
    seen.add("t2", 111.0)
    assert [ids(each) for each in seen.advance(500.0)] == [["t2"]]
    assert seen.add("t3", 200.0) == "new"
    assert seen.add("t4", 499.0) == "new"
    assert [ids(each) for each in seen.advance(600.0)] == [["t3"], ["t4"]]


@pytest.mark.parametrize("age", [0.0, 30.0, 120.0, 1800.0, 86_400.0, 1e6])
def test_a_conversation_that_comes_late_as_a_whole_is_one_conversation(age: float) -> None:
    """A receiver was down, or a topic is read after an outage: fresh turns of others come between."""
    seen = Seen(SessionWindowSettings(idle_gap=10, allowed_lateness=100, max_age=3600))
    now = 2e6
    seen.add("fresh 0", now, "other 0")
    for number in range(3):
        seen.add(f"t{number}", now - age + number, "c")
        seen.add(f"fresh {number + 1}", now + number + 1, f"other {number + 1}")
    seen.advance(now + 100)
    whole = [closed for closed in seen.closed if closed.conversation_id == "c"]
    assert [(ids(closed), closed.closed_by, closed.revision) for closed in whole] == [(["t0", "t1", "t2"], "idle", 1)]


def test_turns_of_a_late_conversation_that_are_far_apart_end_it_at_its_age() -> None:
    seen = Seen(SessionWindowSettings(idle_gap=1000, allowed_lateness=1000, max_age=3000))
    now = 2e6
    seen.add("fresh", now, "other")
    for number in range(4):
        seen.add(f"t{number}", now - 90_000 + number * 900, "c")
    assert not seen.closed
    assert [ids(closed) for closed in seen.advance(now + 301)] == [["t0", "t1", "t2", "t3"]]
    assert seen.closed[-1].closed_by == "max_age"


def test_a_turn_that_belongs_to_two_conversations_makes_them_one() -> None:
    seen = Seen()
    seen.add("t1", 0.0)
    seen.add("t3", 150.0)
    assert len(seen.conversations) == 2
    seen.add("t2", 70.0)
    assert len(seen.conversations) == 1
    (closed,) = seen.advance(160.0)
    assert (ids(closed), closed.revision, len(closed.supersedes)) == (["t1", "t2", "t3"], 2, 1)
    assert closed.replay_point.offset == 0
    seen.advance(1000.0)
    assert (len(seen.conversations), seen.conversations.size) == (0, 0)


def test_turns_that_came_at_one_time_stand_in_the_order_of_their_arrival_not_of_their_ids() -> None:
    """They are records of one append: `t-10` stood before `t-9`, and was not the last turn, which may end it."""
    seen = Seen()
    for turn_id in ("t-9", "t-10", "t-11"):
        seen.add(turn_id, 1.0, ends_conversation=turn_id == "t-10")
    assert [(ids(each), each.closed_by) for each in seen.closed] == [(["t-9", "t-10"], "explicit")]
    assert [ids(each) for each in seen.advance(20.0)] == [["t-9", "t-10", "t-11"]]


def test_a_turn_may_end_it_and_turns_before_that_one_end_it_again() -> None:
    seen = Seen()
    seen.add("t2", 2.0, ends_conversation=True)
    assert [(ids(each), each.closed_by) for each in seen.closed] == [(["t2"], "explicit")]
    seen.add("t1", 1.0)
    assert [(ids(each), each.closed_by) for each in seen.closed[1:]] == [(["t1", "t2"], "explicit")]
    seen.add("t3", 5.0)
    (closed,) = seen.advance(20.0)
    assert (ids(closed), closed.closed_by, closed.revision) == (["t1", "t2", "t3"], "idle", 3)


def test_limits_close_let_the_texts_go_and_what_comes_later_opens_afresh() -> None:
    seen = Seen(SessionWindowSettings(idle_gap=10, allowed_lateness=100, max_turns=2))
    seen.add("t1", 1.0)
    seen.add("t2", 2.0)
    assert [(ids(each), each.closed_by) for each in seen.closed] == [(["t1", "t2"], "max_turns")]
    assert seen.conversations.size < 1000
    assert [seen.add("t1", 3.0), seen.add("t3", 3.0)] == ["duplicate", "new"]
    assert [ids(each) for each in seen.advance(13.0)] == [["t3"]]
    by_bytes = Seen(SessionWindowSettings(max_bytes=1000))
    for n in range(3):
        by_bytes.add(f"t{n}", float(n))
    assert [each.closed_by for each in by_bytes.closed] == ["max_bytes"]
    aged = Seen(SessionWindowSettings(idle_gap=10, max_age=25))
    for n in range(5):
        aged.add(f"t{n}", 6.0 * n)
    assert aged.closed == []
    assert [(ids(each), each.closed_by) for each in aged.advance(25.0)] == [([f"t{n}" for n in range(5)], "max_age")]
    disordered = Seen(SessionWindowSettings(idle_gap=10, allowed_lateness=100, max_age=25))
    disordered.add("t2", 26.0)
    disordered.add("t1", 0.0)
    assert [(ids(each), each.closed_by) for each in disordered.closed] == [(["t1", "t2"], "max_age")]


def test_the_oldest_is_evicted_closed_early() -> None:
    seen = Seen()
    for name in "abc":
        seen.add(f"t-{name}", 1.0, name)
    (victim,) = seen.conversations.oldest(1)
    assert victim == "a"
    (closed,) = seen.conversations.evict(victim)
    assert (closed.conversation_id, closed.closed_by) == ("a", "evicted")
    assert len(seen.conversations) == 2
    assert [mark.offset for mark in seen.conversations.take_released()] == [0]
    assert seen.conversations.low_watermark == ReplayPoint(1, 1.0)


def test_messages_of_the_user_that_came_in_no_turn_are_gaps() -> None:
    seen = Seen()
    seen.add("t1", 1.0, said="one", history=["an example"])
    seen.add("t4", 4.0, said="four", history=["an example", "one", "two", "three"])
    seen.add("t2", 2.0, said="two", history=["an example", "one "])
    (closed,) = seen.advance(100.0)
    assert closed.missing_messages == 1


def test_the_strongest_boost_and_the_highest_rate_of_its_turns_are_its_own() -> None:
    seen = Seen()
    seen.add("t1", 1.0, rate=0.1, boost=1.0, upstream=0.5)
    seen.add("t2", 2.0, rate=0.3, boost=4.0, stratum="error", upstream=0.5)
    seen.add("t3", 3.0, rate=0.2, boost=2.0, stratum="slow", upstream=0.5)
    (closed,) = seen.advance(100.0)
    assert (closed.closed_revision.rate, closed.closed_revision.boost, closed.stratum, closed.upstream) == (
        0.3,
        4.0,
        "error",
        0.5,
    )
    seen.add("u1", 300.0, "d", upstream=0.5)
    seen.add("u2", 301.0, "d", upstream=0.25)
    assert seen.advance(400.0)[0].upstream is None


def test_a_snapshot_is_valid_while_its_conversation_has_not_changed() -> None:
    seen = Seen()
    unchanged = seen.conversations.unchanged
    seen.add("t1", 1.0)  # at position 0
    assert unchanged("c", first_offset=0, since=1)
    assert not unchanged("c", first_offset=1, since=1), "another conversation of the same id"
    assert not unchanged("d", first_offset=0, since=1)
    seen.add("t2", 2.0)  # at position 1
    assert not unchanged("c", first_offset=0, since=1)
    assert unchanged("c", first_offset=0, since=2)
    assert len(seen.advance(20.0)) == 1  # before the record at position 2
    assert not unchanged("c", first_offset=0, since=2), "it was closed meanwhile"


def test_what_needs_old_records_is_snapshotted_once_and_again_if_that_was_not_valid() -> None:
    seen = Seen()
    for name in "abc":
        seen.add(f"t-{name}", 1.0, name)  # at positions 0, 1, 2

    def behind(position: int, number: int = 10) -> list[str]:
        return [name for name, _ in seen.conversations.needing_snapshot(position, 0.0, number)]

    assert [behind(0), behind(2), behind(2, number=1), behind(9)] == [[], ["a", "b"], ["a"], ["a", "b", "c"]]
    assert [name for name, _ in seen.conversations.needing_snapshot(0, 1.5, 10)] == ["a", "b", "c"], "by their time"
    ((_, conversation),) = seen.conversations.needing_snapshot(1, 0.0, 10)
    conversation.snapshot_pending = True
    assert behind(2) == ["b"]
    seen.conversations.discard("a")
    assert behind(2) == ["a", "b"]


def test_a_confirmed_snapshot_is_what_reading_it_would_make_of_the_conversation() -> None:
    """What came to nothing since it was written is unknown to a replay that begins with it."""
    confirmed, restored = Seen(), Seen()
    for seen in (confirmed, restored):
        seen.add("t1", 1.0)
        seen.add("u1", 120.0)
        seen.add("t1", 121.0)  # comes twice
        seen.add("e1", 122.0, "other")
    record = snapshot_record("m", "c", dict(confirmed.conversations.items())["c"], 4, 0)
    for seen in (confirmed, restored):
        seen.add("u1", 124.0)
        assert seen.conversations.unchanged("c", 0, 4)
    outline, whole = outline_snapshot(record.value), parse_snapshot(record.value)
    assert (outline.first, outline.since, len(outline.last_ignored_at)) == (0, 4, len(whole.windows))
    confirmed.conversations.confirm_snapshot("c", outline.last_ignored_at, ReplayPoint(6, 125.0))
    restored.conversations.restore("c", whole.windows, ReplayPoint(6, 125.0))
    shapes: list[Any] = []
    for seen in (confirmed, restored):
        [(first, _), (name, conversation)] = seen.conversations.items()
        assert (first, name) == ("other", "c")
        windows = [asdict(each) | {"timer_at": None} for each in conversation.windows]
        shapes.append((windows, replace(conversation, windows=[]), seen.conversations.take_released()))
        shapes[-1][0][-1]["last_ignored_at"] = max(windows[-1]["last_ignored_at"], windows[-1]["touched_at"])
        assert (len(seen.conversations), seen.conversations.turns) == (len(windows) + 1, 1 + len(windows))
    assert repr(shapes[0]) == repr(shapes[1])
    found = [
        [
            [(*ids(each), each.replay_point.offset) for each in seen.advance(time)] + [len(seen.conversations)]
            for time in (140.0, *range(325, 340))
        ]
        for seen in (confirmed, restored)
    ]
    assert found[0] == found[1]
    assert (found[0][0], found[0][-1]) == ([("u1", 6), ("e1", 3), 3], [0])
    for seen in (confirmed, restored):
        assert (len(seen.conversations), seen.conversations.turns, seen.conversations.size) == (0, 0, 0)


def test_forgetting_many_leaves_the_timers_of_the_others() -> None:
    seen = Seen()
    seen.add("t", 1.0, "stays")
    for n in range(1100):
        seen.add(f"t{n}", 1.0, f"goes-{n}")
    for n in range(1100):
        seen.conversations.evict(f"goes-{n}")
    assert [(each.conversation_id, each.closed_by) for each in seen.advance(11.0)] == [("stays", "idle")]
