"""Records that were appended here, for one consumer: they are those of the log, or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.logs.fresh_records import FreshRecords
from collector.logs.log import StoredRecord

MOST_BYTES = 40

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 15), min_size=1, max_size=5)),
        st.tuples(st.just("another process appends"), st.integers(1, 3)),
        st.tuples(st.just("take"), st.tuples(st.integers(1, 4), st.integers(1, 30))),
    ),
    max_size=40,
)


@given(steps)
def test_a_consumer_that_reads_what_is_missing_gets_all_in_order(steps: list[tuple[str, object]]) -> None:
    fresh, log, position = FreshRecords(MOST_BYTES), list[StoredRecord](), 0
    for step, given_to in steps:
        if step == "append":
            new = [record(len(log) + number, size) for number, size in enumerate(given_to)]
            log += new
            fresh.add(new)
        elif step == "another process appends":
            log += [record(len(log) + number, 1) for number in range(given_to)]
        elif position < len(log):
            most, most_bytes = given_to
            taken = fresh.take(position, most, most_bytes)
            assert taken == log[position : position + len(taken)]
            assert len(taken) <= most
            assert sum(len(each.value) for each in taken[:-1]) < most_bytes
            missing = [] if taken else log[position : fresh.start]
            assert taken or missing
            position += len(taken or missing)
        assert sum(len(each.value) for each in fresh._records) == fresh._bytes <= MOST_BYTES


def test_what_was_appended_and_read_since_is_not_given_again() -> None:
    fresh = FreshRecords(1000)
    fresh.add([record(number, 1) for number in range(5)])
    assert [each.offset for each in fresh.take(3, 10, 100)] == [3, 4]
    assert fresh.start is None
    assert fresh.take(3, 10, 100) == []


def record(offset: int, size: int) -> StoredRecord:
    return StoredRecord(0, offset, float(offset), None, b"x" * size)
