"""The pace of looks at a log, with time passed in."""

from __future__ import annotations

from hypothesis import given, strategies as st

from collector.logs.consumer_runner import AT_ONCE, INTERVAL, MANY, MUCH, DeliveryPace

GAPS = st.floats(0.0, 3 * INTERVAL)


def looked(pace: DeliveryPace, records: int, now: float, size: int = 100) -> float:
    pace.add(records, size, now)
    return pace.wait(now)


def test_the_first_looks_after_a_pause_are_at_once_and_then_each_waits() -> None:
    pace, now = DeliveryPace(), 1000.0
    waits: list[float] = []
    for _ in range(AT_ONCE + 3):
        waits.append(round(looked(pace, 5, now), 6))
        now += waits[-1]
    assert waits == [0.0] * (AT_ONCE - 1) + [INTERVAL] * 4


def test_what_comes_now_and_then_never_waits() -> None:
    pace = DeliveryPace()
    assert [looked(pace, 1, 1000.0 + number * 1.01 * INTERVAL) for number in range(50)] == [0.0] * 50


def test_a_look_with_many_records_is_followed_at_once_and_an_empty_one_counts_for_nothing() -> None:
    pace = DeliveryPace()
    for _ in range(2 * AT_ONCE):
        assert looked(pace, MANY, 1000.0) == looked(pace, 1, 1000.0, MUCH) == looked(pace, 0, 1000.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 2 * MANY), GAPS), max_size=60))
def test_no_wait_is_longer_than_the_interval_and_small_looks_keep_to_the_rate(looks: list[tuple[int, float]]) -> None:
    pace, start = DeliveryPace(), 1000.0
    now, small = start, 0
    for records, gap in looks:
        now += gap
        small += 0 < records < MANY
        assert small <= (now - start) / INTERVAL + AT_ONCE + 1e-6
        wait = looked(pace, records, now)
        assert 0.0 <= wait <= INTERVAL + 1e-6
        now += wait
