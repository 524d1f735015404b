"""A replay that begins within a conversation has forgotten it when the one that saw all of it has.

It takes a part of the turns for the whole, one that came twice for a new one, and a full window for one that has room.
That does no harm as long as nothing of it is left when the conversation is over: what comes then is the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import example, given, settings, strategies as st

from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.packed_turn import NO_HASHES, IncomingTurn, pack
from collector.evaluate.conversations.session_window import ClosedRevision, SessionWindowSettings
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.records.json import turn_to_json
from collector.records.recorded_turn import RecordedTurn
from evaluators.cases import Turn

SETTINGS = SessionWindowSettings(idle_gap=30.0, allowed_lateness=20.0, max_turns=3, max_age=200.0)
Arrival = tuple[int, float, float, bool]
"""The number of a turn, the pause (s) before the log took it, how late it is (s), and whether it says that it ends."""


@dataclass(frozen=True)
class Step:
    """What an arrival found: whether any window was left once time had passed, and what closed by time and by it."""

    is_new: bool
    by_time: list[ClosedRevision]
    by_turn: list[ClosedRevision]


def steps_of(arrivals: list[Arrival], start: int) -> list[Step]:
    """What is made of the arrivals from `start` on by sessions that know of none before."""
    sessions, now, steps = KeyedSessions(SETTINGS), 1000.0, list[Step]()
    for offset, (number, pause, late, ends) in enumerate(arrivals):
        before, now = now, now + pause
        if offset < start:
            continue
        by_time = [each.closed_revision for each in sessions.advance(now, offset)]
        turn = RecordedTurn(turn_to_json(Turn(turn_id=f"t{number}", input="?")))
        incoming = IncomingTurn(turn.turn_id, pack(turn, now - late), NO_HASHES, ends_conversation=ends)
        is_new = len(sessions) == 0
        _, closed = sessions.add("c", incoming, ReplayPoint(offset, before), now)
        steps.append(Step(is_new, by_time, [each.closed_revision for each in closed]))
    return steps


@example([(0, 1.0, 0.0, False), (0, 13.0, 0.0, False), (0, 60.0, 0.0, False), (1, 1.0, 0.0, False)])  # it came again
@example(  # what comes late finds no room
    [(0, 1.0, 0.0, False), (1, 1.0, 0.0, False), (2, 1.0, 0.0, False), (3, 45.0, 60.0, False), (4, 30.0, 10.0, False)]
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from([0.0, 1.0, 13.0, 29.0, 45.0, 69.0, 75.0]),
            st.sampled_from([0.0, 0.0, 5.0, 49.0, 60.0]),
            st.sampled_from([False, False, False, True]),
        ),
        max_size=14,
    )
)
@settings(max_examples=300, deadline=None)
def test_nothing_of_a_conversation_outlives_it(arrivals: list[Arrival]) -> None:
    whole = steps_of(arrivals, 0)
    for start in range(1, len(arrivals)):
        part = [*whole[:start], *steps_of(arrivals, start)]
        over = next((n for n in range(start, len(arrivals)) if whole[n].is_new), None)
        if over is not None:  # what closes by its time is done: it became due before the conversation was over
            assert part[over:] == [replace(whole[over], by_time=part[over].by_time), *whole[over + 1 :]]
