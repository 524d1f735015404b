"""Records that were appended here, for one consumer: they are those of the log, or none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from collector.logs.log import StoredRecord
from collector.logs.sqlite_rows import FreshRecords, gaps_of

BATCH_RECORDS, BATCH_BYTES = 3, 20

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 15), min_size=1, max_size=5)),
        st.tuples(st.just("another process appends"), st.integers(1, 3)),
        st.tuples(st.just("take"), st.none()),
    ),
    max_size=40,
)


@given(steps)
def test_a_consumer_that_reads_what_is_missing_gets_all_in_order(steps: list[tuple[str, object]]) -> None:
    fresh, log, position = FreshRecords(BATCH_RECORDS, BATCH_BYTES), list[StoredRecord](), 0
    for step, value in steps:
        if step == "append":
            new = [record(len(log) + number, size) for number, size in enumerate(value)]
            log += new
            fresh.add(new)
        elif step == "another process appends":
            log += [record(len(log) + number, 1) for number in range(value)]
        elif position < len(log):
            taken, behind = fresh.take_batch(position, len(log))
            assert sum(len(each.value) for each in taken[:-1]) < BATCH_BYTES
            missing = [each for start, end in gaps_of(taken, position, behind) for each in log[start:end]]
            assert sorted([*taken, *missing], key=lambda each: each.offset) == log[position:behind]
            assert behind <= position + BATCH_RECORDS if taken else behind == len(log)
            position = behind
        assert sum(len(each.value) for each in fresh._records) == fresh._bytes <= 2 * BATCH_BYTES


def test_what_was_appended_and_read_since_is_not_given_again() -> None:
    fresh = FreshRecords(10, 1000)
    fresh.add([record(number, 1) for number in range(5)])
    assert taken_of(fresh, 3, 5) == ([3, 4], 5)
    assert taken_of(fresh, 3, 5) == ([], 5)


def test_what_lies_beyond_a_batch_stays() -> None:
    fresh = FreshRecords(3, 1000)
    fresh.add([record(number, 1) for number in (0, 2, 3)])
    assert taken_of(fresh, 0, 4) == ([0, 2], 3)
    assert taken_of(fresh, 3, 4) == ([3], 4)


def test_what_fills_a_batch_by_its_bytes_ends_it() -> None:
    fresh = FreshRecords(10, 1000)
    fresh.add([record(number, 600) for number in range(3)])
    assert taken_of(fresh, 0, 3) == ([0, 1], 2)


def taken_of(fresh: FreshRecords, start: int, end: int) -> tuple[list[int], int]:
    records, behind = fresh.take_batch(start, end)
    return [each.offset for each in records], behind


@pytest.mark.parametrize(
    ("offsets", "gaps"),
    [
        ([], [(3, 9)]),
        ([3, 4, 5, 6, 7, 8], []),
        ([5, 6], [(3, 5), (7, 9)]),
        ([3, 8], [(4, 8)]),
    ],
)
def test_gaps_are_what_records_leave_out(offsets: list[int], gaps: list[tuple[int, int]]) -> None:
    assert gaps_of([record(each, 1) for each in offsets], 3, 9) == gaps


def record(offset: int, size: int) -> StoredRecord:
    return StoredRecord(0, offset, float(offset), None, b"x" * size)
