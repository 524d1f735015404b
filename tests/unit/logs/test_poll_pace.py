"""The pace of polls, with time passed in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.logs.kafka.poll_pace import AT_ONCE, INTERVAL, MANY, PollPace

GAPS = st.floats(0.0, 3 * INTERVAL)


def polled(pace: PollPace, records: int, now: float) -> float:
    pace.add(records, now)
    return pace.wait(now)


def test_the_first_polls_after_a_pause_are_at_once_and_then_each_waits() -> None:
    pace, now = PollPace(), 1000.0
    waits: list[float] = []
    for _ in range(AT_ONCE + 3):
        waits.append(round(polled(pace, 5, now), 6))
        now += waits[-1]
    assert waits == [0.0] * (AT_ONCE - 1) + [INTERVAL] * 4


def test_what_comes_now_and_then_never_waits() -> None:
    pace = PollPace()
    assert [polled(pace, 1, 1000.0 + number * 1.01 * INTERVAL) for number in range(50)] == [0.0] * 50


def test_a_poll_of_many_records_is_followed_at_once_and_an_empty_one_counts_for_nothing() -> None:
    pace = PollPace()
    for _ in range(2 * AT_ONCE):
        assert polled(pace, MANY, 1000.0) == polled(pace, 0, 1000.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 2 * MANY), GAPS), max_size=60))
def test_no_wait_is_longer_than_the_interval_and_small_polls_keep_to_the_rate(polls: list[tuple[int, float]]) -> None:
    pace, start = PollPace(), 1000.0
    now, small = start, 0
    for records, gap in polls:
        now += gap
        small += 0 < records < MANY
        assert small <= (now - start) / INTERVAL + AT_ONCE + 1e-6
        wait = polled(pace, records, now)
        assert 0.0 <= wait <= INTERVAL + 1e-6
        now += wait
