"""Rows of the SQLite log."""

from __future__ import annotations

from hypothesis import given, strategies as st

from collector.logs.log import TICK
from collector.logs.sqlite_rows import headers_from_bytes, headers_to_bytes, offset_of, row_id

headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.binary(max_size=50)))


@given(headers)
def test_headers_come_back(given_headers: list[tuple[str, bytes]]) -> None:
    assert headers_from_bytes(headers_to_bytes(tuple(given_headers))) == tuple(given_headers)


def test_a_tick_comes_back_as_the_same_object() -> None:
    assert headers_from_bytes(headers_to_bytes(TICK)) is TICK


@given(st.integers(0, 63), st.integers(0, 4095), st.integers(0, 2**45 - 1))
def test_rows_are_ordered_by_log_partition_and_offset(log: int, partition: int, offset: int) -> None:
    row = row_id(log, partition, offset)
    assert row < 2**63
    assert offset_of(row) == offset
    assert row_id(log, partition, 0) <= row < row_id(log, partition + 1, 0) <= row_id(log + 1, 0, 0)
